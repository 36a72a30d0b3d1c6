"""A board's connection: address, WebSocket upgrade, hello, and one task that sends.

A stock board ends a connection by dropping it, without a Close frame; so does this one.
"""

from __future__ import annotations

import ssl
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from duet_trio.errors import ConnectionLostError, PeerError, UsageError
from duet_trio.wire.framing import pack
from duet_trio.wire.handshake import client_headers
from duet_trio.wire.messages import BoardMessage, Hello, ServerHello, encode, parse_server_text

#: The firmware's limits: for the upgrade's answer, and again for the server's hello.
UPGRADE_S = 10.0
HELLO_S = 10.0
#: The firmware's send queue, in packets; the oldest goes first.
SEND_QUEUE_PACKETS = 40


@dataclass(frozen=True, slots=True)
class Address:
    """A WebSocket address taken apart."""

    host: str
    port: int
    resource: str
    tls: bool


class Connect(Protocol):
    """How a byte stream to the server comes about; tests connect without a network."""

    async def __call__(self, address: Address) -> trio.abc.Stream:
        """Return an open stream; raises `OSError`."""


def parse_address(url: str) -> Address:
    """Take ``ws://host:port/path`` apart; raises `UsageError` for anything else."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise UsageError(f"'{url}' is no WebSocket address; write ws://HOST:PORT/xiaozhi/v1/")
    tls = parts.scheme == "wss"
    resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname, port or (443 if tls else 80), resource, tls)


async def connect_tcp(address: Address) -> trio.abc.Stream:
    """Open TCP, and TLS over it for ``wss``. A checkpoint; raises `OSError`."""
    if address.tls:
        return await trio.open_ssl_over_tcp_stream(
            address.host, address.port, ssl_context=ssl.create_default_context()
        )
    return await trio.open_tcp_stream(address.host, address.port)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a board says of itself when it connects."""

    device_id: str = "02:00:00:00:00:01"
    client_id: str = "00000000-0000-4000-8000-000000000001"
    token: str = ""
    version: int = 1  # of the binary framing


class Link:
    """One open connection, both hellos exchanged.

    `say` and `audio` only queue; `write_all`, run by the owner as a task, is the only one that
    sends, so that no cancelled send can tear the stream.
    """

    def __init__(self, socket: WebSocketConnection, version: int, hello: ServerHello) -> None:
        self.version = version
        self.hello = hello
        self.packets_dropped = 0
        self._socket = socket
        self._queue: deque[str | bytes] = deque()
        self._queued_packets = 0
        self._wake = trio.Event()
        self._idle = trio.Event()

    def say(self, message: BoardMessage) -> None:
        """Queue a message. Never waits."""
        self._queue.append(encode(message, self.hello.session_id))
        self._wake.set()

    def audio(self, opus: bytes) -> None:
        """Queue a packet; if 40 wait already, the oldest of them is lost. Never waits."""
        if self._queued_packets >= SEND_QUEUE_PACKETS:
            oldest = next(item for item in self._queue if isinstance(item, bytes))
            self._queue.remove(oldest)
            self._queued_packets -= 1
            self.packets_dropped += 1
        self._queue.append(pack(self.version, opus))
        self._queued_packets += 1
        self._wake.set()

    async def write_all(self) -> None:
        """Send what is queued until the connection is gone; then return."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._queue:
                item = self._queue.popleft()
                self._queued_packets -= isinstance(item, bytes)
                try:
                    await self._socket.send_message(item)
                except ConnectionClosed:
                    self._idle.set()
                    return
            self._idle.set()

    async def flushed(self) -> None:
        """Wait until all that is queued now has been sent, or never can be. A checkpoint."""
        self._idle = trio.Event()
        self._wake.set()
        await self._idle.wait()

    async def receive(self) -> str | bytes:
        """Return the next message; raises `ConnectionLostError` at the end."""
        try:
            return await self._socket.get_message()
        except ConnectionClosed as error:
            code = error.reason.code if error.reason else 1006
            raise ConnectionLostError(f"the server closed the connection ({code})") from None


async def shake_hands(
    nursery: trio.Nursery,
    stream: trio.abc.Stream,
    address: Address,
    identity: Identity,
    hello: Hello,
) -> Link:
    """Upgrade ``stream``, exchange hellos, return the link.

    Tasks of the connection run in ``nursery``; a refused upgrade is raised *there*, as
    `trio_websocket.ConnectionRejected`. Raises `ConnectionLostError` when a limit passes, the
    server closes, or its first message is no hello that a board understands.
    """
    headers = client_headers(
        device_id=identity.device_id,
        client_id=identity.client_id,
        version=identity.version,
        token=identity.token,
    )
    socket = None
    with trio.move_on_after(UPGRADE_S):
        socket = await wrap_client_stream(
            nursery,
            cast("trio.SocketStream", stream),  # any stream will do
            address.host,  # as boards do: without the port
            address.resource,
            extra_headers=[(name.encode(), value.encode()) for name, value in headers],
        )
    if socket is None:
        raise ConnectionLostError(
            f"no WebSocket at {address.host}:{address.port}{address.resource}"
        )
    try:
        with trio.move_on_after(HELLO_S):
            await socket.send_message(encode(hello, ""))
            return Link(socket, identity.version, await _hello(socket))
    except ConnectionClosed:
        raise ConnectionLostError("the server closed the connection before its hello") from None
    raise ConnectionLostError(f"the server sent no usable hello within {HELLO_S:.0f} s")


async def _hello(socket: WebSocketConnection) -> ServerHello:
    """Wait for a usable hello, as a board does: whatever else comes is passed over."""
    while True:
        message = await socket.get_message()
        if isinstance(message, bytes):
            continue
        try:
            parsed = parse_server_text(message)
        except PeerError:
            continue
        if isinstance(parsed, ServerHello):
            return parsed
