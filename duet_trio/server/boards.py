"""The boards' side of the server: one supervision border per TCP connection.

Not ``serve_websocket``: a request that is reset during its handshake ends that function, and with
it the server, before any handler runs. Here the handshake, the session and the close of every
connection lie inside one border, so that no peer and no defect of a session reaches another.
"""

from __future__ import annotations

import logging
import socket as sockets
import ssl
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Protocol

import trio
from trio_websocket import (
    ConnectionClosed,
    HandshakeError,
    WebSocketConnection,
    WebSocketRequest,
    wrap_server_stream,
)

from duet_trio.errors import ConnectionLostError
from duet_trio.server.brake import BrakedStream
from duet_trio.server.security import Access, Peer, is_loopback
from duet_trio.server.transport import CLOSE_S, WebSocketTransport
from duet_trio.session.connection import BoardSession
from duet_trio.session.peer import Facts, Transport
from duet_trio.session.services import Services
from duet_trio.wire.handshake import Handshake, read_handshake

log = logging.getLogger(__name__)

PATHS = ("/xiaozhi/v1", "/xiaozhi/v1/")
#: Boards send kilobytes; a longer message closes its connection with 1009.
MAX_MESSAGE_BYTES = 1 << 18
#: Connections that have not yet opened their WebSocket; one more ends the oldest of them, so that
#: whoever holds them open keeps no board out. More than the boards of a house that begin in the
#: same second: at 64, a fifth of 80 were thrown out.
MAX_HALF_OPEN = 256


class ClosableTransport(Transport, Protocol):
    """A transport with an end."""

    async def close(self, reason: str) -> None:
        """Say goodbye within a limit; shielded."""


