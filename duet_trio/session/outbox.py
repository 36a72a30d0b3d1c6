"""The outbox: the one door through which anything leaves for a board.

Theory of operation. A cancelled send tears a WebSocket stream: the next send seems to work and
the board never sees a message again. So nothing inside an answer's cancel scope may ever send.
Answers put whole items here; the connection's writer, which lives outside every answer, takes
them out and is the only task that sends.

What an abort needs follows from three properties:

* `Outbox.control` and `Outbox.retire` are synchronous: an abort is one step with no checkpoint.
* A queued packet is still ours: `retire` makes it vanish, so only the one packet that the
  writer already holds can leave after it, and it leaves *before* the ``tts stop``.
* A retired generation is refused for ever. Generations only grow, so one number remembers them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from duet_trio.errors import ConnectionLostError, DuetError
from duet_trio.events import Recorder
from duet_trio.wire.messages import ServerMessage

#: Controls that may wait. A board gets a handful per answer; more than this means that it has
#: stopped reading, and the writer's send deadline is about to say so.
MAX_CONTROLS = 512


class RetiredError(DuetError):
    """The answer that wanted to send has been retired."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One Opus packet on its way. ``due`` is its time on the answer's schedule (trio clock)."""

    generation: int
    sequence: int
    opus: bytes
    due: float
    piece: int
    on_sent: Callable[[int, float], None]


@dataclass(frozen=True, slots=True)
class Control:
    """One message on its way; ``generation`` is the answer it belongs to, if any.

    ``lasting``: it stays though its generation is retired. So is the ``tts start``/``stop`` pair,
    which must leave whole or not at all, and whatever tells why it ended.
    """

    message: ServerMessage
    generation: int | None
    lasting: bool = False


Item = Frame | Control


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """For ``metrics``: what waits now."""

    controls: int
    frames: int


class Outbox:
    """First in, first out, with room for one packet; see the module's text."""

    def __init__(self, recorder: Recorder, board: str) -> None:
        self._recorder = recorder
        self._board = board
        self._items: deque[Item] = deque()
        self._frames = 0
        self._retired = 0
        self._closed = False
        self._filled = trio.Event()
        self._room = trio.Event()

    def control(
        self, message: ServerMessage, generation: int | None = None, *, lasting: bool = False
    ) -> bool:
        """Queue a message; never waits. Returns False if its generation has been retired.

        A ``lasting`` one is not refused: that is how ``tts stop`` follows `retire` in one step.
        """
        if self._closed or (not lasting and generation is not None and generation <= self._retired):
            return False
        if len(self._items) >= MAX_CONTROLS:
            self._closed = True
            self._filled.set()
            return False
        self._items.append(Control(message, generation, lasting))
        self._recorder.emit("control", board=self._board, generation=generation, what=message.name)
        self._filled.set()
        return True

    def retire(self, generation: int) -> int:
        """End a generation; returns how many of its packets vanished. Never waits."""
        self._retired = max(self._retired, generation)
        before = len(self._items)
        self._items = deque(item for item in self._items if not self._is_stale(item))
        self._frames = sum(isinstance(item, Frame) for item in self._items)
        self._room.set()
        return before - len(self._items)

    def is_retired(self, generation: int) -> bool:
        """Has this generation ended?"""
        return generation <= self._retired

    async def frame(self, frame: Frame) -> None:
        """Queue a packet once there is room for it (a checkpoint).

        Raises `RetiredError` if its generation is or gets retired. A cancel while waiting
        leaves nothing behind.
        """
        await trio.lowlevel.checkpoint()
        while True:
            if frame.generation <= self._retired or self._closed:
                raise RetiredError(f"generation {frame.generation} is over")
            if not self._frames:
                break
            self._room = trio.Event()
            await self._room.wait()
        self._items.append(frame)
        self._frames += 1
        self._recorder.emit(
            "frame",
            board=self._board,
            generation=frame.generation,
            sequence=frame.sequence,
            due=round(frame.due, 4),
            piece=frame.piece,
        )
        self._filled.set()

    async def take(self) -> Item:
        """Wait for the next item; for the writer alone. A cancel loses nothing.

        Raises `ConnectionLostError` when more controls piled up than any reading board causes.
        """
        while not self._items:
            if self._closed:
                raise ConnectionLostError("the board has stopped reading")
            self._filled = trio.Event()
            await self._filled.wait()
        if self._closed:
            raise ConnectionLostError("the board has stopped reading")
        item = self._items.popleft()
        if isinstance(item, Frame):
            self._frames -= 1
            self._room.set()
        return item

    def statistics(self) -> OutboxStatistics:
        """What waits now."""
        return OutboxStatistics(len(self._items) - self._frames, self._frames)

    def _is_stale(self, item: Item) -> bool:
        if isinstance(item, Control) and (item.lasting or item.generation is None):
            return False
        return item.generation is not None and item.generation <= self._retired
