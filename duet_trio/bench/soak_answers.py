"""Answers for a soak: typed and spoken questions, most aborted somewhere, some heard whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from duet_trio.board.fingerprint import generation_of
from duet_trio.lab.puppet import Puppet, spoken_packets
from duet_trio.opus import Decoder
from duet_trio.wire.messages import ListenStart, ListenStop

WARM_UP = 200  # questions before the first look
WHOLE_EVERY = 9  # odd: typed and spoken ones alike are heard to their end
WHOLE_S = 20.0  # longest wait for that


@dataclass(frozen=True, slots=True)
class Habits:
    """How questions are put, and when answers are aborted, seconds after the question."""

    recordings: tuple[bytes, ...]  # 16 kHz s16le, up to 4 s each
    typed: tuple[str, ...]
    waits_s: tuple[float, ...]


class TonedEars:
    """Names a scripted answer by its tone."""

    def __init__(self) -> None:
        self._decoder = Decoder(24_000)

    def __call__(self, packet: bytes) -> int | None:
        """The answer's number (mod 40); None: silence."""
        return generation_of(self._decoder.decode(packet))


def any_voice(packet: bytes) -> None:
    """Ears for a real voice: whose answer it reads cannot be heard."""


class Questions:
    """Boards that ask until together they have asked often enough."""

    def __init__(self, habits: Habits, rng: random.Random) -> None:
        self._habits = habits
        self._rng = rng
        self.asked = 0
        self.spoken = 0
        self.whole = 0  # answers heard to their end

    async def ask_until(self, boards: Sequence[Puppet], count: int) -> None:
        """All boards at once, each one question after the other."""
        async with trio.open_nursery() as nursery:
            for board in boards:
                nursery.start_soon(self._ask_some, board, count)

    async def _ask_some(self, board: Puppet, count: int) -> None:
        if not board.connected:
            board.connect()
            await trio.sleep(0.2)
        while self.asked < count:
            self.asked += 1
            if self.asked % WHOLE_EVERY == 0:
                await self._hear_whole(board)
            else:
                self._ask(board)
                await trio.sleep(self._rng.choice(self._habits.waits_s))
            board.abort()
            await trio.sleep(0.02)

    async def _hear_whole(self, board: Puppet) -> None:
        before = len(board.parts)
        self._ask(board)
        with trio.move_on_after(WHOLE_S) as limit:
            while len(board.parts) == before or board.speaking:
                await board.news.wait()
        self.whole += not limit.cancelled_caught

    def _ask(self, board: Puppet) -> None:
        """Every second question is spoken with the talk key held: all of it at once."""
        if self.asked % 2:
            self.spoken += 1
            board.press()
            for packet in spoken_packets(self._rng.choice(self._habits.recordings), 0):
                board.raw(packet)
            board.say(ListenStop())
        else:
            board.say(ListenStart(mode=board.mode))  # else a text after audio is a wake word
            board.ask(self._rng.choice(self._habits.typed))
