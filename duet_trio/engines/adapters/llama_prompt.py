"""Chat messages → prompt text by the model's own template, cut to what fits (library-free).

The template comes from the model file; the formatter that renders it is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from duet_trio.engines.contracts import Message

#: Renders role/content messages to the prompt's text; raises when the template refuses them.
Render = Callable[[Sequence[Message]], str]
#: Marks around a model's thoughts: they are passed on as text, so that whoever cleans the
#: text for the voice can drop everything between them.
_THOUGHT = re.compile(r"think|thought|channel|reason", re.IGNORECASE)
_RESERVED = re.compile(r"unused|reserved|extra_id|dummy", re.IGNORECASE)


class ChatPrompt:
    """Makes prompts. ``refusals`` are the errors by which a template refuses a role or order."""

    def __init__(
        self,
        render: Render,
        count: Callable[[str], int],
        control_tokens: Iterable[str],
        refusals: tuple[type[Exception], ...],
    ) -> None:
        self._render = render
        self._count = count
        self._refusals = refusals
        marks = sorted({token for token in control_tokens if len(token) > 1}, key=len)
        self._marks = re.compile("|".join(re.escape(mark) for mark in reversed(marks)) or r"(?!)")

    def text(self, messages: Sequence[Message]) -> str:
        """The whole prompt. Control tokens inside contents are removed: what somebody says to
        a microphone must not open a turn of another role.
        """
        clean = [Message(m.role, self._marks.sub("", m.content)) for m in messages]
        try:
            return self._render(clean)
        except self._refusals:
            return self._render(_without_system(clean))

    def fitting(self, messages: Sequence[Message], limit: int) -> str:
        """The prompt cut to ``limit`` tokens: oldest whole turns go first, the system prompt and
        the last question stay; a question that is too long alone loses its beginning.
        """
        system = [message for message in messages if message.role == "system"]
        turns = _turns([message for message in messages if message.role != "system"])
        while True:
            kept = [*system, *(message for turn in turns for message in turn)]
            text = self.text(kept)
            if self._count(text) <= limit:
                return text
            if len(turns) > 1:
                del turns[0]
                continue
            last = kept[-1]
            if last.role == "system" or len(last.content) < 2:
                return text
            turns = [[Message(last.role, last.content[(len(last.content) + 3) // 4 :])]]


def speakable_marks(special: Iterable[str], template: str) -> list[str]:
    """Of the vocabulary's special tokens those that a model may write into an answer.

    Fillers of the vocabulary (``<unused17>``) are left out: there can be thousands.
    """
    return sorted({text for text in special if text in template or not _RESERVED.search(text)})


def is_thought_mark(text: str) -> bool:
    """Does this special token open or close a thought?"""
    return bool(_THOUGHT.search(text))


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """For templates without a system role: its text goes in front of the first question."""
    system = "\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    if system and rest and rest[0].role == "user":
        rest[0] = Message("user", f"{system}\n\n{rest[0].content}")
    return rest


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """A question and what followed it."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns
