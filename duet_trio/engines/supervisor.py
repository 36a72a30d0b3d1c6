"""`EngineService`: one engine's worker, started, watched, restarted, and its queue of jobs."""

from __future__ import annotations

import itertools
from typing import Any

import trio

from duet_trio.engines.carrier import Carrier, Connection
from duet_trio.engines.client_job import ClientJob, Result
from duet_trio.engines.contracts import EngineKind, EngineState, EngineStatus
from duet_trio.engines.link import WorkerLink
from duet_trio.engines.pipe import CloseStream, LoadFailed, Ready
from duet_trio.engines.restart import RestartPolicy
from duet_trio.engines.words import crashed, unavailable
from duet_trio.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    MissingFileError,
    MissingLibraryError,
    UsageError,
)
from duet_trio.events import NullRecorder, Recorder

#: How long a call waits for an engine that is loading or restarting.
READY_WAIT_S = 30.0
#: A process whose pipe has ended is given this long to end by itself, so that the reason is its
#: own signal and not our SIGKILL.
LAST_BREATH_S = 0.5

_USAGE_ERRORS: dict[str, type[UsageError]] = {
    "file": MissingFileError,
    "library": MissingLibraryError,
    "config": ConfigError,
}


class EngineService:
    """One supervised worker. ``run`` it in a nursery; call it from anywhere.

    ``load_turn``: GPU workers share one, so that they load one after the other.
    """

    def __init__(
        self,
        kind: EngineKind,
        settings: dict[str, Any],
        carrier: Carrier,
        *,
        load_s: float = 120.0,
        recorder: Recorder | None = None,
        load_turn: trio.Semaphore | None = None,
    ) -> None:
        self.kind: EngineKind = kind
        self._settings = settings
        self._carrier = carrier
        self._load_s = load_s
        self._recorder = recorder if recorder is not None else NullRecorder()
        self._load_turn = load_turn if load_turn is not None else trio.Semaphore(1, max_value=1)
        self._loading = False  # do we hold the load turn?
        self._lives = itertools.count(1)
        self._link: WorkerLink | None = None
        self._pid: int | None = None
        self._queue: list[ClientJob] = []
        self._base: EngineState = "loading"
        self._shown: EngineState | None = None
        self._changed = trio.Event()
        self._restarts = 0
        self._detail = ""
        self._said = Ready()
        self._policy = RestartPolicy()
        self.failure: UsageError | None = None

    # --- what everybody may ask

    @property
    def slots(self) -> int:
        """Jobs that may run at once (1 until the engine has said so)."""
        return self._said.slots

    @property
    def state(self) -> EngineState:
        """The state now; *busy*: every slot is taken."""
        link = self._link
        if self._base == "ready" and link is not None and link.free_slots <= 0:
            return "busy"
        return self._base

    @property
    def control_tokens(self) -> list[str]:
        """As the engine said when it was ready."""
        return self._said.control_tokens

    def status(self) -> EngineStatus:
        """For ``/health``."""
        info = {**self._said.info, "longest_step_ms": f"{self._said.longest_step_ms:g}"}
        return EngineStatus(self.kind, self.state, self._restarts, self._detail, self._pid, info)

    def statistics(self) -> dict[str, int]:
        """Jobs: ``queued``, ``running`` (disowned ones included), ``disowned``."""
        jobs = self._link.jobs.values() if self._link is not None else ()
        return {
            "queued": len(self._queue),
            "running": len(jobs),
            "disowned": sum(job.disowned for job in jobs),
        }

    async def wait_ready(self) -> None:
        """Wait until the engine is ready. Raises its `UsageError` when it never will be."""
        await trio.lowlevel.checkpoint()
        while self._base != "ready":
            if self.failure is not None:
                raise self.failure
            await self._changed.wait()

    # --- calls

    async def call(self, job: ClientJob) -> Result:
        """Have a job done.

        A checkpoint. Raises `EngineError`, and what the job's ``on_item`` raises. A cancel leaves
        at once; a job that runs is asked to stop and disowned, and nothing of it comes any more.
        """
        if self.failure is not None:
            await trio.lowlevel.checkpoint()
            raise unavailable(self.kind, str(self.failure))
        self._queue.append(job)
        self._start_jobs()
        try:
            await self._until_started(job)
            while not job.settled:
                await job.news()
            return job.result()
        finally:
            self._leave(job)

    async def _until_started(self, job: ClientJob) -> None:
        # Bounded only while the engine is not there: in the queue of one that works, others
        # are bounded, so this is too.
        while True:
            with trio.move_on_after(READY_WAIT_S):
                await job.news()
            if job.state != "queued" or job.settled:
                return
            if self._base != "ready":
                raise unavailable(self.kind, f"{self._base} for more than {READY_WAIT_S:g} s")

    def pause(self, job: ClientJob) -> None:
        """Ask a writing step to end; synchronous."""
        if self._link is not None and job.state == "running":
            self._link.pause(job)

    def close_stream(self, stream: int, life: int) -> None:
        """Forget a stream, if the worker of that ``life`` still lives; synchronous."""
        if self._link is not None and self._link.number == life:
            self._link.post(CloseStream(stream))

    def _leave(self, job: ClientJob) -> None:
        if job in self._queue:
            self._queue.remove(job)
            job.release()
        elif job.state == "running" and self._link is not None and (job.broken or not job.settled):
            self._link.disown(job)

    def _start_jobs(self) -> None:
        link = self._link
        while link is not None and self._queue and link.free_slots > 0 and not link.ended:
            job = min(self._queue, key=lambda queued: queued.priority)  # the first of the least
            self._queue.remove(job)
            link.begin(job)
            self._policy.given_work()
        self._show()

    # --- the life of the worker

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Supervise until cancelled; ``started`` when the first worker has its turn to load."""
        self._show()
        try:
            while self.failure is None:
                await trio.sleep(self._policy.wait_s)
                await self._load_turn.acquire()
                self._loading = True
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                self._policy.begin()
                try:
                    await self._live()
                finally:
                    self._loaded()
                self._policy.end(trio.current_time())
                self._restarts += self.failure is None
            await trio.sleep_forever()
        finally:
            self._fail_queue(unavailable(self.kind, "shut down"))

    def _loaded(self) -> None:
        """Pass the load turn on (once)."""
        if self._loading:
            self._loading = False
            self._load_turn.release()

    async def _live(self) -> None:
        """One worker from its start until it has been reaped."""
        async with trio.open_nursery() as nursery:
            try:
                connection = await self._carrier.start(nursery)
            except EngineCrashedError as error:
                self._set_state("restarting", str(error))
            else:
                await self._serve(connection)
            nursery.cancel_scope.cancel()

    async def _serve(self, connection: Connection) -> None:
        self._pid = connection.handle.pid
        link = self._link = WorkerLink(
            self.kind,
            next(self._lives),
            connection,
            load_s=self._load_s,
            on_ready=self._on_ready,
            on_idle=self._start_jobs,
            on_injected=self._on_injected,
        )
        try:
            await link.serve(self._settings)
            self._died(link.load_failure, link.cause)
            if link.cause is not None:
                link.settle_all(link.cause)
            else:
                with trio.move_on_after(LAST_BREATH_S):
                    await connection.handle.wait()
        finally:
            connection.handle.kill()
            # Without a deadline, on purpose: the kernel ends what got SIGKILL, and while it
            # cannot (a GPU driver that hangs), the card is not ours to use.
            with trio.CancelScope(shield=True):
                await self._bury(link, connection)

    async def _bury(self, link: WorkerLink, connection: Connection) -> None:
        """Reap it, and only then give back what its jobs held."""
        reason = await connection.handle.wait()
        await trio.aclose_forcefully(connection.send)
        await trio.aclose_forcefully(connection.receive)
        error: EngineError = link.cause or crashed(self.kind, f"its worker {reason}")
        self._link = None
        self._pid = None
        if self._base != "failed":
            self._detail = f"{error}; worker {reason}" if link.cause else str(error)
        link.settle_all(error)
        link.release_all()

    def _died(self, load_failure: LoadFailed | None, cause: EngineError | None) -> None:
        if load_failure is not None and load_failure.usage:
            kind = _USAGE_ERRORS.get(load_failure.usage, UsageError)
            self.failure = kind(load_failure.message)
            self._set_state("failed", load_failure.message)
            self._fail_queue(unavailable(self.kind, load_failure.message))
        else:
            self._set_state("restarting", str(cause or ""))

    def _fail_queue(self, error: EngineError) -> None:
        for job in self._queue:
            job.settle(error)

    def _on_ready(self, ready: Ready) -> None:
        self._said = ready
        self._policy.ready(trio.current_time())
        self._loaded()
        self._set_state("ready", "")
        self._start_jobs()

    def _on_injected(self, job: ClientJob, effect: str) -> None:
        seam = {"asr": "asr.call", "llm": "llm.piece"}.get(self.kind)
        if seam is None:
            seam = "tts.block" if job.inject is not None and job.inject.at else "tts.start"
        self._recorder.emit(
            "fault", board=job.board, generation=job.generation, seam=seam, effect=effect
        )

    def _set_state(self, state: EngineState, detail: str) -> None:
        self._base = state
        self._detail = detail
        self._show()
        self._changed.set()
        self._changed = trio.Event()

    def _show(self) -> None:
        """Emit the state if it is another one than before."""
        if self.state != self._shown:
            self._shown = self.state
            self._recorder.emit("engine", engine=self.kind, state=self.state)
