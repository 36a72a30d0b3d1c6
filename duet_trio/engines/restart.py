"""When a worker that died is started again: at once, then later and later."""

from __future__ import annotations

import math

#: A worker that has served for this long starts its next failures from zero.
GOOD_LIFE_S = 60.0
LONGEST_BACKOFF_S = 30.0
#: As many failures in a row count at most for a worker that had been given work: half a second.
SHORTLY = 2


def backoff_s(failures: int) -> float:
    """Seconds before the start after that many failures in a row: 0, 0.5, 1, 2 … 30."""
    if failures <= 1:
        return 0.0
    return float(min(LONGEST_BACKOFF_S, 0.5 * 2 ** min(failures - 2, 10)))


class RestartPolicy:
    """Counts the failures of one engine's workers. All times are of one clock, in seconds.

    The long waits are for engines that cannot be loaded, or fall over by themselves. One that was
    given work and hung in it loads again soon; people wait for it, and it is their questions that
    set the pace.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._good_since = math.inf
        self._has_worked = False

    @property
    def wait_s(self) -> float:
        """How long to wait before the next start."""
        return backoff_s(self._failures)

    def begin(self) -> None:
        """A worker starts."""
        self._good_since = math.inf
        self._has_worked = False

    def ready(self, now: float) -> None:
        """It has loaded."""
        self._good_since = now

    def given_work(self) -> None:
        """It has a job to do."""
        self._has_worked = True

    def end(self, now: float) -> None:
        """It is gone."""
        if now - self._good_since >= GOOD_LIFE_S:
            self._failures = 1
        elif self._has_worked:
            self._failures = min(self._failures + 1, SHORTLY)
        else:
            self._failures += 1
