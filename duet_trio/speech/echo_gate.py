"""Half-duplex: whose microphone audio counts, by times alone.

A board without echo cancellation hears its own answer, so what it sends during an answer is
dropped until that answer has played out, and a little longer for the room and the last DMA
buffer; after an abort as well, because the lead at the board still plays.
"""

from __future__ import annotations

import math

#: From the estimated end of playback until the microphone counts again.
GUARD_S = 0.2


class HalfDuplex:
    """One board's gate. Open at first; times are seconds of any one clock."""

    def __init__(self, guard_s: float = GUARD_S) -> None:
        self._guard_s = guard_s
        self._closed_until = -math.inf

    def close(self) -> None:
        """An answer begins: closed until `open_after` is called."""
        self._closed_until = math.inf

    def open_after(self, playback_end: float) -> None:
        """That answer is over (done, aborted or failed); its sound ends at ``playback_end``."""
        self._closed_until = playback_end + self._guard_s

    @property
    def opens_at(self) -> float:
        """When it opens: ``inf`` during an answer, in the past when open."""
        return self._closed_until

    def is_open(self, now: float) -> bool:
        """Whether microphone audio that arrives at ``now`` counts."""
        return now >= self._closed_until
