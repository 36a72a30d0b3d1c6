"""Rigs for engine tests: a recorder that remembers, and a worker played by the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from duet_trio.engines.carrier import Carrier, Connection
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.in_process import (
    InProcessCarrier,
    MemoryReceiveStream,
    MemorySendStream,
    TaskHandle,
    memory_pipe,
)
from duet_trio.engines.pipe import FromWorker, Ready, ToWorker, encode, worker_decoder
from duet_trio.engines.supervisor import EngineService


class Log:
    """A recorder that keeps everything, with times."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Any,
    ) -> None:
        now = trio.current_time()
        self.events.append(
            {"t": now, "event": event, "board": board, "generation": generation, **fields}
        )

    def of(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.events if entry["event"] == event]


class Peer:
    """One worker played by the test: it sees every command and sends what it likes."""

    def __init__(
        self, receive: MemoryReceiveStream, send: MemorySendStream, handle: TaskHandle
    ) -> None:
        self._receive = receive
        self._send = send
        self.handle = handle
        self._decoder = worker_decoder()
        self._commands: list[ToWorker] = []

    async def next(self) -> ToWorker:
        while not self._commands:
            chunk = await self._receive.receive_some()
            assert chunk, "the command pipe ended"
            self._decoder.feed(chunk)
            self._commands += self._decoder
        return self._commands.pop(0)

    def unread(self) -> list[ToWorker]:
        """What has been sent and not looked at yet."""
        while True:
            try:
                chunk = self._receive._channel.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            self._decoder.feed(chunk)
        self._commands += self._decoder
        taken, self._commands = self._commands, []
        return taken

    async def send(self, *messages: FromWorker) -> None:
        for message in messages:
            await self._send.send_all(encode(message))

    async def send_raw(self, data: bytes) -> None:
        await self._send.send_all(data)

    def die(self) -> None:
        """Like a process that ends: its pipes close, it can be reaped."""
        self._receive._channel.close()
        self._send._channel.close()
        self.handle.scope.cancel()


class PlayedCarrier:
    """Gives the test a `Peer` for each start."""

    def __init__(self, reap_s: float = 0.0) -> None:
        self._reap_s = reap_s
        self.start_times: list[float] = []
        send, self._started = trio.open_memory_channel[Peer](100)
        self._announce = send

    async def start(self, nursery: trio.Nursery) -> Connection:
        self.start_times.append(trio.current_time())
        command_send, command_receive = memory_pipe()
        message_send, message_receive = memory_pipe()
        handle = TaskHandle(self._reap_s)

        async def serve() -> str:
            with command_receive._channel, message_send._channel:
                await trio.sleep_forever()

        nursery.start_soon(handle.run, serve)
        self._announce.send_nowait(Peer(command_receive, message_send, handle))
        return Connection(command_send, message_receive, handle)

    async def peer(self, ready: Ready | None = None) -> Peer:
        """The next worker that is started; its Load has been read, ``ready`` been sent."""
        peer = await self._started.receive()
        await peer.next()
        if ready is not None:
            await peer.send(ready)
        return peer


OpenService = Callable[..., Awaitable[tuple[EngineService, InProcessCarrier]]]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def played() -> PlayedCarrier:
    return PlayedCarrier()


@pytest.fixture
def serve(nursery: trio.Nursery, log: Log) -> Callable[..., Awaitable[EngineService]]:
    """Start a service over any carrier."""

    async def start(kind: EngineKind, carrier: Carrier, **options: Any) -> EngineService:
        service = EngineService(kind, {}, carrier, recorder=log, **options)
        await nursery.start(service.run)
        return service

    return start


@pytest.fixture
def scripted(nursery: trio.Nursery, log: Log) -> OpenService:
    """Start a service with a scripted engine in this process and wait until it is ready."""

    async def start(
        kind: EngineKind, settings: dict[str, Any] | None = None, **options: Any
    ) -> tuple[EngineService, InProcessCarrier]:
        carrier = InProcessCarrier(kind, settings or {}, **options)
        service = EngineService(kind, settings or {}, carrier, recorder=log)
        await nursery.start(service.run)
        await service.wait_ready()
        return service, carrier

    return start
