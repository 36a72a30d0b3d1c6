"""Cuts a stream of spoken text into the pieces that a voice gets, one call each.

The pieces joined are the stream, white space included (a piece may begin with it; a voice
gets ``piece.text.strip()``), except for a last bit without any letter or digit that comes after
the last piece was closed: it has nobody to be joined to and is dropped. With a fixed budget the
pieces do not depend on how the stream was split.

A piece closes at the first sentence or clause end that its `Ruler` accepts, once the text
behind the end decides that it is one; else before it grows beyond 250 characters or what the
`Ruler` allows (which is less in scripts that take longer to speak): at its last sentence end,
clause end or space, in this order, and in scripts without spaces anywhere.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import regex

from duet_trio.speech.boundaries import candidates, scan, scan_stalled
from duet_trio.speech.budget import End
from duet_trio.speech.measure import MAX_WEIGHT, first_speakable, speakable, speech_units

#: Longest piece in characters.
MAX_CHARACTERS = 250

#: A clause that is spoken alone because the writer stalls; less of it sounds like a slip.
STALLED_CLAUSE_UNITS = 30

_LEAST_SHARE = 6  # a forced cut leaves no crumbs in front: at least a sixth of what fits
_EXTENDS = regex.compile(r"[\p{M}\u200c\u200d\ufe0e\ufe0f]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text for one call of the voice; ``index`` counts from 0 within the answer."""

    index: int
    text: str


class Ruler(Protocol):
    """Decides whether a piece may close; `budget.Budget` is the real one."""

    def enough(self, text: str, *, at: End, first: bool, audio_ahead_s: float = 0.0) -> bool:
        """Whether a piece that ends here gives enough audio."""

    def longest_units(self, *, first: bool) -> int:
        """How long a piece may become, at most `MAX_UNITS`."""


class PieceMaker:
    """The pieces of one answer."""

    def __init__(self, budget: Ruler) -> None:
        self._budget = budget
        self._text = ""
        self._scanned = 0
        self._sentence_cut = 0  # ends that the budget found too early, for a forced cut
        self._clause_cut = 0
        self._closed: deque[Piece] = deque()
        self._count = 0

    @property
    def ready(self) -> bool:
        """Whether `take` would give a piece: the language model may pause now."""
        return bool(self._closed)

    @property
    def pending(self) -> str:
        """Text that is not yet in a piece."""
        return self._text

    def feed(self, text: str, *, audio_ahead_s: float = 0.0) -> None:
        """Take spoken text; ``audio_ahead_s`` is what of earlier pieces is made and not played."""
        self._text += text
        self._cut(audio_ahead_s, final=False)

    def take(self) -> Piece | None:
        """The next closed piece, if there is one."""
        return self._closed.popleft() if self._closed else None

    def flush_stalled(self) -> bool:
        """The writer has stalled: close a piece at the last end that the text has by now.

        That is a sentence end, or a clause end behind at least `STALLED_CLAUSE_UNITS`, also one
        that the budget found too early or that the next token could still undo. False: the
        text has no such end, and nothing has changed.
        """
        cut = self._sentence_cut
        if speech_units(self._text[: self._clause_cut]) >= STALLED_CLAUSE_UNITS:
            cut = max(cut, self._clause_cut)
        at = candidates(self._text, self._scanned)
        if at >= 0:
            end = scan_stalled(self._text, at)
            long_enough = speech_units(self._text[: end.stop]) >= STALLED_CLAUSE_UNITS
            if end.kind == "sentence" or (end.kind == "clause" and long_enough):
                cut = end.stop
        if not speakable(self._text[:cut]):
            return False
        self._close(cut)
        return True

    def finish(self) -> None:
        """The text is complete: what is left becomes the last piece, if it can be spoken."""
        self._cut(0.0, final=True)
        if speakable(self._text):
            self._close(len(self._text))
        self._text = ""

    def _cut(self, audio_ahead_s: float, *, final: bool) -> None:
        while True:
            limit = self._limit()
            # A piece that is too long is cut by what stands up to the limit alone: what has
            # arrived behind it must not matter.
            text = self._text[: limit + 1] if limit else self._text
            at = candidates(text, self._scanned)
            if at < 0:
                if not limit:
                    self._scanned = len(text)
                    return
                self._force(limit)
                continue
            end = scan(text, at, final=final and not limit)
            if limit and (end.kind == "undecided" or end.stop > limit):
                self._force(limit)
            elif end.kind == "undecided":
                self._scanned = at
                return
            else:
                self._scanned = max(at + 1, end.stop)
                if end.kind != "none":
                    self._consider(end.stop, end.kind, audio_ahead_s)

    def _consider(self, index: int, kind: End, audio_ahead_s: float) -> None:
        text = self._text[:index]
        if not speakable(text):
            return
        first = self._count == 0
        if self._budget.enough(text, at=kind, first=first, audio_ahead_s=audio_ahead_s):
            self._close(index)
        elif kind == "sentence":
            self._sentence_cut = index
        else:
            self._clause_cut = index

    def _limit(self) -> int:
        """How much of the text fits in one piece; 0 while all of it does.

        Counted from the first letter or digit, so that every piece has one.
        """
        longest = self._budget.longest_units(first=self._count == 0)
        start = first_speakable(self._text)
        if start < 0 or len(self._text) - start <= longest // MAX_WEIGHT:
            return 0
        limit = min(len(self._text), start + min(MAX_CHARACTERS, longest))
        while speech_units(self._text[start:limit]) > longest:
            limit -= 1
        return limit if limit < len(self._text) else 0

    def _force(self, limit: int) -> None:
        least = limit // _LEAST_SHARE
        for cut in (self._sentence_cut, self._clause_cut, self._text.rfind(" ", 0, limit + 1)):
            if cut >= least and speakable(self._text[:cut]):
                self._close(cut)
                return
        while limit > 1 and _EXTENDS.match(self._text[limit]):
            limit -= 1
        self._close(limit)

    def _close(self, index: int) -> None:
        self._closed.append(Piece(self._count, self._text[:index]))
        self._count += 1
        self._text = self._text[index:]
        self._scanned = self._sentence_cut = self._clause_cut = 0
