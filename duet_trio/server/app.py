"""The server as a whole: sockets, engines, boards, HTTP, and the order in which they end.

Start: sockets are bound first (a taken port is told at once), then boards and HTTP answer while
the models still load. End: sessions say goodbye, HTTP stops, the nursery is cancelled, workers
are killed and reaped, and the trace, which outlives everything, is closed by the caller.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.trio import serve as serve_http

from duet_trio.config import Config
from duet_trio.engines.factory import EngineSet
from duet_trio.engines.silero import SileroDetector, find_model
from duet_trio.errors import UsageError
from duet_trio.events import Recorder
from duet_trio.server.assembly import make_faults, make_services
from duet_trio.server.board_facts import FactStore
from duet_trio.server.boards import Boards
from duet_trio.server.http import Site, make_app
from duet_trio.server.memory import rss_mb
from duet_trio.server.sockets import bind
from duet_trio.server.stop import Stop

log = logging.getLogger(__name__)

GOODBYE_S = 0.6  # Close frames go out; boards never answer them


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the server really listens (ports may have been 0)."""

    host: str
    websocket_port: int
    http_port: int


class Server:
    """One server. ``run`` it once; sockets are bound by the constructor.

    Raises `UsageError` from the constructor for whatever the user must mend before anything
    is loaded: a taken port, no libopus, no speech detector.
    """

    def __init__(
        self, config: Config, recorder: Recorder, *, last_words: Callable[[], object]
    ) -> None:
        self.config = config
        self._recorder = recorder
        self._last_words = last_words
        server = config.server
        self._websocket_sockets = bind(server.host, server.websocket_port, "server.websocket_port")
        self._http_sockets = bind(server.host, server.http_port, "server.http_port")
        self.addresses = Addresses(
            server.host,
            self._websocket_sockets[0].getsockname()[1],
            self._http_sockets[0].getsockname()[1],
        )
        detector = SileroDetector(find_model(config.vad.model))
        self.engines = EngineSet(config, recorder)
        faults = make_faults(config, recorder)
        self.services = faults.wrap(make_services(config, recorder, self.engines, detector))
        self.facts = FactStore(Path(server.state_dir).expanduser())
        self.boards = Boards(self.services, self.facts.of, wrap=faults.transport)
        self.stop = Stop(self._leave)
        self.failure: UsageError | None = None

    async def run(self, task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED) -> int:
        """Serve until told to stop; returns the exit code. Cancelling it stops as well."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.stop.watch_signals)
            nursery.start_soon(self.engines.run)
            nursery.start_soon(self._serve_boards)
            nursery.start_soon(self._serve_http)
            nursery.start_soon(self._measure)
            nursery.start_soon(self._stop_if_failed)
            task_status.started(self.addresses)
            await self.stop.ordered.wait()
            with trio.move_on_after(GOODBYE_S):
                await self.boards.close_all("server stops")
            nursery.cancel_scope.cancel(reason="server stops")
        return self.stop.code

    async def _serve_boards(self) -> None:
        listeners = [
            trio.SocketListener(trio.socket.from_stdlib_socket(item))
            for item in self._websocket_sockets
        ]
        await trio.serve_listeners(self.boards.serve, listeners)

    async def _serve_http(self) -> None:
        site = Site(
            self.config,
            self.boards,
            self.facts,
            self.addresses.websocket_port,
            self.engines.statuses,
        )
        config = HypercornConfig()
        config.bind = [f"fd://{_handed_over(item)}" for item in self._http_sockets]
        config.graceful_timeout = GOODBYE_S
        config.loglevel = "ERROR"
        await serve_http(
            make_app(site),
            config,
            shutdown_trigger=self.stop.ordered.wait,
            mode="asgi",
        )

    async def _stop_if_failed(self) -> None:
        """A missing model or library will not mend itself: say so and go."""
        try:
            await self.engines.wait_ready()
        except UsageError as error:
            self.failure = error
            self.stop.order(error.exit_code)

    async def _measure(self) -> None:
        start = trio.current_time()
        for tick in count(1):
            await trio.sleep_until(start + tick)
            sessions = self.boards.sessions.values()
            self._recorder.emit(
                "metrics",
                rss_mb=round(rss_mb(), 1),
                boards=len(sessions),
                queued=sum(session.outbox.statistics().controls for session in sessions),
            )

    def _leave(self) -> None:
        """The last resort's work, from a thread: no worker may outlive us; close the trace."""
        for status in self.engines.statuses():
            if status.pid is not None:
                with contextlib.suppress(OSError):
                    os.kill(status.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._last_words()


def _handed_over(item: socket.socket) -> int:
    """The socket's descriptor, which now belongs to hypercorn."""
    return item.detach()
