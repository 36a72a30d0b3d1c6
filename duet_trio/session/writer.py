"""The only task that sends to a board."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from duet_trio.errors import ConnectionLostError
from duet_trio.events import Recorder
from duet_trio.session.outbox import Frame, Outbox
from duet_trio.wire.framing import pack
from duet_trio.wire.messages import ServerMessage, encode

#: Sends one WebSocket message, text or binary; raises `ConnectionLostError` when the peer is gone.
Send = Callable[[str | bytes], Awaitable[None]]


class Writer:
    """Takes items out of the outbox and sends them whole, each within ``deadline_s``."""

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        recorder: Recorder,
        *,
        board: str,
        session_id: str,
        version: Callable[[], int],
        deadline_s: float,
        on_sent: Callable[[ServerMessage], None],
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._recorder = recorder
        self._board = board
        self._session_id = session_id
        self._version = version
        self._deadline_s = deadline_s
        self._on_sent = on_sent
        self._stamp_ms = 0
        self.last_sent = trio.current_time()

    async def run(self) -> None:
        """Send until cancelled. Raises `ConnectionLostError` when a send fails or is too slow.

        It is cancelled only when the whole connection goes: a send cut short tears the stream.
        """
        while True:
            item = await self._outbox.take()
            if isinstance(item, Frame):
                # The stamp lets a board with server-side echo cancellation name what it played:
                # no two packets have the same one, though the lead is due at once.
                self._stamp_ms = max(self._stamp_ms + 1, int(item.due * 1000))
                await self._send_whole(pack(self._version(), item.opus, self._stamp_ms))
                item.on_sent(item.sequence, self.last_sent)
                self._recorder.emit(
                    "sent",
                    board=self._board,
                    generation=item.generation,
                    what="frame",
                    sequence=item.sequence,
                    due=round(item.due, 4),
                    piece=item.piece,
                )
            else:
                await self._send_whole(encode(item.message, self._session_id))
                self._on_sent(item.message)
                self._recorder.emit(
                    "sent",
                    board=self._board,
                    generation=item.generation,
                    what=item.message.name,
                )

    async def _send_whole(self, data: str | bytes) -> None:
        with trio.move_on_after(self._deadline_s) as scope:
            await self._send(data)
        if scope.cancelled_caught:
            raise ConnectionLostError(f"a send took longer than {self._deadline_s:g} s")
        self.last_sent = trio.current_time()
