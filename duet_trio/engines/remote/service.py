"""What the three have in common: one call with its deadlines, and the words when it fails.

Reasons are for people at a board, one for each kind of trouble; the error's text is for the log.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from duet_trio.config import AsrSection, LlmSection, TtsSection
from duet_trio.engines.contracts import EngineKind, EngineState, EngineStatus
from duet_trio.engines.remote.address import Address, read_address
from duet_trio.engines.remote.exchange import BrokenOffError, Exchange, NoConnectionError
from duet_trio.engines.words import NAMES
from duet_trio.errors import (
    EngineCrashedError,
    EngineError,
    EngineFailedError,
    EngineHungError,
    EngineUnavailableError,
    UsageError,
)
from duet_trio.events import NullRecorder, Recorder

Value = TypeVar("Value")

#: Calls at once; the server elsewhere has its own queue.
SLOTS = 64
#: A server that is busy is asked once more if it says so and this soon.
MOST_RETRY_S = 2.0


class RemoteService:
    """One remote engine. Stands where an `EngineService` stands for workers."""

    def __init__(
        self,
        kind: EngineKind,
        section: AsrSection | LlmSection | TtsSection,
        recorder: Recorder | None = None,
    ) -> None:
        """Nobody is asked yet: the server may come later. Raises `UsageError`."""
        self.kind: EngineKind = kind
        self.address: Address = read_address(kind, section)
        self.model = section.model
        self.slots = SLOTS
        self.failure: UsageError | None = None
        self._recorder = recorder if recorder is not None else NullRecorder()
        self._slots = trio.CapacityLimiter(SLOTS)
        self._detail = ""
        self._calls = 0
        self._failures = 0

    @property
    def state(self) -> EngineState:
        """*busy*: every slot is taken. A failing server is told in the detail, call by call."""
        return "busy" if self._slots.available_tokens < 1 else "ready"

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Nothing to supervise: says that it is ready, and waits to be cancelled."""
        self._recorder.emit("engine", engine=self.kind, state="ready")
        task_status.started()
        await trio.sleep_forever()

    async def wait_ready(self) -> None:
        """It always is."""
        await trio.lowlevel.checkpoint()

    def status(self) -> EngineStatus:
        """For ``/health``."""
        info = {
            "engine": "openai",
            "at": self.address.where,
            "model": self.model,
            "calls": str(self._calls),
            "failures": str(self._failures),
        }
        return EngineStatus(self.kind, self.state, 0, self._detail, None, info)

    def statistics(self) -> dict[str, int]:
        """Calls: ``queued``, ``running``, ``disowned`` (none: a cancelled one is gone)."""
        numbers = self._slots.statistics()
        return {
            "queued": numbers.tasks_waiting,
            "running": int(numbers.borrowed_tokens),
            "disowned": 0,
        }

    # --- a call

    async def call(self, work: Callable[[], Awaitable[Value]]) -> Value:
        """Do ``work`` in a slot and note how it ended."""
        async with self._slots:
            self._calls += 1
            try:
                value = await work()
            except EngineError as error:
                self._failures += 1
                self._detail = str(error)
                raise
            self._detail = ""
            return value

    async def open(self, path: str, content_type: str, body: bytes) -> Exchange:
        """Ask; the exchange of a good response. Raises `EngineError`; asks a busy one twice."""
        exchange, wait_s = await self._open(path, content_type, body)
        if exchange is None:
            await trio.sleep(wait_s)
            exchange, _ = await self._open(path, content_type, body, last=True)
        assert exchange is not None
        return exchange

    async def _open(
        self, path: str, content_type: str, body: bytes, *, last: bool = False
    ) -> tuple[Exchange | None, float]:
        exchange = Exchange(self.address)
        kept: Exchange | None = None
        try:
            await exchange.ask(path, content_type, body)
            wait_s = _retry_after_s(exchange)
            if exchange.status == 200:
                kept = exchange
            elif exchange.status not in (429, 503) or wait_s > MOST_RETRY_S or last:
                raise self._refused(exchange, await exchange.read_all())
        except (NoConnectionError, BrokenOffError) as error:
            raise self.failed(error) from None
        finally:
            if kept is None:
                exchange.close()
        return kept, wait_s

    def failed(self, error: NoConnectionError | BrokenOffError) -> EngineError:
        """The engine's error for one of the connection's."""
        name = NAMES[self.kind]
        if isinstance(error, NoConnectionError):
            return EngineUnavailableError(
                f"{self.kind}: {error}", engine=self.kind, reason=f"{name} cannot be reached"
            )
        return EngineCrashedError(
            f"{self.kind}: {self.address.where}: {error}",
            engine=self.kind,
            reason=f"{name} broke off",
        )

    def unusable(self, what: str) -> EngineFailedError:
        """It answered with something else than was asked for."""
        return EngineFailedError(
            f"{self.kind}: {self.address.where} sent {what}",
            engine=self.kind,
            reason=f"{NAMES[self.kind]} sent something that cannot be used",
        )

    def hung(self, detail: str) -> EngineHungError:
        """A deadline passed."""
        return EngineHungError(
            f"{self.kind}: {self.address.where}: {detail}",
            engine=self.kind,
            reason=f"{NAMES[self.kind]} stopped responding",
        )

    def _refused(self, exchange: Exchange, body: bytes) -> EngineError:
        status, name = exchange.status, NAMES[self.kind]
        text = f"{self.kind}: {self.address.where} answered {status}: {_message(body)}"
        if status in (401, 403):
            reason = f"{name} did not accept our key"
        elif status == 404:
            reason = f"{name} does not know this model or address"
        elif status == 429:
            wait_s = _retry_after_s(exchange)
            later = f"; try again in {wait_s:.0f} seconds" if wait_s < math.inf else ""
            reason = f"{name} is too busy{later}"
        elif status in (502, 503, 504):
            reason = f"{name} is not ready"
        elif status >= 500:
            # The only one worth asking again at once: it may have been this one request.
            return EngineFailedError(text, engine=self.kind, reason=f"{name} reported an error")
        else:
            reason = f"{name} refused the request"
        return EngineUnavailableError(text, engine=self.kind, reason=reason)


class Watch:
    """A deadline that moves: ``first_s``, after each progress ``stall_s``, never past ``end``."""

    def __init__(self, service: RemoteService, first_s: float, end: float = math.inf) -> None:
        self._service = service
        self._end = end
        self.scope = trio.CancelScope(deadline=min(trio.current_time() + first_s, end))

    def progress(self, stall_s: float) -> None:
        """Something came."""
        self.scope.deadline = min(trio.current_time() + stall_s, self._end)

    async def over(self, work: Callable[[], Awaitable[Value]]) -> Value:
        """Do ``work`` under it. Raises `EngineHungError` when it passes."""
        with self.scope:
            return await work()
        raise self._service.hung("no answer within its deadline")


def _retry_after_s(exchange: Exchange) -> float:
    value = exchange.headers.get("retry-after", "").strip()
    return float(value) if value.isdecimal() and len(value) < 7 else math.inf


def _message(body: bytes) -> str:
    """What an error body says, in a line."""
    try:
        error = json.loads(body).get("error", "")
        text = error.get("message", "") if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        text = body[:200].decode("utf-8", "replace")
    return " ".join(str(text).split())[:200]
