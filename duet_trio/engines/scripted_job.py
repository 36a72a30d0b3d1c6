"""One scripted job in time: its output, a cancel, a pause and an injected fault.

The effects are those of ``injected``, here as changes of a schedule instead of sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from duet_trio.engines.injected import SLOW_FACTOR, flood_message, garbage
from duet_trio.engines.pipe import (
    Cancelled,
    DoneSpeak,
    DoneTranscribe,
    DoneWrite,
    Failed,
    FromWorker,
    Injected,
    Job,
)
from duet_trio.engines.scripted_output import Output

FINAL = (DoneSpeak, DoneTranscribe, DoneWrite, Failed)


@dataclass(frozen=True, slots=True)
class Act:
    """What only the process around the engine can do: crash, stop, garbage, flood."""

    effect: str
    data: bytes = b""


class ScriptedJob:
    """A job's schedule. ``due``: when `step` has to be called; ``over``: it has ended."""

    def __init__(self, job: Job, output: Output, now: float) -> None:
        self.number = job.id
        self._job = job
        self.over = False
        self._inject = job.inject
        self._output = output
        self._items = 0
        self._slow_factor = 0.0
        self._deaf = False
        self._late_s = 0.0
        self._cancel_at: float | None = None
        self._next: float | None = now
        self._plan(now)

    @property
    def due(self) -> float | None:
        """When something happens next; None: never (it hangs)."""
        times = [time for time in (self._next, self._cancel_at) if time is not None]
        return min(times, default=None)

    def cancel(self, now: float) -> None:
        """It was cancelled: at once, later, or never if a fault says so."""
        if not self._deaf and self._cancel_at is None:
            self._cancel_at = now + self._late_s

    def pause(self, now: float) -> None:
        """The step is to end: at once, but not out of a hang."""
        self._output.pause()
        if self._next is not None:
            self._next = min(self._next, now)

    def step(self) -> list[FromWorker | Act]:
        """Do what is due."""
        now = self.due
        if now is None:
            return []
        if self._cancel_at is not None and self._cancel_at <= now:
            self.over = True
            return [Cancelled(self.number)]
        if self._fault_is_due():
            out = self._commit()
            if self._next is not None:
                self._plan(now)
            return out
        message = self._output.make()
        self._items += 1
        if isinstance(message, FINAL):
            if self._cancel_at is not None:  # late: it stays until its time is over
                self._next = None
                return []
            self.over = True
            return [message]
        self._plan(now)
        return [message] if message is not None else []

    def _plan(self, now: float) -> None:
        takes_s = 0.0 if self._fault_is_due() else self._output.takes_s(self._slow_factor)
        self._next = now + takes_s

    def _fault_is_due(self) -> bool:
        return self._inject is not None and self._inject.at == self._items

    def _commit(self) -> list[FromWorker | Act]:
        inject = self._inject
        assert inject is not None
        self._inject = None
        out: list[FromWorker | Act] = [Injected(self.number, inject.effect)]
        match inject.effect:
            case "hang":
                self._next = None
                self._deaf = True
            case "error":
                self.over = True
                out.append(Failed(self.number, "injected error"))
            case "crash" | "stop":
                out.append(Act(inject.effect))
            case "garbage":
                out.append(Act("garbage", garbage(self.number)))
            case "flood":
                out.append(Act("flood", flood_message(self._job)))
            case "slow":
                self._slow_factor = inject.value or SLOW_FACTOR
            case "late":
                self._late_s = inject.value
            case "deaf":
                self._deaf = True
            case "empty" | "short" | "endless":
                self._output.end(inject.effect)
            case unknown:
                self.over = True
                out = [Failed(self.number, f"unknown effect '{unknown}'")]
        return out
