"""The scripted engine as a task of the main process: no process, no real time, no models.

Speaks the same bytes as a worker over a pair of bounded memory streams, so that the client, its
deadlines and its restarts run unchanged on a mock clock.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from duet_trio.engines.carrier import Connection
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.pipe import Decoder, ToWorker, encode, worker_decoder
from duet_trio.engines.scripted import SLOTS, Act, ScriptedEngine

#: Chunks on the way in each direction, about what a pipe of 64 KiB holds in blocks of speech.
PIPE_CHUNKS = 16


class MemorySendStream(trio.abc.SendStream):
    """The writing end of a bounded byte channel."""

    def __init__(self, channel: trio.MemorySendChannel[bytes]) -> None:
        self._channel = channel

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send as one chunk; waits while the channel is full."""
        await self._channel.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Not used by us; always true enough."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close; the other end reads what is left, then the end."""
        self._channel.close()
        await trio.lowlevel.checkpoint()


class MemoryReceiveStream(trio.abc.ReceiveStream):
    """The reading end of a bounded byte channel."""

    def __init__(self, channel: trio.MemoryReceiveChannel[bytes]) -> None:
        self._channel = channel

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """One chunk as it was sent, or ``b""`` at the end."""
        try:
            return await self._channel.receive()
        except trio.EndOfChannel:
            return b""

    async def aclose(self) -> None:
        """Close; the other end's sends fail from now on."""
        self._channel.close()
        await trio.lowlevel.checkpoint()


def memory_pipe() -> tuple[MemorySendStream, MemoryReceiveStream]:
    """One direction of a connection."""
    send, receive = trio.open_memory_channel[bytes](PIPE_CHUNKS)
    return MemorySendStream(send), MemoryReceiveStream(receive)


class TaskHandle:
    """Stands in for a process: killing it cancels its task."""

    def __init__(self, reap_s: float) -> None:
        self.scope = trio.CancelScope()
        self._reap_s = reap_s
        self._reason = ""
        self._ended = trio.Event()

    @property
    def pid(self) -> int | None:
        """It has none."""
        return None

    def kill(self) -> None:
        """Cancel the task."""
        self.scope.cancel()

    async def wait(self) -> str:
        """Wait for the task's end."""
        await self._ended.wait()
        return self._reason

    async def run(self, serve: Callable[[], Awaitable[str]]) -> None:
        """Run ``serve()``, which returns why it ended; then "reap" it, whatever is cancelled."""
        try:
            with self.scope:
                self._reason = await serve()
        finally:
            self._reason = self._reason or "killed by SIGKILL"
            with trio.move_on_after(self._reap_s, shield=True):
                await trio.sleep_forever()
            self._ended.set()


class InProcessCarrier:
    """Starts scripted engines as tasks.

    ``reap_s``: how long it takes from the end (or the kill) of a "process" until it is reaped;
    the other arguments are `ScriptedEngine`'s. ``starts`` counts the starts.
    """

    def __init__(
        self,
        kind: EngineKind,
        settings: dict[str, Any],
        *,
        load_time_s: float = 0.0,
        slots: int = SLOTS,
        sequences: int = 1000,
        reap_s: float = 0.0,
    ) -> None:
        self._kind = kind
        self._settings = settings
        self._load_time_s = load_time_s
        self._slots = slots
        self._sequences = sequences
        self._reap_s = reap_s
        self.starts = 0

    async def start(self, nursery: trio.Nursery) -> Connection:
        """Start an engine."""
        await trio.lowlevel.checkpoint()
        self.starts += 1
        engine = self.make_engine()
        command_send, command_receive = memory_pipe()
        message_send, message_receive = memory_pipe()
        handle = TaskHandle(self._reap_s)

        async def serve() -> str:
            async with command_receive, message_send:
                return await _serve(engine, command_receive, message_send)

        nursery.start_soon(handle.run, serve)
        return Connection(command_send, message_receive, handle)

    def make_engine(self) -> ScriptedEngine:
        """A fresh engine; a subclass may give another one of the kind."""
        return ScriptedEngine(
            self._kind,
            self._settings,
            load_time_s=self._load_time_s,
            slots=self._slots,
            sequences=self._sequences,
        )


async def _serve(
    engine: ScriptedEngine, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream
) -> str:
    decoder: Decoder[ToWorker] = worker_decoder()
    try:
        while True:
            for out in engine.advance(trio.current_time()):
                if not isinstance(out, Act):
                    await send.send_all(encode(out))
                elif out.effect == "garbage":
                    await send.send_all(out.data)
                elif out.effect == "flood":
                    while True:
                        await send.send_all(out.data)
                elif out.effect == "stop":
                    await trio.sleep_forever()
                else:
                    return "killed by SIGABRT"
            wake = engine.next_wakeup()
            with trio.move_on_at(math.inf if wake is None else wake):
                chunk = await receive.receive_some()
                if not chunk:
                    return "ended with exit code 0"
                decoder.feed(chunk)
            for message in decoder:
                engine.receive(message, trio.current_time())
    except trio.BrokenResourceError:
        return "ended with exit code 0"
