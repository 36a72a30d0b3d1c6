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
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import trio

from duet_trio.config import Config
from duet_trio.engines.factory import EngineSet
from duet_trio.engines.silero import SileroDetector, find_model
from duet_trio.errors import UsageError
from duet_trio.events import Recorder
from duet_trio.server.accept import accept_all
from duet_trio.server.approvals import Approvals
from duet_trio.server.assembly import make_faults, make_services
from duet_trio.server.board_facts import FactStore
from duet_trio.server.boards import Boards
from duet_trio.server.http import make_app
from duet_trio.server.http_server import HttpServer
from duet_trio.server.memory import rss_mb
from duet_trio.server.metrics import Metrics
from duet_trio.server.security import Access
from duet_trio.server.security_token import obtain_token
from duet_trio.server.site import Site
from duet_trio.server.sockets import bind
from duet_trio.server.speak_gate import PoliteGate
from duet_trio.server.stop import Stop
from duet_trio.server.tls import tls_context
from duet_trio.trace.recorder import TeeRecorder
from duet_trio.wire import ota

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
        self.metrics = Metrics()
        self._recorder = recorder = TeeRecorder(recorder, self.metrics)
        self._last_words = last_words
        server = config.server
        folder = Path(server.state_dir).expanduser()
        self._tls: ssl.SSLContext | None = tls_context(server)
        if server.board_url:
            # Raises `ConfigError` for an address that no board could use.
            ota.answer(
                websocket_url=server.board_url, token="", timestamp_ms=1, timezone_offset_min=0
            )
        self.token = obtain_token(config)
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
        self.facts = FactStore(folder)
        ports = (self.addresses.websocket_port, self.addresses.http_port)
        self.access = Access(config, self.token, Approvals(folder), ports=ports)
        self.boards = Boards(
            self.services,
            self.facts.of,
            wrap=faults.transport,
            access=self.access,
            tls=self._tls,
        )
        self.gate = PoliteGate(self.services)
        self.http = HttpServer(make_app(self._site()), server, self._tls)
        self.metrics.numbers = self._numbers
        self.metrics.engines = lambda: {
            one.kind: (one.state, one.restarts) for one in self.engines.statuses()
        }
        self.stop = Stop(self._leave)
        self.failure: UsageError | None = None

    async def run(self, task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED) -> int:
        """Serve until told to stop; returns the exit code. Cancelling it stops as well."""
        async with trio.open_nursery() as outer:
            # To the very end: a second Ctrl-C must not break into the workers' funerals.
            await outer.start(self.stop.watch_signals)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.engines.run)
                    nursery.start_soon(self._serve_boards)
                    nursery.start_soon(self._serve_http)
                    nursery.start_soon(self._measure)
                    nursery.start_soon(self._stop_if_failed)
                    nursery.start_soon(self.facts.run)
                    task_status.started(self.addresses)
                    await self.stop.ordered.wait()
                    with trio.move_on_after(GOODBYE_S):
                        await self.boards.close_all("server stops")
                    self.http.abandon()
                    nursery.cancel_scope.cancel(reason="server stops")
            finally:
                self.facts.flush()
            outer.cancel_scope.cancel(reason="server has stopped")
        return self.stop.code

    async def _serve_boards(self) -> None:
        await accept_all(self._websocket_sockets, self.boards.serve)

    async def _serve_http(self) -> None:
        await self.http.run(self._http_sockets)

    def _site(self) -> Site:
        return Site(
            config=self.config,
            services=self.services,
            boards=self.boards,
            facts=self.facts,
            access=self.access,
            metrics=self.metrics,
            gate=self.gate,
            websocket_port=self.addresses.websocket_port,
            statuses=self.engines.statuses,
        )

    def _numbers(self) -> dict[tuple[str, str], float]:
        """What waits where, for ``/metrics``."""
        admission = self.services.admission.statistics()
        sessions = self.boards.sessions.values()
        numbers: dict[tuple[str, str], float] = {
            ("boards", "connected"): len(sessions),
            ("boards", "connections"): self.boards.connections,
            ("boards", "queued"): sum(one.outbox.statistics().controls for one in sessions),
            ("http", "connections"): self.http.connections,
            ("http", "refused"): self.http.refused,
            ("admission", "speaking"): admission["speaking"],
            ("admission", "waiting"): admission["waiting"],
            ("gpu", "waiting"): float(str(self.engines.gpu_turn.statistics()["waiting"])),
        }
        for who, waiting in self.gate.waiting().items():
            numbers["http", f"waiting_for_{who}"] = waiting
        for kind, service in self.engines.services.items():
            for what, number in service.statistics().items():
                numbers[kind, what] = number
        return numbers

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
