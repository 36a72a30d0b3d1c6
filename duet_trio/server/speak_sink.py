"""Where the PCM of an HTTP answer waits for its reader."""

from __future__ import annotations

from collections import deque

import trio

from duet_trio.session.speech_line import BYTES_PER_S
from duet_trio.speech.pcm import TailHolder

#: Quiet audio at the end of a piece that is kept: the pause between two pieces.
TAIL_MS = 200.0


class PcmSink:
    """A `PieceSink` that keeps PCM until it is taken; `take` is for one reader.

    Blocks are kept as they came and their quiet tails looked at when they are taken: the engine's
    callback, which may come for fifty answers in one moment, only puts them in line.
    """

    def __init__(self) -> None:
        self._blocks: deque[bytes | None] = deque()  # None: the end of a piece
        self._holder = TailHolder(TAIL_MS)
        self._of_piece = 0  # blocks at the end of the queue that belong to the piece begun last
        self._taken_of_piece = False
        self._bytes = 0
        self._news = trio.Event()
        self._room = trio.Event()
        self.finished = False

    def begin(self, index: int, text: str) -> None:
        """A piece starts."""
        self._of_piece = 0
        self._taken_of_piece = False

    def block(self, pcm: bytes) -> None:
        """PCM of the piece."""
        if pcm:
            self._blocks.append(pcm)
            self._of_piece += 1
            self._bytes += len(pcm)
            self._tell()

    def end(self) -> None:
        """The piece is complete."""
        self._blocks.append(None)
        self._of_piece = 0
        self._tell()

    def drop(self) -> bool:
        """Forget the piece, unless some of it has been taken."""
        if self._taken_of_piece:
            return False
        for _ in range(self._of_piece):
            self._bytes -= len(self._blocks.pop() or b"")
        self._of_piece = 0
        return True

    def finish(self) -> None:
        """No further piece will come."""
        self.finished = True
        self._tell()

    async def room(self, limit_s: float) -> None:
        """Wait until little enough waits."""
        while self._bytes > limit_s * BYTES_PER_S:
            self._room = trio.Event()
            await self._room.wait()

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be taken."""
        return not self._blocks

    async def news(self) -> None:
        """Wait until there is something to take, or until nothing more will come."""
        while not self._blocks and not self.finished:
            await self._news.wait()

    def take(self) -> bytes:
        """What is next, perhaps nothing: a long quiet tail waits for what follows it.

        Only if `is_empty` says no.
        """
        block = self._blocks.popleft()
        if block is None:
            rest, self._holder = self._holder.finish(), TailHolder(TAIL_MS)
            return rest
        self._bytes -= len(block)
        if len(self._blocks) < self._of_piece:
            self._of_piece = len(self._blocks)
            self._taken_of_piece = True
        self._room.set()
        return self._holder.feed(block)

    def _tell(self) -> None:
        """Wake all who wait: the reader, and who watches for the first audio."""
        self._news.set()
        self._news = trio.Event()
