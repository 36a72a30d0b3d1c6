"""What the fault matrix is made of: engines, effects, phases, triggers, and which go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import get_args

from duet_trio.engines.contracts import EngineKind
from duet_trio.lab.carriers import Harm

EFFECTS = (
    "hang",
    "error",
    "crash",
    "stop",
    "slow",
    "empty",
    "short",
    "endless",
    "garbage",
    "flood",
    "late",
    "deaf",
)
TRIGGERS = (
    "none",
    "button",
    "wake word",
    "barge-in",
    "new question",
    "disconnect",
    "reconnect",
)
#: Where a job's own fault comes: phase → engine, seam, occurrence.
IN_JOB: dict[str, tuple[EngineKind, str, int]] = {
    "ASR": ("asr", "asr.call", 1),
    "LLM prefill": ("llm", "llm.piece", 1),
    "between pieces": ("llm", "llm.piece", 2),
    "before the first block": ("tts", "tts.start", 1),
    "LLM paused for TTS": ("tts", "tts.start", 2),
    "mid-piece": ("tts", "tts.block", 2),
}
#: Where a worker that computes nothing is harmed from outside.
FROM_OUTSIDE: dict[str, tuple[EngineKind, ...]] = {
    "LLM paused for TTS": ("llm", "asr"),
    "draining": ("asr", "llm", "tts"),
    "idle": ("asr", "llm", "tts"),
}
#: The person can only talk over what is heard.
AUDIBLE = ("between pieces", "LLM paused for TTS", "mid-piece", "draining")


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination. ``seam`` empty: the worker is harmed from outside."""

    engine: EngineKind
    effect: str
    phase: str
    trigger: str
    seam: str = ""
    nth: int = 1

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.engine} {self.effect}, {self.phase}, {self.trigger}"

    @property
    def spoken(self) -> bool:
        """Are the questions spoken (else typed)?"""
        return self.engine == "asr" or self.trigger == "barge-in"


@dataclass(slots=True)
class CellResult:
    """``complaints``: empty if it passed. Times are seconds; None: there was nothing to time."""

    cell: Cell
    fired: bool = False
    complaints: list[str] = field(default_factory=list)
    stop_s: float | None = None
    next_spoke_s: float | None = None
    stale: int = 0


def cells() -> Iterator[Cell]:
    """All of them."""
    for where, (engine, seam, nth) in IN_JOB.items():
        for effect, trigger in product(EFFECTS, _triggers(where)):
            yield Cell(engine, effect, where, trigger, seam, nth)
    for trigger in _triggers("mid-piece"):
        yield Cell("tts", "hang", "mid-piece", trigger, "tts.block", 1)
    for trigger in _triggers("LLM prefill"):
        yield Cell("llm", "hang", "LLM prefill", trigger, "llm.token", 1)
    for where, engines in FROM_OUTSIDE.items():
        for engine, effect, trigger in product(engines, get_args(Harm), _triggers(where)):
            if where != "idle" or trigger in ("none", "disconnect", "reconnect"):
                yield Cell(engine, effect, where, trigger)


def _triggers(where: str) -> Sequence[str]:
    return [name for name in TRIGGERS if name != "barge-in" or where in AUDIBLE]
