"""The head of the stream that all markup rules look at, and the text they let through.

A rule decides on the characters at the head. It says how many it used (they are gone, unless
it emitted them), or one of the three constants here. It may answer only when no continuation
of the text could change its mind: that makes the result independent of how the text was split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from duet_trio.speech.markup.symbols import EmojiCatcher, unspeakable

#: The rule needs more text.
MORE: Final = 0
#: The head is nothing of this rule's.
NOT_MINE: Final = -1
#: Nothing used, but the mode has changed: look again.
AGAIN: Final = -2

Rule = Callable[[], int]


class Head:
    """Input cursor and output of one answer. ``mode``: the rule that has taken over, if any."""

    def __init__(self) -> None:
        self.mode: Rule | None = None
        self.line_start = True
        self.final = False
        self.before = ""  # the input character before the head; empty at the start
        self.last_visible = ""  # of the output
        self.emoji = EmojiCatcher()
        self._buffer = ""
        self._at = 0
        self._size = 0
        self._out: list[str] = []
        self._tail = "\n\n"  # of the output; so leading white space is dropped

    @property
    def held(self) -> int:
        """Characters that wait."""
        return len(self._buffer)

    @property
    def char(self) -> str:
        """The first character."""
        return self._buffer[self._at]

    @property
    def left(self) -> int:
        """Characters there are, without the line break that stands for the end."""
        return self._size - self._at

    def open(self, text: str, *, final: bool) -> None:
        """Take more text. At the end a line break follows it, for the rules to see."""
        self._buffer += text
        self._size = len(self._buffer)
        self.final = final
        if final:
            self._buffer += "\n"

    def close(self) -> str:
        """Give what was let through; keep what waits."""
        out = "".join(self._out)
        self._out.clear()
        self._buffer = self._buffer[self._at : self._size]
        self._at = 0
        return out

    def peek(self, offset: int) -> str:
        """The character ``offset`` behind the head; empty where there is no text yet."""
        index = self._at + offset
        return self._buffer[index : index + 1]

    def find(self, text: str) -> int:
        """Distance of ``text`` from the head; -1: it is not there (yet)."""
        index = self._buffer.find(text, self._at)
        return index - self._at if index >= 0 else -1

    def run(self, char: str) -> int:
        """How often ``char`` stands at the head."""
        count = 0
        while self.peek(count) == char:
            count += 1
        return count

    def look(self, pattern: Any) -> Any:
        """The match at the head, None if there can be none, `MORE` if the text ends before it."""
        match = pattern.match(self._buffer, self._at, partial=not self.final)
        return MORE if match is not None and match.partial else match

    def length(self, match: Any) -> int:
        """Characters of a match."""
        return int(match.end()) - self._at

    def drop(self, pattern: Any) -> int:
        """The rule "what matches is dropped"."""
        match = self.look(pattern)
        if match is None:
            return NOT_MINE
        return MORE if match == MORE else self.length(match)

    def advance(self, used: int) -> None:
        """Go on by ``used`` characters."""
        used = min(used, self.left)
        self.before = self._buffer[self._at + used - 1]
        self._at += used

    def plain(self) -> int:
        """The rule of last resort: one character of text (or an emoji, or nothing to speak)."""
        char = self.char
        if self.emoji.takes(char) or unspeakable(char):
            return 1
        self.emit(char)
        return 1

    def literal(self, count: int) -> int:
        """Let ``count`` characters through as they are."""
        self.emit(self._buffer[self._at : self._at + count])
        return count

    def emit(self, text: str) -> None:
        """Put text out in the normal form of `spoken_text`."""
        for char in text:
            if char == "\n":
                if self._tail != "\n\n":
                    self._put("\n")
            elif char.isspace():
                if not self._tail[-1].isspace():
                    self._put(" ")
            else:
                self.last_visible = char
                self.line_start = False
                self._put(char)

    def _put(self, char: str) -> None:
        self._out.append(char)
        self._tail = self._tail[-1] + char