class Boards:
    """All board connections of a server. The newest connection of a Device-Id wins."""

    def __init__(
        self,
        services: Services,
        facts: Callable[[str], Facts],
        *,
        wrap: Callable[[Transport, str], Transport] = lambda transport, _board: transport,
        access: Access | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``wrap`` may put something (faults) between a board's session and its transport.

        ``access`` says who may come in (None: everybody). ``tls``: every stream speaks it.
        """
        self._access = access
        self._tls = tls
        self._half_open: dict[object, trio.CancelScope] = {}  # the oldest first
        self._addresses: Counter[str] = Counter()
        self._services = services
        self._facts = facts
        self._wrap = wrap
        self._sessions: dict[str, BoardSession] = {}
        self._made_up = count(1)
        self._all_gone = trio.Event()
        self.connections = 0

    @property
    def sessions(self) -> dict[str, BoardSession]:
        """Open sessions by Device-Id (a copy)."""
        return dict(self._sessions)

    async def close_all(self, reason: str) -> None:
        """Say goodbye to every board and wait until they are gone; give it a limit."""
        for session in self.sessions.values():
            session.close(reason)
        while self._sessions:
            self._all_gone = trio.Event()
            await self._all_gone.wait()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Handle one TCP connection, whatever comes; never raises but when cancelled."""
        self.connections += 1
        try:
            await self._serve(stream)
        except* (ConnectionLostError, HandshakeError, ConnectionClosed, OSError) as group:
            log.info("connection ended: %s", group.exceptions[0])
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            log.info("connection reset")
        except* Exception:  # border: one connection's defect must not reach another's
            log.exception("connection failed")
        finally:
            self.connections -= 1
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        address = ""
        if isinstance(stream, trio.SocketStream):
            _keep_alive(stream.socket)
            address = str(stream.socket.getpeername()[0])
        most = self._services.config.server.max_per_address
        if address and not is_loopback(address) and self._addresses[address] >= most:
            log.info("too many connections from %s", address)
            return
        self._addresses[address] += 1
        try:
            await self._serve_one(stream)
        finally:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    async def _serve_one(self, stream: trio.abc.Stream) -> None:
        ends = _ends_of(stream)
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(self._services.config.server.handshake_s) as limit:
                self._half_open[stream] = limit
                while len(self._half_open) > MAX_HALF_OPEN:
                    self._half_open.pop(next(iter(self._half_open))).cancel(reason="too many")
                try:
                    request = await wrap_server_stream(
                        nursery, self._secured(stream), max_message_size=MAX_MESSAGE_BYTES
                    )
                    accepted = await self._accept(request, *ends)
                finally:
                    self._half_open.pop(stream, None)
            if not limit.cancelled_caught and accepted is not None:
                socket, who = accepted
                transport = WebSocketTransport(socket, stream)
                await self.host(transport, who, ends[0] or "memory")
            nursery.cancel_scope.cancel(reason="connection over")

    def _secured(self, stream: trio.abc.Stream) -> trio.abc.Stream:
        braked = BrakedStream(stream)
        if self._tls is None or not isinstance(stream, trio.SocketStream):
            return braked
        return trio.SSLStream(braked, self._tls, server_side=True, https_compatible=True)

    async def _accept(
        self, request: WebSocketRequest, remote: str, local: str
    ) -> tuple[WebSocketConnection, Handshake] | None:
        who = read_handshake(
            request.path, request.headers, made_up_id=f"unnamed-{next(self._made_up)}"
        )
        refusal = self._refusal(_peer(request, remote, local), who)
        if refusal is not None:
            status, text = refusal
            await request.reject(status, body=text.encode())
            return None
        return await request.accept(), who

    def _refusal(self, peer: Peer, who: Handshake) -> tuple[int, str] | None:
        config = self._services.config
        if who.path not in PATHS:
            return 404, f"no such path; boards connect to {PATHS[1]}"
        if self._access is not None:
            if not self._access.is_own_host(peer):
                return 421, "this host name is not ours; see server.names"
            if peer.header("origin") and self._access.is_foreign_page(peer):
                return 403, "a page of another site may not do this"
            if not self._access.may_be_board(peer, who.device_id, who.token):
                return 401, "wrong or missing token; a board gets its own at boot, once let in"
        if len(self._sessions) >= config.server.max_boards and who.device_id not in self._sessions:
            return 503, "too many boards"
        return None

    async def host(self, transport: ClosableTransport, who: Handshake, address: str) -> None:
        """Run one board's session on an open transport, whatever it runs over.

        An older session of the same Device-Id ends. Closes the transport at the end.
        """
        session = BoardSession(
            self._services,
            self._wrap(transport, who.device_id),
            who,
            self._facts(who.device_id),
        )
        old = self._sessions.get(who.device_id)
        if old is not None:
            old.close("replaced by a newer connection")
        self._sessions[who.device_id] = session
        recorder = self._services.recorder
        recorder.emit("board.open", board=session.board, address=address)
        try:
            await session.run()
        finally:
            if self._sessions.get(who.device_id) is session:
                del self._sessions[who.device_id]
            recorder.emit("board.close", board=session.board, reason=session.close_reason)
            with trio.move_on_after(2 * CLOSE_S, shield=True):
                await transport.close(session.close_reason)
            if not self._sessions:
                self._all_gone.set()


def _keep_alive(socket: trio.socket.SocketType) -> None:
    """Find dead peers without WebSocket pings (some firmware drops the connection on those)."""
    socket.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        option = getattr(sockets, name, None)  # not on every system
        if option is not None:
            socket.setsockopt(sockets.IPPROTO_TCP, option, value)


def _ends_of(stream: trio.abc.Stream) -> tuple[str, str]:
    """Addresses of the peer and of ourselves; empty for a stream in memory. Raises `OSError`."""
    if not isinstance(stream, trio.SocketStream):
        return "", ""
    return str(stream.socket.getpeername()[0]), str(stream.socket.getsockname()[0])


def _peer(request: WebSocketRequest, remote: str, local: str) -> Peer:
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers
    }
    headers["host"] = request._event.host  # wsproto takes it out of the list
    return Peer(remote, local, headers)
