"""Recognition of one board's turns: begun early where it can be, joined where speech went on.

A speculative request starts in the silence that may be the end. If it was the end, its result is
(nearly) there when the endpoint is decided; if speech went on, the result is dropped. Dropping
never waits: the engine's client disowns what it cannot interrupt.

A person who pauses for longer than the endpoint has not finished: if they speak again before
their turn has gone to the model, both parts make one turn. So nothing that was said is lost, and
nobody is answered in mid-sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from duet_trio.engines.contracts import Asr, ListenRequest, Transcript
from duet_trio.errors import EngineError
from duet_trio.speech.unfinished import is_unfinished

#: Utterances that are joined to one turn at most; then the turn goes out as it stands.
MAX_PARTS = 4


@dataclass(frozen=True, slots=True)
class Speech:
    """One utterance. ``ended_at``: trio time of its last voice; ``over_answer``: it interrupted;
    ``whole``: the talk key said that it is complete.
    """

    pcm: bytes
    speech_ms: int
    ended_at: float
    over_answer: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance and what was recognised in it; ``asr_ms`` from the endpoint to the text."""

    transcript: Transcript
    speech: Speech
    asr_ms: float


class _Job:
    """One request to the recogniser."""

    def __init__(self, request: ListenRequest) -> None:
        self.request = request
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.transcript: Transcript | None = None
        self.error: EngineError | None = None


@dataclass(slots=True)
class _Part:
    """An utterance of the turn under way."""

    job: _Job
    speech: Speech
    asr_ms: float = 0.0


class Recognition:
    """Runs recognition jobs in ``nursery``; whole turns go to the callbacks.

    ``still_speaking``: the person has begun again, or holds the talk key. ``patience_s``: how much
    longer a turn waits that breaks off ("I would like a").
    """

    def __init__(
        self,
        asr: Asr,
        nursery: trio.Nursery,
        *,
        board: str,
        language: Callable[[], str],
        on_heard: Callable[[Sequence[Heard]], None],
        on_failure: Callable[[EngineError], None],
        patience_s: float = 0.0,
    ) -> None:
        self._asr = asr
        self._nursery = nursery
        self._board = board
        self._language = language
        self._on_heard = on_heard
        self._on_failure = on_failure
        self._speculation: _Job | None = None
        self._parts: list[_Part] = []
        self._cut_short = False
        self._patience_s = patience_s
        self.still_speaking: Callable[[], bool] = lambda: False

    @property
    def is_busy(self) -> bool:
        """Is a turn being recognised, or waiting for its end?"""
        return bool(self._parts)

    def speculate(self, pcm: bytes) -> None:
        """Begin early with what may be the whole utterance. Synchronous."""
        self._drop_speculation()
        self._speculation = self._start(pcm, speculative=True)

    def resume(self) -> None:
        """Speech went on: the speculation is worth nothing."""
        self._drop_speculation()

    def utterance(self, speech: Speech, *, speculation_valid: bool, cut_short: bool) -> None:
        """An utterance has ended; its turn goes to ``on_heard`` when it is complete. Synchronous.

        ``cut_short``: the cap ended it, so the turn does not wait for the speaker's silence.
        """
        job = self._speculation if speculation_valid else None
        if job is None:
            self._drop_speculation()
            job = self._start(speech.pcm, speculative=False)
        self._speculation = None
        part = _Part(job, speech)
        self._parts.append(part)
        self._cut_short = self._cut_short or cut_short
        self._nursery.start_soon(self._wait, part)

    def settle(self) -> None:
        """Deliver the turn if it is complete: all recognised, and nobody speaks. Synchronous."""
        parts = self._parts
        if not parts or not all(part.job.done.is_set() for part in parts):
            return
        if self.still_speaking() and not self._cut_short and len(parts) < MAX_PARTS:
            return
        self._parts = []
        self._cut_short = False
        heard = [
            Heard(part.job.transcript, part.speech, part.asr_ms)
            for part in parts
            if part.job.transcript is not None
        ]
        errors = [part.job.error for part in parts if part.job.error is not None]
        if heard:
            self._on_heard(heard)
        elif errors:
            self._on_failure(errors[0])

    def drop(self) -> None:
        """Forget everything that is under way. Synchronous."""
        self._drop_speculation()
        for part in self._parts:
            part.job.scope.cancel(reason="dropped")
        self._parts = []
        self._cut_short = False

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

    async def _wait(self, part: _Part) -> None:
        decided_at = trio.current_time()
        await part.job.done.wait()
        part.asr_ms = round((trio.current_time() - decided_at) * 1000, 1)
        if self._is_last(part) and self._breaks_off(part):
            await trio.sleep(self._patience_s)
        if any(other is part for other in self._parts):
            self.settle()

    def _is_last(self, part: _Part) -> bool:
        return bool(self._parts) and self._parts[-1] is part

    def _breaks_off(self, part: _Part) -> bool:
        found = part.job.transcript
        return (
            found is not None
            and self._patience_s > 0
            and not self._cut_short
            and not part.speech.whole
            and is_unfinished(found.text, self._language() or found.language)
        )

    def _drop_speculation(self) -> None:
        if self._speculation is not None:
            self._speculation.scope.cancel(reason="speech went on")
            self._speculation = None
