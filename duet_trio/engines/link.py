"""One life of a worker as its client sees it: its pipes, its jobs, its deadlines.

Four rules, learnt the hard way elsewhere:

* One task owns the sending side. Callers leave whole messages with `post`, which never waits:
  a send that is cancelled half-way would swallow the request after it.
* One task reads, and never waits for a consumer.
* A job is over when the worker says so, or when its process has been reaped; until then it
  keeps its slot and its hold, whoever has lost interest in it.
* Only a passed deadline kills. What also ends a life: the end of the process, bytes that are no
  protocol, messages for jobs that never were, and floods.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from duet_trio.engines.carrier import Connection
from duet_trio.engines.client_job import ClientJob
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.pipe import (
    Block,
    Cancel,
    Cancelled,
    Decoder,
    DoneSpeak,
    DoneTranscribe,
    DoneWrite,
    Failed,
    FromWorker,
    Injected,
    Load,
    LoadFailed,
    Pause,
    Ready,
    Text,
    ToWorker,
    client_decoder,
    encode,
)
from duet_trio.engines.words import crashed, failed, hung
from duet_trio.errors import EngineCrashedError, EngineError, EngineFailedError

READ_BYTES = 65536
#: Messages that a worker may send for jobs that are over, in one life. None are expected; a few
#: are harmless, many are a worker that has gone mad.
MAX_STALE_MESSAGES = 1000


class SequenceLostError(EngineFailedError):
    """The worker does not know the stream: send the prompt again. Never leaves the client."""


class WorkerLink:
    """Serve one started worker with ``serve``; everything else is synchronous.

    ``on_ready(Ready)`` and ``on_idle()`` (a slot is free again) are called from the reader.
    """

    def __init__(
        self,
        kind: EngineKind,
        number: int,
        connection: Connection,
        *,
        load_s: float,
        on_ready: Callable[[Ready], None],
        on_idle: Callable[[], None],
        on_injected: Callable[[ClientJob, str], None],
    ) -> None:
        self.number = number
        self.jobs: dict[int, ClientJob] = {}
        self.ready: Ready | None = None
        self.load_failure: LoadFailed | None = None
        #: Why this life ended; None: the process went away without a word from us.
        self.cause: EngineError | None = None
        self._kind = kind
        self._connection = connection
        self._on_ready = on_ready
        self._on_idle = on_idle
        self._on_injected = on_injected
        self._load_s = load_s
        self._load_deadline = trio.current_time() + load_s
        self._last_number = 0
        self._stale = 0
        self._outgoing: deque[bytes] = deque()
        self._to_send = trio.Event()
        self._deadlines_changed = trio.Event()
        self._scope = trio.CancelScope()

    async def serve(self, settings: dict[str, Any]) -> None:
        """Load and serve; returns when this life is over (``cause``, ``load_failure``)."""
        self.post(Load(settings))
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                nursery.start_soon(self._receive)
                nursery.start_soon(self._watch)

    # --- for the supervisor (synchronous)

    def post(self, message: ToWorker) -> None:
        """Leave a message with the sending task. Raises `ValueError` if it is too long."""
        self._outgoing.append(encode(message))
        self._to_send.set()

    @property
    def ended(self) -> bool:
        """Has this life ended? Nothing can begin any more."""
        return self._scope.cancel_called

    @property
    def free_slots(self) -> int:
        """How many more jobs may begin now."""
        return self.ready.slots - len(self.jobs) if self.ready is not None else 0

    def begin(self, job: ClientJob) -> None:
        """Send a job; a message that is too long settles it at once as failed."""
        number = self._last_number + 1
        try:
            self.post(job.build(number, self.number))
        except ValueError as error:
            job.settle(failed(self._kind, f"the request is too long: {error}"))
            job.release()
            return
        self._last_number = number
        self.jobs[number] = job
        job.start(number, trio.current_time())
        self._deadlines_changed.set()

    def pause(self, job: ClientJob) -> None:
        """Ask a running writing step to end."""
        if self.jobs.get(job.number) is job:
            self.post(Pause(job.number))

    def disown(self, job: ClientJob) -> None:
        """Nobody waits for it any more: ask it to stop, keep its slot and hold till it has."""
        job.disowned = True
        job.deadline.disown(trio.current_time())
        self.post(Cancel(job.number))
        self._deadlines_changed.set()

    def settle_all(self, error: EngineError) -> None:
        """Tell all callers that their jobs ended with this life."""
        for job in self.jobs.values():
            job.settle(error)

    def release_all(self) -> None:
        """The process has been reaped: no job of it uses anything any more."""
        for job in self.jobs.values():
            job.release()
        self.jobs.clear()

    # --- the three tasks

    async def _send(self) -> None:
        try:
            while True:
                await self._to_send.wait()
                self._to_send = trio.Event()
                while self._outgoing:
                    await self._connection.send.send_all(self._outgoing.popleft())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the reader finds the end too, after the worker's last words

    async def _receive(self) -> None:
        decoder: Decoder[FromWorker] = client_decoder()
        try:
            while chunk := await self._connection.receive.receive_some(READ_BYTES):
                decoder.feed(chunk)
                for message in decoder:
                    self._take(message)
                    if self._scope.cancel_called:
                        return
        except EngineCrashedError as error:
            self._end(crashed(self._kind, str(error)))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._end(None)

    async def _watch(self) -> None:
        while True:
            self._deadlines_changed = trio.Event()
            due = min(job.deadline.at for job in self.jobs.values()) if self.jobs else math.inf
            with trio.move_on_at(min(due, self._load_deadline)):
                await self._deadlines_changed.wait()
                continue
            # What has arrived by now counts: after a stall of this process the clock is ahead
            # of the reader.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._kill_if_overdue(trio.current_time())

    def _kill_if_overdue(self, now: float) -> None:
        if self._load_deadline <= now:
            self._end(hung(self._kind, f"not loaded after {self._load_s:g} s"))
        for job in self.jobs.values():
            if job.deadline.at <= now:
                what = "a cancelled job" if job.disowned else "a job"
                self._end(hung(self._kind, f"{what} passed its deadline"))

    def _end(self, cause: EngineError | None) -> None:
        """End this life; the first cause counts."""
        if not self._scope.cancel_called:
            self.cause = cause
            self._scope.cancel()

    # --- messages

    def _take(self, message: FromWorker) -> None:
        match message:
            case Ready() if self.ready is None:
                self.ready = message
                self._load_deadline = math.inf
                self._on_ready(message)
            case LoadFailed() if self.ready is None:
                self.load_failure = message
                self._end(crashed(self._kind, message.message))
            case Ready() | LoadFailed():
                self._end(crashed(self._kind, f"a second {type(message).__name__}"))
            case _:
                self._take_for_job(message)

    def _take_for_job(
        self,
        message: Text
        | Block
        | DoneTranscribe
        | DoneWrite
        | DoneSpeak
        | Failed
        | Cancelled
        | Injected,
    ) -> None:
        job = self.jobs.get(message.id)
        if job is None:
            self._take_stale(message.id)
            return
        match message:
            case Text(text=text):
                self._take_item(job, text, len(text.encode()))
            case Block(pcm=pcm):
                self._take_item(job, pcm, len(pcm))
            case Injected(effect=effect):
                if job.spend(0):
                    self._on_injected(job, effect)
                else:
                    self._flooded(job)
            case DoneTranscribe(transcript=result):
                self._finish(job, result)
            case DoneWrite(written=written):
                self._finish(job, written)
            case DoneSpeak(spoken=spoken):
                self._finish(job, spoken)
            case Failed(message=text, lost=True):
                self._finish(job, SequenceLostError(text, engine=self._kind))
            case Failed(message=text, reason=reason):
                self._finish(job, failed(self._kind, text, reason))
            case Cancelled():
                # Also what a caller is told that never cancelled: it must not wait for ever.
                self._finish(job, failed(self._kind, "the worker cancelled the job by itself"))

    def _take_item(self, job: ClientJob, item: str | bytes, cost: int) -> None:
        if job.item is None or not isinstance(item, job.item):
            self._end(crashed(self._kind, f"{type(item).__name__} output for another kind of job"))
        elif not job.spend(cost):
            self._flooded(job)
        else:
            before = job.deadline.at
            job.put(item, trio.current_time())
            if job.deadline.at < before:  # a stall is shorter than the wait for the first output
                self._deadlines_changed.set()

    def _finish(self, job: ClientJob, outcome: Any) -> None:
        if not isinstance(outcome, (job.expects, EngineError)):
            self._end(crashed(self._kind, f"a {type(outcome).__name__} for another kind of job"))
            return
        del self.jobs[job.number]
        job.settle(outcome)
        job.release()
        self._on_idle()

    def _take_stale(self, number: int) -> None:
        if number > self._last_number or number < 1:
            self._end(crashed(self._kind, f"a message for job {number}, which never was"))
            return
        self._stale += 1
        if self._stale > MAX_STALE_MESSAGES:
            self._end(crashed(self._kind, "it floods the pipe with messages for old jobs"))

    def _flooded(self, job: ClientJob) -> None:
        self._end(crashed(self._kind, f"it floods the pipe with output for job {job.number}"))
