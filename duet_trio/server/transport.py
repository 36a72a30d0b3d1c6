"""A board's WebSocket as a `Transport`: whole messages, one kind of error, an end with a limit."""

from __future__ import annotations

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

from duet_trio.errors import ConnectionLostError
from duet_trio.server.brake import Brake

#: Boards never answer a Close frame; trio-websocket would wait for 60 s.
CLOSE_S = 0.3
#: A board that streams 20 ms packets sends 50 messages a second.
MESSAGES_PER_S = 200.0
BURST_MESSAGES = 2000.0


class WebSocketTransport:
    """See `duet_trio.session.connection.Transport`."""

    def __init__(self, socket: WebSocketConnection, stream: trio.abc.Stream) -> None:
        self._socket = socket
        self._stream = stream
        self._brake = Brake(MESSAGES_PER_S, BURST_MESSAGES)

    async def send(self, data: str | bytes) -> None:
        """Send one message whole. Cancelled in the middle, the stream is torn."""
        try:
            await self._socket.send_message(data)
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(f"the board is gone ({type(error).__name__})") from None

    async def receive(self) -> str | bytes:
        """The next message."""
        await self._brake.released()
        self._brake.spend(1)
        try:
            return await self._socket.get_message()
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(f"the board is gone ({type(error).__name__})") from None

    async def close(self, reason: str) -> None:
        """Say goodbye for at most `CLOSE_S`, then drop the connection. Shielded, so bounded."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(CLOSE_S):
                await self._socket.aclose(1000, reason)
            await trio.aclose_forcefully(self._stream)
