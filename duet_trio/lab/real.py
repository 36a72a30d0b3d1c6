"""Cells of the matrix with real worker processes and real sockets, in real time.

The scripted engines run in ordinary workers, the boards' sessions behind TCP and WebSocket on
loopback; only the user and the judge are the matrix's own. Deadlines are short, so that a hang is
found out in about a second.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import trio
from trio_websocket import (
    ConnectionClosed,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from duet_trio.board.link import parse_address
from duet_trio.config import Config
from duet_trio.engines.factory import in_worker_process
from duet_trio.errors import ConnectionLostError
from duet_trio.faults.plan import Plan
from duet_trio.lab.cells import Cell, CellResult
from duet_trio.lab.lab import Lab
from duet_trio.lab.play import Play, cell_config
from duet_trio.lab.wire import MemoryWire
from duet_trio.wire.handshake import Handshake, client_headers

SECONDS_PER_CHARACTER = 0.015
DEADLINE_S = 1.0
DEADLINES = (
    f"asr.deadline_s={DEADLINE_S}",
    f"llm.first_s={DEADLINE_S}",
    f"llm.stall_s={DEADLINE_S}",
    f"tts.first_s={DEADLINE_S}",
    f"tts.stall_s={DEADLINE_S}",
)
LONGEST_CELL_S = 60.0


class RealLab(Lab):
    """A lab whose workers are processes and whose boards come over TCP."""

    def __init__(self, config: Config, plan: Plan) -> None:
        super().__init__(config, plan=plan, carriers=in_worker_process)
        self.port = 0

    async def listen(self, nursery: trio.Nursery) -> None:
        """Serve boards on a free port of loopback; needs to be called before `host`."""
        self._nursery = nursery
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = int(listeners[0].socket.getsockname()[1])
        nursery.start_soon(trio.serve_listeners, self.boards.serve, listeners)

    def host(self, wire: MemoryWire, who: Handshake) -> None:
        """Connect a board that stands on a wire of messages, over a WebSocket."""
        assert self._nursery is not None, "the lab is not open"
        url = f"ws://127.0.0.1:{self.port}/xiaozhi/v1/"
        self._nursery.start_soon(bridge, url, wire, who)


async def bridge(url: str, wire: MemoryWire, who: Handshake) -> None:
    """Carry a wire's messages over a WebSocket until either end is gone, then drop it.

    Not `open_websocket`: cancelled in its handshake, it leaves the socket open.
    """
    address = parse_address(url)
    headers = client_headers(device_id=who.device_id, client_id="lab", version=1)
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
        try:
            async with trio.open_nursery() as nursery:
                socket = await wrap_client_stream(
                    nursery,
                    stream,
                    address.host,
                    address.resource,
                    extra_headers=[(name.encode(), value.encode()) for name, value in headers],
                )
                nursery.start_soon(_up, wire, socket, nursery.cancel_scope)
                with suppress(ConnectionLostError, ConnectionClosed):
                    while True:
                        await wire.send(await socket.get_message())
                nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(stream)
    except* (HandshakeError, ConnectionClosed, OSError, trio.BrokenResourceError):
        pass  # the board finds its wire closed
    finally:
        wire.end()


async def _up(wire: MemoryWire, socket: WebSocketConnection, scope: trio.CancelScope) -> None:
    with suppress(ConnectionLostError, ConnectionClosed):
        while True:
            await socket.send_message(await wire.receive())
    scope.cancel()


@asynccontextmanager
async def open_real_lab(config: Config, plan: Plan | None = None) -> AsyncIterator[RealLab]:
    """A real lab with its engines ready; leaving ends everything in it."""
    lab = RealLab(config, plan or Plan())
    async with trio.open_nursery() as nursery:
        await nursery.start(lab.engines.run)
        await lab.listen(nursery)
        await lab.engines.wait_ready()
        yield lab
        nursery.cancel_scope.cancel()


class RealPlay(Play):
    """One cell in real time."""

    characters_per_packet = 0.06 / SECONDS_PER_CHARACTER

    def _open(self) -> object:  # type: ignore[override]
        config = cell_config(
            barge_in=self._cell.trigger == "barge-in",
            seconds_per_character=SECONDS_PER_CHARACTER,
            more=DEADLINES,
        )
        return open_real_lab(config, self._plan())

    def _harm(self, lab: Lab) -> None:
        pid = lab.engines.services[self._cell.engine].status().pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP if self._cell.effect == "stop" else signal.SIGKILL)


#: The chosen set: every effect, every way a process can go, every trigger.
CHOSEN = (
    Cell("tts", "hang", "mid-piece", "none", "tts.block", 1),
    Cell("tts", "hang", "before the first block", "button", "tts.start", 1),
    Cell("tts", "crash", "mid-piece", "none", "tts.block", 2),
    Cell("tts", "stop", "mid-piece", "wake word", "tts.block", 1),
    Cell("tts", "garbage", "mid-piece", "none", "tts.block", 1),
    Cell("tts", "flood", "mid-piece", "none", "tts.block", 1),
    Cell("tts", "endless", "before the first block", "button", "tts.start", 1),
    Cell("tts", "error", "LLM paused for TTS", "none", "tts.start", 2),
    Cell("tts", "empty", "before the first block", "none", "tts.start", 1),
    Cell("tts", "short", "before the first block", "none", "tts.start", 1),
    Cell("tts", "slow", "mid-piece", "new question", "tts.block", 1),
    Cell("tts", "late", "mid-piece", "new question", "tts.block", 1),
    Cell("tts", "deaf", "mid-piece", "disconnect", "tts.block", 1),
    Cell("llm", "hang", "LLM prefill", "none", "llm.piece", 1),
    Cell("llm", "crash", "between pieces", "reconnect", "llm.piece", 2),
    Cell("llm", "garbage", "LLM prefill", "button", "llm.piece", 1),
    Cell("asr", "hang", "ASR", "none", "asr.call", 1),
    Cell("asr", "crash", "ASR", "none", "asr.call", 1),
    Cell("tts", "crash", "idle", "none"),
    Cell("llm", "crash", "draining", "new question"),
    Cell("tts", "stop", "idle", "none"),
)


def run_real_cells(cells: Sequence[Cell] = CHOSEN) -> list[CellResult]:
    """Run cells one after the other, each with workers and sockets of its own."""
    return [trio.run(_bounded, RealPlay(cell)) for cell in cells]


async def _bounded(play: RealPlay) -> CellResult:
    with trio.fail_after(LONGEST_CELL_S):
        return await play.run()
