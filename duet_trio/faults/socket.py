"""A board's connection with faults in it: a peer that stops reading, vanishes, breaks, babbles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from duet_trio.errors import ConnectionLostError
from duet_trio.faults.plan import Fault
from duet_trio.session.peer import Transport

if TYPE_CHECKING:
    from duet_trio.faults.hub import Faults

SLOW_S = 0.1
#: What a peer that has vanished still seems to take: the socket buffers of a usual system.
SOCKET_BUFFER_BYTES = 64 * 1024
LONGEST_GARBAGE_BYTES = 300


class FaultySocket:
    """A `Transport` around a `Transport`."""

    def __init__(self, transport: Transport, faults: Faults, board: str) -> None:
        self._transport = transport
        self._faults = faults
        self._board = board
        self._broken = False
        self._silent = False  # the peer has gone without a word
        self._room = math.inf  # bytes that still seem to be sent
        self._slow_s = 0.0
        self._receiving: trio.CancelScope | None = None

    async def send(self, data: str | bytes) -> None:
        """Send, perhaps with a fault."""
        fault = self._occurred("socket.send", data)
        if fault is not None:
            self._begin(fault)
            if fault.effect == "garbage":
                await self._transport.send(self._garbage())
        await trio.sleep(self._slow_s)
        if self._broken:
            raise ConnectionLostError("injected: connection reset")
        self._room -= len(data)
        if self._room < 0:
            await trio.sleep_forever()
        if not self._silent:
            await self._transport.send(data)

    async def receive(self) -> str | bytes:
        """Receive, perhaps with a fault."""
        data = await self._receive()
        fault = self._occurred("socket.receive", data)
        if fault is None:
            return data
        self._begin(fault)
        return self._garbage() if fault.effect == "garbage" else await self._receive()

    async def _receive(self) -> str | bytes:
        with trio.CancelScope() as self._receiving:
            if self._silent:
                await trio.sleep_forever()
            if not self._broken:
                return await self._transport.receive()
        if self._broken:
            raise ConnectionLostError("injected: connection reset")
        return await self._receive()  # it has gone silent while we waited

    def _occurred(self, seam: str, data: str | bytes) -> Fault | None:
        generation = self._faults.generation_of(self._board)
        text = data if isinstance(data, str) else ""
        return self._faults.occurred(seam, generation, self._board, text)

    def _begin(self, fault: Fault) -> None:
        self._faults.emit(
            "fault",
            board=self._board,
            generation=self._faults.generation_of(self._board),
            seam=fault.seam,
            effect=fault.effect,
        )
        match fault.effect:
            case "stall":
                self._room = -1
            case "half_open":
                self._silent = True
                self._room = fault.value or SOCKET_BUFFER_BYTES
            case "reset":
                self._broken = True
            case "slow":
                self._slow_s = fault.value or SLOW_S
            case _:
                return
        if self._receiving is not None and (self._broken or self._silent):
            self._receiving.cancel()

    def _garbage(self) -> bytes:
        draw = self._faults.random
        return draw.randbytes(draw.randrange(LONGEST_GARBAGE_BYTES))
