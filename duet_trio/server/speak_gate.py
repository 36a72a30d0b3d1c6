"""The gate to the engines for HTTP answers: behind every board, and few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, cast

import trio

from duet_trio.engines.contracts import Hold, Turn
from duet_trio.session.services import Services


class PoliteGate:
    """The gate for HTTP answers: at most as many at the engines as they have slots.

    Without it fifty programs would queue up inside a voice with one slot, and a board's piece
    behind all of them; so at most one of theirs is in front of it.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._limits = {"tts": trio.CapacityLimiter(1), "llm": trio.CapacityLimiter(1)}

    def turn(
        self,
        who: Literal["llm", "tts", "asr"],
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Turn:
        """A turn at the real gate, once it is our turn among ourselves."""
        turn = self._services.gate.turn(who, board=board, generation=generation, urgency=urgency)
        limit = self._limits.get(who)
        if limit is None:
            return turn
        engine = self._services.tts if who == "tts" else self._services.llm
        limit.total_tokens = max(1, engine.slots)
        return cast(Turn, _politely(limit, turn))

    def waiting(self) -> dict[str, int]:
        """Who waits, by engine."""
        return {who: limit.statistics().tasks_waiting for who, limit in self._limits.items()}


@asynccontextmanager
async def _politely(limit: trio.CapacityLimiter, turn: Turn) -> AsyncIterator[Hold]:
    async with limit, turn as hold:
        yield hold
