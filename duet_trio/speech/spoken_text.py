"""From what a model writes to what a voice may say and history may keep; streaming.

Thoughts and control tokens go first (`tags`), then markdown, addresses and emoji (`markup`).
The joined output does not depend on where the stream was split.

Normal form of the output: no leading white space, runs of spaces are one space, no more than
one empty line, no spaces after a line break, no control or format characters. Otherwise plain
text comes through as it is: ``5 < 10``, ``<3``, ``a * b``, ``2*3*4``, ``snake_case``, ``#1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from duet_trio.speech.markup import MarkupFilter
from duet_trio.speech.tags import TagFilter


class SpokenText:
    """Cleans one answer. ``control_tokens``: the texts of the model's own control tokens.

    Text is held back only while it may still turn out to be markup: at most 44 characters (or
    the longest control token) plus `markup.HOLD_BACK`; ordinary prose is not held at all.
    """

    def __init__(self, control_tokens: Sequence[str] = ()) -> None:
        self._tags = TagFilter(control_tokens)
        self._markup = MarkupFilter()

    @property
    def first_emoji(self) -> str | None:
        """The first emoji of the answer, for the board's face; never part of the text."""
        return self._markup.first_emoji

    @property
    def held(self) -> int:
        """Characters held back now."""
        return self._tags.held + self._markup.held

    def feed(self, text: str) -> str:
        """Take text as the model wrote it; give what is certain to be spoken."""
        return self._markup.feed(self._tags.feed(text))

    def finish(self) -> str:
        """The model is done: decide and give what was held back."""
        return self._markup.feed(self._tags.feed("", final=True), final=True)
