"""One HTTP request and its response on a connection of its own.

A connection is never used twice: what a cancelled call left unread on it would be the beginning
of the next one's answer. In a home network a fresh one costs a millisecond.

`Exchange.close` is synchronous, so that a cancel at any point leaves no socket behind.
"""

from __future__ import annotations

import ssl

import h11
import trio

from duet_trio.engines.remote.address import Address
from duet_trio.errors import DuetError

READ_BYTES = 1 << 14
#: Response heads, and error bodies: more is nothing that we would read.
MAX_BODY_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 20


class NoConnectionError(DuetError):
    """Nobody listens there, the name is unknown, or TLS failed; nothing was asked."""


class BrokenOffError(DuetError):
    """The connection ended, or what came is not HTTP."""


class Exchange:
    """Use `ask`, then the status and the body. A checkpoint whenever the network is waited for."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._stream: trio.abc.Stream | None = None
        self._socket: trio.SocketStream | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 16)
        self._line = bytearray()
        self._ended = False
        self.status = 0
        self.headers: dict[str, str] = {}

    @property
    def content_type(self) -> str:
        """Of the response, in lower case and without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def ask(self, path: str, content_type: str, body: bytes) -> None:
        """Connect, ``POST`` and read the response's head.

        Raises `NoConnectionError` and `BrokenOffError`.
        """
        await self._connect()
        headers = [
            ("Host", self._address.host_header),
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
            ("User-Agent", "duet-trio"),
        ]
        if self._address.key:
            headers.append(("Authorization", f"Bearer {self._address.key}"))
        head = h11.Request(method="POST", target=self._address.path + path, headers=headers)
        await self._send(self._http.send(head))
        await self._send(self._http.send(h11.Data(data=body)))
        await self._send(self._http.send(h11.EndOfMessage()))
        while True:
            event = await self._next_event()
            if isinstance(event, h11.InformationalResponse):
                continue
            if not isinstance(event, h11.Response):
                raise BrokenOffError("the connection ended before a response")
            self.status = event.status_code
            self.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in event.headers
            }
            return

    async def read(self) -> bytes:
        """The next bytes of the body; empty at its end. Raises `BrokenOffError`."""
        while not self._ended:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._ended = True
            else:
                raise BrokenOffError("the response broke off")
        return b""

    async def read_all(self) -> bytes:
        """The rest of the body. Raises `BrokenOffError`, also for one that is far too long."""
        body = bytearray()
        while chunk := await self.read():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise BrokenOffError("the response is far too long")
        return bytes(body)

    async def read_line(self) -> bytes | None:
        """The next line of the body without its end; None behind the last."""
        while True:
            line, newline, rest = self._line.partition(b"\n")
            if newline:
                self._line = rest
                return bytes(line).rstrip(b"\r")
            if len(self._line) > MAX_LINE_BYTES:
                raise BrokenOffError("a line is far too long")
            chunk = await self.read()
            if not chunk:
                last = bytes(self._line)
                self._line.clear()
                return last or None
            self._line += chunk

    def close(self) -> None:
        """Hang up (synchronous, at any time, more than once)."""
        if self._socket is not None:
            self._socket.socket.close()
        self._socket = self._stream = None

    async def _connect(self) -> None:
        try:
            socket = await trio.open_tcp_stream(self._address.host, self._address.port)
        except OSError as error:
            raise NoConnectionError(f"{self._address.where}: {error.strerror or error}") from None
        self._socket = self._stream = socket
        if self._address.tls is None:
            return
        secured = trio.SSLStream(
            socket, self._address.tls, server_hostname=self._address.host, https_compatible=True
        )
        try:
            await secured.do_handshake()
        except (trio.BrokenResourceError, ssl.SSLError, ssl.CertificateError) as error:
            cause = error.__cause__ or error
            self.close()
            raise NoConnectionError(f"{self._address.where}: no TLS ({cause})") from None
        self._stream = secured

    async def _send(self, data: bytes | None) -> None:
        assert self._stream is not None
        try:
            # An error: it may have answered and hung up before it had read everything (413, 429),
            # so what it said comes first, and reading tells.
            if data:
                await self._stream.send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()
        except trio.ClosedResourceError:
            raise BrokenOffError("the connection was closed") from None

    async def _next_event(self) -> object:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BrokenOffError(f"no HTTP, or not all of it: {error}") from None
            if event is not h11.NEED_DATA:
                return event
            if self._stream is None:
                raise BrokenOffError("the connection was closed")
            try:
                data = await self._stream.receive_some(READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                raise BrokenOffError("the connection was reset") from None
            self._http.receive_data(bytes(data))
