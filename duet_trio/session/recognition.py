"""Recognition of one board's utterances: at most one at a time, begun early where it can be.

A speculative request starts in the silence that may be the end. If it was the end, its result is
(nearly) there when the endpoint is decided; if speech went on, the result is dropped. Dropping
never waits: the engine's client disowns what it cannot interrupt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from duet_trio.engines.contracts import Asr, ListenRequest, Transcript
from duet_trio.errors import EngineError


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance and what was recognised in it; ``asr_ms`` from the endpoint to the text."""

    transcript: Transcript
    pcm: bytes
    speech_ms: int
    ended_at: float
    asr_ms: float


class _Job:
    """One request to the recogniser."""

    def __init__(self, request: ListenRequest) -> None:
        self.request = request
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.transcript: Transcript | None = None
        self.error: EngineError | None = None


class Recognition:
    """Runs recognition jobs in ``nursery``; results go to the callbacks, in order of decision."""

    def __init__(
        self,
        asr: Asr,
        nursery: trio.Nursery,
        *,
        board: str,
        language: Callable[[], str],
        on_heard: Callable[[Heard], None],
        on_failure: Callable[[EngineError], None],
    ) -> None:
        self._asr = asr
        self._nursery = nursery
        self._board = board
        self._language = language
        self._on_heard = on_heard
        self._on_failure = on_failure
        self._speculation: _Job | None = None
        self._current: _Job | None = None

    @property
    def is_busy(self) -> bool:
        """Is an ended utterance being recognised?"""
        return self._current is not None

    def speculate(self, pcm: bytes) -> None:
        """Begin early with what may be the whole utterance. Synchronous."""
        self._drop_speculation()
        self._speculation = self._start(pcm, speculative=True)

    def resume(self) -> None:
        """Speech went on: the speculation is worth nothing."""
        self._drop_speculation()

    def utterance(
        self, pcm: bytes, *, speech_ms: int, ended_at: float, speculation_valid: bool
    ) -> None:
        """An utterance has ended; its text goes to ``on_heard``. Synchronous.

        A recognition still running for an earlier utterance is dropped: the newest counts.
        """
        if self._current is not None:
            self._current.scope.cancel(reason="newer utterance")
            self._current = None
        job = self._speculation if speculation_valid else None
        if job is None:
            self._drop_speculation()
            job = self._start(pcm, speculative=False)
        self._speculation = None
        self._current = job
        self._nursery.start_soon(self._deliver, job, pcm, speech_ms, ended_at)

    def drop(self) -> None:
        """Forget everything that is under way. Synchronous."""
        self._drop_speculation()
        if self._current is not None:
            self._current.scope.cancel(reason="dropped")
            self._current = None

    def _start(self, pcm: bytes, *, speculative: bool) -> _Job:
        job = _Job(ListenRequest(pcm, self._board, self._language(), speculative))
        self._nursery.start_soon(self._run, job)
        return job

    async def _run(self, job: _Job) -> None:
        with job.scope:
            try:
                job.transcript = await self._asr.transcribe(job.request)
            except EngineError as error:
                job.error = error
        job.done.set()

    async def _deliver(self, job: _Job, pcm: bytes, speech_ms: int, ended_at: float) -> None:
        decided_at = trio.current_time()
        await job.done.wait()
        if self._current is not job:
            return
        self._current = None
        if job.error is not None:
            self._on_failure(job.error)
        elif job.transcript is not None:
            took_ms = (trio.current_time() - decided_at) * 1000
            self._on_heard(Heard(job.transcript, pcm, speech_ms, ended_at, round(took_ms, 1)))

    def _drop_speculation(self) -> None:
        if self._speculation is not None:
            self._speculation.scope.cancel(reason="speech went on")
            self._speculation = None
