"""What a board has sent and its listener has not yet heard: packets, and where the key went up."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import trio

#: Audio that may wait. A wake word's burst is 2 s, and a slow moment may come on top; more would
#: be a lasting delay.
MAX_BACKLOG_MS = 4000


@dataclass(frozen=True, slots=True)
class HeardPacket:
    """One uplink packet; ``arrived_at`` is trio time."""

    opus: bytes
    arrived_at: float


@dataclass(frozen=True, slots=True)
class KeyUp:
    """``listen stop``, at its place among the packets."""


class Backlog:
    """First in, first out; too much audio loses its oldest. One task takes.

    ``frame_ms`` is how long the board's packets are.
    """

    def __init__(self, frame_ms: int) -> None:
        self.frame_ms = frame_ms
        self.dropped = 0
        self._items: deque[HeardPacket | KeyUp] = deque()
        self._arrived = trio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: HeardPacket | KeyUp) -> None:
        """Leave something for the taker. Never waits."""
        full = len(self._items) * self.frame_ms >= MAX_BACKLOG_MS
        if full and isinstance(item, HeardPacket):
            self._drop_oldest()
        self._items.append(item)
        self._arrived.set()

    def clear(self) -> None:
        """Forget all of it. Never waits."""
        self._items.clear()

    async def arrived(self) -> None:
        """Wait until something is there (no checkpoint if it is). A cancel loses nothing."""
        while not self._items:
            self._arrived = trio.Event()
            await self._arrived.wait()

    def first(self) -> HeardPacket | KeyUp:
        """What comes next; it stays. Raises `IndexError` if there is nothing."""
        return self._items[0]

    def take(self) -> HeardPacket | KeyUp:
        """Take what comes next. Raises `IndexError` if there is nothing."""
        return self._items.popleft()

    def _drop_oldest(self) -> None:
        """Audio only: a lost ``listen stop`` would leave its utterance open for ever."""
        for index, item in enumerate(self._items):
            if isinstance(item, HeardPacket):
                del self._items[index]
                self.dropped += 1
                return
