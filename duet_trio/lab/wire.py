"""A board's connection without bytes: whole messages, and a send that can be slow or torn."""

from __future__ import annotations

from collections.abc import Callable

import trio

from duet_trio.errors import ConnectionLostError

Message = str | bytes


class MemoryWire:
    """The server's end is a `ClosableTransport`; the board's end is `say`, `drop` and ``take``.

    ``slow_s``: how long each send takes. As on a WebSocket, a send that is cancelled half-way
    tears the stream: later ones seem to work and nothing arrives any more. ``complaints`` gets
    what no server may do to a connection.
    """

    def __init__(
        self, take: Callable[[Message], None], complaints: list[str], *, slow_s: float = 0.0
    ) -> None:
        self.slow_s = slow_s
        self.gone = trio.Event()  # the server's side is closed
        self._take = take
        self._complaints = complaints
        self._to_server, self._from_board = trio.open_memory_channel[Message](1000)
        self._dropped = False
        self._sending = False
        self._torn = False

    # --- the server's end

    async def send(self, data: Message) -> None:
        """Send one message."""
        if self._dropped:
            raise ConnectionLostError("the board is gone")
        if self._sending:
            self._complaints.append("two tasks send at once")
        self._sending = True
        whole = False
        try:
            await trio.sleep(self.slow_s)
            whole = True
        finally:
            self._sending = False
            self._torn = self._torn or not whole
        if self._dropped:
            raise ConnectionLostError("the board is gone")
        if not self._torn:
            self._take(data)

    async def receive(self) -> Message:
        """Receive one message."""
        try:
            return await self._from_board.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise ConnectionLostError("the board is gone") from None

    async def close(self, reason: str) -> None:
        """End it (no checkpoint)."""
        self.end()

    def end(self) -> None:
        """End it from the server's side; synchronous."""
        self._dropped = True
        self._from_board.close()
        self.gone.set()

    # --- the board's end

    def say(self, message: Message) -> None:
        """Send to the server; lost if it has gone."""
        if not self._dropped:
            try:
                self._to_server.send_nowait(message)
            except (trio.BrokenResourceError, trio.WouldBlock):
                return

    def drop(self) -> None:
        """The connection is gone."""
        self._dropped = True
        self._to_server.close()

    @property
    def open(self) -> bool:
        """Does the connection stand, as far as the board can tell?"""
        return not self._dropped and not self.gone.is_set()
