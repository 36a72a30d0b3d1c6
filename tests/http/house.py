"""A server's HTTP and board sides on loopback, with scripted engines in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import trio

from duet_trio.board.client import BoardClient
from duet_trio.board.link import Identity
from duet_trio.board.script import BoardOptions
from duet_trio.config import Config, load
from duet_trio.engines.factory import EngineSet
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.lab.lab import LoudnessDetector
from duet_trio.server.approvals import Approvals
from duet_trio.server.assembly import make_services
from duet_trio.server.board_facts import FactStore
from duet_trio.server.boards import Boards
from duet_trio.server.http import make_app
from duet_trio.server.http_server import HttpServer
from duet_trio.server.metrics import Metrics
from duet_trio.server.security import Access
from duet_trio.server.site import Site
from duet_trio.server.sockets import bind
from duet_trio.server.speak_gate import PoliteGate
from duet_trio.session.services import Services
from duet_trio.trace.recorder import ListRecorder, TeeRecorder

TOKEN = "the-token-of-this-house"
SCRIPTED = (
    "asr.engine=scripted",
    "llm.engine=scripted",
    "tts.engine=scripted",
    "llm.tokens_per_s=2000",
    "tts.first_audio_s=0.02",
    "tts.rtf=0.05",
)


@dataclass
class Reply:
    """A response; ``broken``: it ended without its end."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    broken: bool = False
    first_byte_at: float = 0.0

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json()["error"]["message"])


@dataclass
class House:
    config: Config
    services: Services
    engines: EngineSet
    recorder: ListRecorder
    boards: Boards
    http: HttpServer
    access: Access
    metrics: Metrics
    site: Site
    nursery: trio.Nursery
    ports: tuple[int, int]
    folder: Path
    complaints: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[1]}"

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.ports[0]}/xiaozhi/v1/"

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.ports[1])

    async def ask(
        self,
        method: str,
        target: str,
        body: object = b"",
        *,
        headers: Sequence[tuple[str, str]] = (),
        host: str = "127.0.0.1",
        only_head: bool = False,
    ) -> Reply:
        """One request on a connection of its own."""
        stream = await self.connect()
        async with stream:
            http = await begin(stream, method, target, body, headers=headers, host=host)
            return await finish(stream, http, only_head=only_head)

    def events(self, name: str) -> list[dict[str, Any]]:
        return list(self.recorder.select(name))

    def board(self, number: int = 1, **options: Any) -> BoardClient:
        identity = options.pop("identity", Identity(device_id=f"02:00:00:00:00:{number:02x}"))
        return BoardClient(BoardOptions(url=self.websocket_url, identity=identity, **options))

    async def until(self, condition: Callable[[], bool], limit_s: float = 5.0) -> None:
        """Poll a real state."""
        with trio.fail_after(limit_s):
            while not condition():  # noqa: ASYNC110 - of many kinds, most without an event
                await trio.sleep(0.005)


async def begin(
    stream: trio.abc.Stream,
    method: str,
    target: str,
    body: object = b"",
    *,
    headers: Sequence[tuple[str, str]] = (),
    host: str = "127.0.0.1",
) -> h11.Connection:
    """Send a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    request = h11.Request(
        method=method,
        target=target,
        headers=[("Host", host), ("Content-Length", str(len(data))), *headers],
    )
    out = (http.send(request) or b"") + (http.send(h11.Data(data=data)) or b"")
    await stream.send_all(out + (http.send(h11.EndOfMessage()) or b""))
    return http


async def finish(
    stream: trio.abc.Stream, http: h11.Connection, *, only_head: bool = False
) -> Reply:
    """Read a response."""
    reply = Reply(0, {})
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError:
            reply.broken = True
            return reply
        if event is h11.NEED_DATA:
            try:
                http.receive_data(bytes(await stream.receive_some()))
            except trio.BrokenResourceError:
                reply.broken = True
                return reply
        elif isinstance(event, h11.Response):
            reply.status = event.status_code
            reply.headers = {name.decode().lower(): value.decode() for name, value in event.headers}
            if only_head:
                return reply
        elif isinstance(event, h11.Data):
            reply.first_byte_at = reply.first_byte_at or trio.current_time()
            reply.body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return reply
        else:
            reply.broken = True
            return reply


@asynccontextmanager
async def open_house(
    folder: Path, *settings: str, change: Callable[[Services], Services] = lambda it: it
) -> AsyncIterator[House]:
    """A running house; leaving ends everything in it."""
    sets = [*SCRIPTED, f"server.state_dir={folder.as_posix()!r}", "server.host=127.0.0.1"]
    config = load(None, [*sets, *settings])
    metrics = Metrics()
    recorder = ListRecorder(clock=trio.current_time)
    tee = TeeRecorder(recorder, metrics)
    engines = EngineSet(config, tee, InProcessCarrier)
    services = change(make_services(config, tee, engines, LoudnessDetector()))
    sockets = [bind("127.0.0.1", 0, "x")[0] for _ in range(2)]
    ports = (sockets[0].getsockname()[1], sockets[1].getsockname()[1])
    access = Access(config, TOKEN, Approvals(folder), ports=ports)
    facts = FactStore(folder)
    boards = Boards(services, facts.of, access=access)
    gate = PoliteGate(services)
    site = Site(config, services, boards, facts, access, metrics, gate, ports[0], engines.statuses)
    http = HttpServer(make_app(site), config.server)
    async with trio.open_nursery() as nursery:
        await nursery.start(engines.run)
        await engines.wait_ready()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sockets[0]))
        await nursery.start(trio.serve_listeners, boards.serve, [listener])
        await nursery.start(http.run, [sockets[1]])
        yield House(
            config, services, engines, recorder, boards, http, access, metrics, site, nursery,
            ports, folder,
        )  # fmt: skip
        http.abandon()
        nursery.cancel_scope.cancel()
