"""What the language model is told of the conversation: what was *heard*, not what was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import regex

Role = Literal["system", "user", "assistant"]

#: Put behind an answer that was interrupted, so that the model knows it was not finished.
INTERRUPTED = " …"

_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]")
_OVERHEAD_TOKENS = 4  # role marks around a message in common templates


def estimate_tokens(text: str) -> int:
    """Tokens of ``text``, rounded up: 4 Latin characters or 1 CJK character each."""
    wide = len(_CJK.findall(text))
    return wide + -(-(len(text) - wide) // 4)


class History:
    """One conversation. Turns are trimmed whole, oldest first; the system prompt stays."""

    def __init__(self, system_prompt: str, max_tokens: int) -> None:
        self._system_prompt = system_prompt.strip()
        self._max_tokens = max_tokens
        self._turns: list[tuple[str, str]] = []  # (question, what was heard; may be empty)

    @property
    def last_answer(self) -> str:
        """What was heard last, for recognising an echo of it; empty if nothing was."""
        return self._turns[-1][1] if self._turns else ""

    def messages(self, question: str) -> list[tuple[Role, str]]:
        """The prompt for ``question``: system, then user and assistant in turn, user last.

        Nothing empty; a question whose answer was never heard is joined to the next one.
        Trimmed to ``max_tokens`` by estimate, but the system prompt and ``question`` always stay.
        """
        fixed = _cost(self._system_prompt) + _cost(question)
        kept: list[tuple[str, str]] = []
        for turn in reversed(self._turns):
            fixed += _cost(turn[0]) + _cost(turn[1])
            if fixed > self._max_tokens:
                break
            kept.insert(0, turn)
        lines: list[tuple[Role, str]] = []
        if self._system_prompt:
            lines.append(("system", self._system_prompt))
        for asked, heard in kept:
            _append(lines, "user", asked)
            _append(lines, "assistant", heard)
        _append(lines, "user", question)
        return lines

    def heard(self, question: str, text: str, interrupted: bool = False) -> None:
        """Close a turn: ``text`` of the answer reached the listener (empty: nothing did)."""
        question, text = question.strip(), text.strip()
        if interrupted and text:
            text += INTERRUPTED
        if question or text:
            self._turns.append((question, text))
        self._forget()

    def clear(self) -> None:
        """Forget all turns."""
        self._turns.clear()

    def _forget(self) -> None:
        """Drop turns that can never fit again, so that a long session stays small."""
        total = _cost(self._system_prompt)
        for index in range(len(self._turns) - 1, -1, -1):
            total += _cost(self._turns[index][0]) + _cost(self._turns[index][1])
            if total > self._max_tokens:
                del self._turns[: index + 1]
                return


def _cost(text: str) -> int:
    return estimate_tokens(text) + _OVERHEAD_TOKENS if text else 0


def _append(lines: list[tuple[Role, str]], role: Role, text: str) -> None:
    text = text.strip()
    if not text:
        return
    if lines and lines[-1][0] == role:
        lines[-1] = (role, f"{lines[-1][1]}\n{text}")
    else:
        lines.append((role, text))


def heard_text(pieces: Sequence[tuple[str, int, int]]) -> str:
    """What was heard of an answer: per piece its text, its packets in all, its packets played.

    ``packets in all`` may be an estimate while a piece is still being made. The first piece
    that was not played to its end is cut by its share, back to a word border (any character
    in scripts without spaces); what follows it was not heard.
    """
    heard = ""
    for text, total, played in pieces:
        if total > 0 and played >= total:
            heard += text
            continue
        if total > 0 and played > 0:
            heard += _share(text, played / total)
        break
    return heard.strip()


def _share(text: str, share: float) -> str:
    end = int(len(text) * share)
    while 0 < end < len(text) and not _border(text[end - 1], text[end]):
        end -= 1
    return text[:end].rstrip()


def _border(before: str, after: str) -> bool:
    return (
        before.isspace()
        or after.isspace()
        or _CJK.match(before) is not None
        or _CJK.match(after) is not None
    )
