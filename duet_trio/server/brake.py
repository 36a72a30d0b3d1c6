"""Whoever sends too much is read more slowly: TCP then holds him back, and nobody else notices."""

from __future__ import annotations

import trio

#: A board sends some 10 kB/s, and a list of its tools at once. The limit is on bytes, beside the
#: one on messages, since a WebSocket carries things that are no message: pings, pongs, and
#: fragments without an end. (One peer that sends these as fast as it can fills a core.)
BYTES_PER_S = 64_000.0
BURST_BYTES = 512_000.0
#: What each send counts for: six bytes of a ping make us send a pong, which takes 50 µs. (A board
#: that listens to an answer is sent 20 messages a second.)
SEND_BYTES = 100.0


class Brake:
    """An allowance that grows by ``per_s`` up to ``burst``; one purchase may overdraw it."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._counted_at = trio.current_time()

    async def released(self) -> None:
        """Wait until the allowance is not overdrawn (no checkpoint if it is not)."""
        self._grow()
        if self._left < 0:
            await trio.sleep(-self._left / self._per_s)

    def spend(self, amount: float) -> None:
        """Take from the allowance."""
        self._grow()
        self._left -= amount

    def _grow(self) -> None:
        now = trio.current_time()
        self._left = min(self._burst, self._left + (now - self._counted_at) * self._per_s)
        self._counted_at = now


class BrakedStream(trio.abc.Stream):
    """A byte stream that gives no more than `BYTES_PER_S`, after a burst."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._brake = Brake(BYTES_PER_S, BURST_BYTES)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the stream, when it is time. A cancel loses nothing."""
        await self._brake.released()
        data = await self._stream.receive_some(max_bytes)
        self._brake.spend(len(data))
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of the stream; it counts, since the peer can make us send."""
        self._brake.spend(SEND_BYTES)
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As of the stream."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """As of the stream."""
        await self._stream.aclose()
