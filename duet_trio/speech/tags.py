"""Thoughts and control tokens out of a stream of model text. First stage of `spoken_text`.

A control token is a text of the model's template, given by its engine, or anything of the
form ``<|name|>``, ``<|name>`` or ``<name|>``. A thought is what stands between the marks of
one of two families, nested or not; one that is never closed lasts to the end of the text.
Single pass: marks that only come together by the removal of others are text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import regex

_XML_NAMES = ("think", "thinking", "thought", "reasoning")

Family = Literal["xml", "channel"]
Action = Literal["open", "close", "drop"]

_GENERIC = regex.compile(r"<\|[^<>|\s]{1,40}\|?>|<[A-Za-z_]{1,40}\|>")


def _marks() -> dict[str, tuple[Action, Family | None]]:
    marks: dict[str, tuple[Action, Family | None]] = {}
    for name in _XML_NAMES:
        marks[f"<{name}>"] = ("open", "xml")
        marks[f"</{name}>"] = ("close", "xml")
    marks["<|channel>thought"] = ("open", "channel")  # Gemma 4
    marks["<channel|>"] = ("close", "channel")
    return marks


class TagFilter:
    """Streaming; case does not matter. Holds back at most the longest mark (44 characters or
    the longest control token), and only text that may still become one.
    """

    def __init__(self, control_tokens: Sequence[str] = ()) -> None:
        given: dict[str, tuple[Action, Family | None]] = {
            token.lower(): ("drop", None)
            for token in control_tokens
            # Templates also list plain words and line breaks; those are text.
            if len(token) >= 3 and regex.search(r"[^\w\s]", token)
        }
        marks = given | _marks()
        # Longest first: the decision then never depends on where the stream was split.
        self._marks = sorted(marks.items(), key=lambda item: -len(item[0]))
        firsts = "".join(sorted({mark[0] for mark in marks} | {"<"}))
        self._first = regex.compile(f"[{regex.escape(firsts)}]", regex.IGNORECASE)
        self._buffer = ""
        self._family: Family | None = None
        self._depth = 0

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._buffer)

    def feed(self, text: str, *, final: bool = False) -> str:
        """Take text, give text; ``final`` decides all that is held back."""
        self._buffer += text
        out: list[str] = []
        at = 0
        while at < len(self._buffer):
            found = self._first.search(self._buffer, at)
            mark = found.start() if found else len(self._buffer)
            if not self._depth:
                out.append(self._buffer[at:mark])
            at = mark
            if found is None:
                break
            used, action, family = self._match(at, final=final)
            if not used:
                break
            if action is None:
                if not self._depth:
                    out.append(self._buffer[at : at + used])
            else:
                self._act(action, family)
            at += used
        self._buffer = self._buffer[at:]
        return "".join(out)

    def _match(self, at: int, *, final: bool) -> tuple[int, Action | None, Family | None]:
        """Length used, and the mark found there if any; length 0: more text is needed."""
        for mark, (action, family) in self._marks:
            part = self._buffer[at : at + len(mark)].lower()
            if part == mark:
                return len(mark), action, family
            if mark.startswith(part) and not final and at + len(part) == len(self._buffer):
                return 0, None, None
        generic = _GENERIC.match(self._buffer, at, partial=not final)
        if generic is None:
            return 1, None, None
        if generic.partial:
            return 0, None, None
        return generic.end() - at, "drop", None

    def _act(self, action: Action, family: Family | None) -> None:
        if action == "open" and (not self._depth or family == self._family):
            self._family = family
            self._depth += 1
        elif action == "close" and self._depth and family == self._family:
            self._depth -= 1
