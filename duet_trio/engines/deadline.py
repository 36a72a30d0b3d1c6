"""When a job is overdue: plain arithmetic on times that are passed in."""

from __future__ import annotations

import math

#: A cancelled job that its engine cannot interrupt gets at least this long before it counts
#: as hung: libqwen's longest step is 0.5 s on a CPU, a whisper call 0.4-0.9 s.
DISOWNED_S = 2.0


class Deadline:
    """``first_s`` until the first output, then ``stall_s`` from one to the next, and never
    more than ``total_s`` in all. Runs from `start`: not while the job waits for a slot.
    """

    def __init__(
        self, first_s: float, *, stall_s: float = math.inf, total_s: float = math.inf
    ) -> None:
        self._first_s = first_s
        self._stall_s = stall_s
        self._total_s = total_s
        self._end = math.inf
        self.at = math.inf

    def start(self, now: float) -> None:
        """The engine has been asked."""
        self._end = now + self._total_s
        self.at = min(now + self._first_s, self._end)

    def progress(self, now: float) -> None:
        """It put something out."""
        self.at = min(now + self._stall_s, self._end)

    def disown(self, now: float) -> None:
        """Nobody waits any more: what remains of it, but at least `DISOWNED_S`.

        A job without a total (a writer) may go on putting out for ``first_s`` more.
        """
        if self._end == math.inf:
            self._end = now + self._first_s
        self._end = max(self._end, now + DISOWNED_S)
        self.at = min(max(self.at, now + DISOWNED_S), self._end)
