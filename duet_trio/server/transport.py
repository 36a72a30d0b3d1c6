"""A board's WebSocket as a `Transport`: whole messages, one kind of error, an end with a limit."""

from __future__ import annotations

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

from duet_trio.errors import ConnectionLostError

#: Boards never answer a Close frame; trio-websocket would wait for 60 s.
CLOSE_S = 0.3
#: A board that streams 20 ms packets sends 50 messages a second. Whoever sends more than this,
#: beyond a burst, is read more slowly: TCP then holds him back, and nobody else notices.
MESSAGES_PER_S = 200.0
BURST_MESSAGES = 2000.0


class WebSocketTransport:
    """See `duet_trio.session.connection.Transport`."""

    def __init__(self, socket: WebSocketConnection, stream: trio.abc.Stream) -> None:
        self._socket = socket
        self._stream = stream
        self._allowance = BURST_MESSAGES
        self._counted_at = trio.current_time()

    async def send(self, data: str | bytes) -> None:
        """Send one message whole. Cancelled in the middle, the stream is torn."""
        try:
            await self._socket.send_message(data)
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(f"the board is gone ({type(error).__name__})") from None

    async def receive(self) -> str | bytes:
        """The next message."""
        await self._brake()
        try:
            return await self._socket.get_message()
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(f"the board is gone ({type(error).__name__})") from None

    async def _brake(self) -> None:
        now = trio.current_time()
        gained = (now - self._counted_at) * MESSAGES_PER_S
        self._allowance = min(BURST_MESSAGES, self._allowance + gained) - 1
        self._counted_at = now
        if self._allowance < 0:
            await trio.sleep(-self._allowance / MESSAGES_PER_S)

    async def close(self, reason: str) -> None:
        """Say goodbye for at most `CLOSE_S`, then drop the connection. Shielded, so bounded."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(CLOSE_S):
                await self._socket.aclose(1000, reason)
            await trio.aclose_forcefully(self._stream)
