"""Admission: how many answers may speak at once.

At a real-time factor of 0.6 two boards served by urgency alone stall for 21.7 s in each 68 s
answer (simulated on the reference figures): together they need 1.2 seconds of GPU per second.
So an answer starts only while the measured factors, its own included, stay under a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from duet_trio.events import NullRecorder, Recorder

#: The factors are running estimates: whoever is first in the queue looks again this often.
RECHECK_S = 0.25
MAX_LOAD = 0.9


@dataclass(eq=False, slots=True)
class _Answer:
    board: str | None
    rtf: Callable[[], float]
    changed: trio.Event = field(default_factory=trio.Event)


class Admission:
    """Lets answers in, first come first served; one alone always."""

    def __init__(self, max_load: float = MAX_LOAD, recorder: Recorder | None = None) -> None:
        self._max_load = max_load
        self._recorder = recorder if recorder is not None else NullRecorder()
        self._speaking: list[_Answer] = []
        self._waiting: deque[_Answer] = deque()

    @asynccontextmanager
    async def admit(self, board: str | None, *, rtf: Callable[[], float]) -> AsyncIterator[None]:
        """Wait to be let in, speak, leave. ``rtf`` gives that answer's real-time factor now.

        A checkpoint; unbounded, so put a deadline around the waiting. A cancel leaves nothing
        behind.
        """
        answer = _Answer(board, rtf)
        asked_at = trio.current_time()
        self._waiting.append(answer)
        try:
            await trio.lowlevel.checkpoint()
            while not self._fits(answer):
                answer.changed = trio.Event()
                with trio.move_on_after(RECHECK_S):
                    await answer.changed.wait()
            # No checkpoint between the look and this: nobody can have come in meanwhile.
            self._speaking.append(answer)
        finally:
            self._waiting.remove(answer)
            self._look_again()
        waited_ms = round(1000 * (trio.current_time() - asked_at), 1)
        self._recorder.emit("admission", board=board, waited_ms=waited_ms)
        try:
            yield
        finally:
            self._speaking.remove(answer)
            self._look_again()

    def statistics(self) -> dict[str, float]:
        """``speaking``, ``waiting`` (answers), ``load`` (the speaking ones' factors together)."""
        return {
            "speaking": len(self._speaking),
            "waiting": len(self._waiting),
            "load": self._load(),
        }

    def _load(self) -> float:
        return sum(answer.rtf() for answer in self._speaking)

    def _fits(self, answer: _Answer) -> bool:
        if answer is not self._waiting[0]:
            return False
        return not self._speaking or self._load() + answer.rtf() <= self._max_load

    def _look_again(self) -> None:
        if self._waiting:
            self._waiting[0].changed.set()
