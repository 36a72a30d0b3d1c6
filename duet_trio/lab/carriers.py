"""Workers in this process that can be broken from outside, as a real one can at any moment."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import trio

from duet_trio.engines.carrier import Connection, Handle
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.engines.injected import garbage

Harm = Literal["crash", "stop", "garbage"]


class BreakableCarrier(InProcessCarrier):
    """As `InProcessCarrier`; `harm` does to the worker of now what the kernel or a fault would."""

    def __init__(self, kind: EngineKind, settings: dict[str, Any], **options: Any) -> None:
        super().__init__(kind, settings, **options)
        self._handle: Handle | None = None
        self._stream: BreakableStream | None = None

    async def start(self, nursery: trio.Nursery) -> Connection:
        """Start an engine behind a stream that can be tampered with."""
        connection = await super().start(nursery)
        self._handle = connection.handle
        self._stream = BreakableStream(connection.receive)
        return replace(connection, receive=self._stream)

    def harm(self, how: Harm) -> None:
        """``crash``: it dies; ``stop``: it does nothing any more; ``garbage`` on its pipe."""
        assert self._handle is not None
        assert self._stream is not None
        match how:
            case "crash":
                self._handle.kill()
            case "stop":
                self._stream.freeze()
            case "garbage":
                self._stream.put(garbage(random.Random(self.starts).randrange(1000)))


class BreakableStream(trio.abc.ReceiveStream):
    """The client's reading end of a worker's pipe."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._frozen = False
        self._extra = b""
        self._waiting: trio.CancelScope | None = None

    def freeze(self) -> None:
        """Nothing comes any more."""
        self._frozen = True
        self._wake()

    def put(self, data: bytes) -> None:
        """These bytes come next."""
        self._extra += data
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """What comes next."""
        while True:
            if self._extra:
                data, self._extra = self._extra, b""
                await trio.lowlevel.checkpoint()
                return data
            with trio.CancelScope() as self._waiting:
                if self._frozen:
                    await trio.sleep_forever()
                return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        """Close both."""
        await self._stream.aclose()
