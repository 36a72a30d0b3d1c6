"""Pure arithmetic of playback: when does a player run dry, how long should it have waited.

Everything here takes ``arrivals``: blocks of audio in playing order, each ``(t, audio_s)``,
meaning that ``audio_s`` seconds of audio became available at time ``t`` (seconds, any
origin). Blocks without audio are ignored.

The player: it begins ``buffer_s`` after the first block has arrived, plays without a pause
as long as it has audio, and after it ran dry goes on the moment audio is there again (stock
boards buffer nothing by themselves; the delay stands for the lead that the server gives
them). Rejected: a player that waits until ``buffer_s`` *of audio* have arrived. A voice that
delivers its first second as one burst fills it at once, so it would protect nothing, and
its figures can't be compared with the start delay. With this player they are two views of
the same thing: the stalls add up to ``max(0, start_delay - buffer_s)``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

Arrival = tuple[float, float]

#: One Opus packet of audio to a board.
FRAME_S = 0.06
#: Traces are written to the microsecond; a lateness below two of them is rounding.
EPSILON_S = 2e-6


class Stall(msgspec.Struct, frozen=True):
    """The player ran dry at ``at`` (same clock as the arrivals) for ``duration_s``."""

    at: float
    duration_s: float


class Span(msgspec.Struct, frozen=True):
    """One uninterrupted stretch of playback."""

    start: float
    end: float


def playback(arrivals: Iterable[Arrival], buffer_s: float = 0.0) -> list[Span]:
    """Return when the player was sounding; the gaps between the spans are its stalls."""
    spans: list[Span] = []
    start = end = 0.0
    sounding = False
    for t, audio_s in arrivals:
        if audio_s <= 0:
            continue
        if not sounding:
            start = end = t + buffer_s
            sounding = True
        elif t > end + EPSILON_S:
            spans.append(Span(start, end))
            start = end = t
        end += audio_s
    if sounding:
        spans.append(Span(start, end))
    return spans


def stalls(arrivals: Sequence[Arrival], buffer_s: float) -> list[Stall]:
    """Return every time a player with a buffer of ``buffer_s`` runs dry before the end.

    The end of the last block is the end of the answer and no stall.
    """
    spans = playback(arrivals, buffer_s)
    return [
        Stall(before.end, after.start - before.end) for before, after in itertools.pairwise(spans)
    ]


def start_delay(arrivals: Sequence[Arrival]) -> float:
    """Return how long a player had to wait, from the first block on, to never run dry.

    The maximum over the blocks of (arrival - time at which a player needs the block that
    began when the first one arrived), at least 0.0. Counted to the sample; counted in whole
    packets it can be up to one packet (60 ms) more, since a packet needs its last sample.
    """
    first: float | None = None
    needed = worst = 0.0
    for t, audio_s in arrivals:
        if audio_s <= 0:
            continue
        if first is None:
            first = needed = t
        worst = max(worst, t - needed)
        needed += audio_s
    return worst if worst > EPSILON_S else 0.0


def gaps(times: Sequence[float]) -> list[float]:
    """Return the distances between neighbours."""
    return [after - before for before, after in itertools.pairwise(times)]


class Distribution:
    """Counts of values, kept to three significant digits: bounded memory for any number.

    ``maximum`` and ``mean`` are exact, quantiles are within 0.5 %.
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._counts: Counter[float] = Counter()
        self._sum = 0.0
        self.count = 0
        self.maximum = float("-inf")
        self.minimum = float("inf")
        for value in values:
            self.add(value)

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[float(f"{value:.3g}")] += 1
        self._sum += value
        self.count += 1
        self.maximum = max(self.maximum, value)
        self.minimum = min(self.minimum, value)

    def merge(self, other: Distribution) -> None:
        """Add the values of ``other``."""
        self._counts.update(other._counts)
        self._sum += other._sum
        self.count += other.count
        self.maximum = max(self.maximum, other.maximum)
        self.minimum = min(self.minimum, other.minimum)

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self._sum / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """Return the smallest value that at least ``share`` (0-1) of the values don't exceed.

        None without values; 1.0 gives the exact maximum, 0.0 the exact minimum.
        """
        if not self.count:
            return None
        if share >= 1:
            return self.maximum
        if share <= 0:
            return self.minimum
        wanted = share * self.count
        seen = 0
        for value in sorted(self._counts):
            seen += self._counts[value]
            if seen >= wanted - 1e-9:
                return min(max(value, self.minimum), self.maximum)
        return self.maximum
