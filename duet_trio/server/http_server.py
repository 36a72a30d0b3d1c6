"""HTTP connections: hypercorn's protocol code under limits of our own.

hypercorn's ``serve`` shields its sends without a deadline: a client that stops reading keeps its
connection, its answer and a shutdown waiting (seen for 15 s and more). And an error in one
connection's handler would end its listener. So we accept ourselves, as for boards: each
connection has a supervision border, a stream whose sends have a deadline, a bounded send buffer,
and its place in the limits.
"""

from __future__ import annotations

import logging
import socket as sockets
import ssl
from collections import Counter
from contextlib import suppress
from typing import cast

import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.events import Closed, Event
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app
from quart_trio import QuartTrio

from duet_trio.config import ServerSection
from duet_trio.server.accept import accept_all
from duet_trio.server.security import is_loopback

log = logging.getLogger(__name__)

#: The kernel would take 4 MB of audio for a client that no longer reads: 87 s of speech.
SEND_BUFFER_BYTES = 1 << 16
PORTION_BYTES = 1 << 14  # what must find room within one deadline
#: From the connection to its first whole request, and from one request to the next.
IDLE_S = 10.0
#: After the last response a client may still send for so long; nobody reads it.
LINGER_S = 2.0


class DeadlineStream(trio.abc.Stream):
    """A TCP stream whose sends are given up after ``send_s`` without room."""

    def __init__(self, stream: trio.SocketStream, send_s: float) -> None:
        self._stream = stream
        self._send_s = send_s
        self.socket = stream.socket  # hypercorn asks it for the two addresses

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; raises `trio.BrokenResourceError` when the peer takes nothing for too long."""
        view = memoryview(data)
        # In portions: a client that reads slowly gets the time for each of them.
        for start in range(0, len(view), PORTION_BYTES):
            with trio.move_on_after(self._send_s) as limit:
                await self._stream.send_all(view[start : start + PORTION_BYTES])
            if limit.cancelled_caught:
                await trio.aclose_forcefully(self._stream)
                raise trio.BrokenResourceError(f"nothing was read for {self._send_s:g} s")

    async def wait_send_all_might_not_block(self) -> None:
        """As of the stream."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the stream."""
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """As of the stream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the stream."""
        await self._stream.aclose()


class Protocol(TCPServer):
    """hypercorn's connection, which would stay for `IDLE_S` after its client has gone, and for ever
    after a response that ends it (``Connection: close``, HTTP/1.0).
    """

    _reading: trio.CancelScope

    async def protocol_send(self, event: Event) -> None:
        """Send to the client, or close; a close is done whole, though its task be cancelled."""
        if not isinstance(event, Closed):
            await super().protocol_send(event)
            return
        # The request's task says so, which is cancelled by its own word that it has ended.
        with trio.CancelScope(shield=True):
            stream = cast(trio.abc.Stream, self.stream)
            if not isinstance(stream, DeadlineStream):  # TLS knows no half-closed connection
                await super().protocol_send(event)
                return
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_eof()
            # Closed at once, it would be reset if the client still sends (a body that was refused),
            # and our response would be lost on the way.
            linger_until = trio.current_time() + LINGER_S
            self._reading.deadline = min(self._reading.deadline, linger_until)
            await self.protocol.handle(event)

    async def _read_data(self) -> None:
        self._reading = trio.CancelScope()
        with self._reading:
            await super()._read_data()
        await self.idle_task.stop()


class HttpServer:
    """Serves an application on sockets that are bound already."""

    def __init__(
        self, app: QuartTrio, section: ServerSection, tls: ssl.SSLContext | None = None
    ) -> None:
        self._section = section
        self._tls = tls
        self._app = app
        self._config = HypercornConfig()
        self._config.keep_alive_timeout = IDLE_S
        self._config.loglevel = "CRITICAL"  # our log has what matters
        self._config.h11_max_incomplete_size = 1 << 15
        self._context = WorkerContext(None)
        self._wrapped = wrap_app(app, self._config.wsgi_max_body_size, "asgi")
        self._addresses: Counter[str] = Counter()
        self._open: set[trio.SocketStream] = set()
        self.refused = 0

    def abandon(self) -> None:
        """Drop all connections now (synchronous): hypercorn's shielded sends end with them."""
        for stream in self._open:
            stream.socket.close()

    @property
    def connections(self) -> int:
        """Open ones."""
        return self._addresses.total()

    async def run(
        self,
        listening: list[sockets.socket],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept until cancelled; ``started`` once requests are answered."""
        await self._app.startup()
        task_status.started()
        await accept_all(listening, self.serve)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Handle one connection, whatever comes; never raises but when cancelled."""
        try:
            address = str(stream.socket.getpeername()[0])
        except OSError:  # gone already
            await trio.aclose_forcefully(stream)
            return
        if not self._has_room(address):
            self.refused += 1
            await trio.aclose_forcefully(stream)
            return
        self._addresses[address] += 1
        self._open.add(stream)
        try:
            stream.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, SEND_BUFFER_BYTES)
            await self._serve(stream)
        except* OSError as group:
            log.info("connection ended: %s", group.exceptions[0])
        except* (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            log.info("connection reset")
        except* Exception:  # border: one connection's defect must not reach another's
            log.exception("connection failed")
        finally:
            self._open.discard(stream)
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    def _has_room(self, address: str) -> bool:
        if self.connections >= self._section.max_http:
            return False
        return is_loopback(address) or self._addresses[address] < self._section.max_per_address

    async def _serve(self, stream: trio.SocketStream) -> None:
        transport: trio.abc.Stream = DeadlineStream(stream, self._section.http_send_s)
        if self._tls is not None:
            transport = trio.SSLStream(
                transport, self._tls, server_side=True, https_compatible=True
            )
        server = Protocol(
            self._wrapped,
            self._config,
            self._context,
            ConnectionState({}),
            transport,  # type: ignore[arg-type]
        )
        await server.run()
