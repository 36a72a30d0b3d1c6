"""What happens in one run of the search: engines, boards, deeds, faults. Drawn from one seed.

A scenario is plain data: it can be written down, replayed, and shrunk by leaving parts of it out.
"""

from __future__ import annotations

import random
from typing import Literal

from msgspec import Struct

from duet_trio.config import Config, load
from duet_trio.engines.injected import EFFECTS
from duet_trio.faults.plan import Fault, Plan
from duet_trio.wire.messages import ListenMode

DeedKind = Literal[
    "ask",  # a typed question, whatever is going on
    "speak",  # a spoken one (or barge-in)
    "abort",  # the button
    "wake_word",
    "press",  # the talk key goes down
    "drop",  # the connection is lost
    "reconnect",  # dial again while the old connection still stands
    "vanish",  # dial again; the old connection is never heard of any more
    "ping",  # something harmless
    "junk",  # something that is no message
]

STORIES = (
    "The first sentence of a story. And a second, a bit longer one.",
    "A fox lived in a wood. It had a friend, a crow. They shared a cheese.",
    "Yes. I can tell you that. First you go left, and then straight on.",
)

#: After these the worker is killed: no engine may restart without one of them.
DEADLY = frozenset({"hang", "crash", "stop", "garbage", "flood", "deaf", "late", "slow", "endless"})


class Deed(Struct, frozen=True):
    """Something a user does, ``after_s`` after the deed before it."""

    kind: DeedKind
    after_s: float


class BoardScenario(Struct, frozen=True):
    """One board: how fast its wire is, and what its user does."""

    deeds: tuple[Deed, ...]
    slow_s: float = 0.0
    mode: ListenMode = "auto"


class Scenario(Struct, frozen=True):
    """One run. ``seed`` is also that of trio's task order."""

    seed: int
    boards: tuple[BoardScenario, ...]
    plan: Plan = Plan()
    turns: bool = True  # LLM and TTS share a GPU
    overlap: bool = False
    rtf: float = 0.5
    first_audio_s: float = 0.1
    tokens_per_s: float = 60.0
    load_s: float = 0.2
    reap_s: float = 0.0
    send_s: float = 5.0
    max_load: float = 0.9
    slots: int = 256  # jobs that each engine does at once; real ones do one

    def config(self) -> Config:
        """The server's configuration."""
        names = {
            "asr.engine": '"scripted"',
            "llm.engine": '"scripted"',
            "tts.engine": '"scripted"',
            "llm.gpu": str(self.turns).lower(),
            "tts.gpu": str(self.turns).lower(),
            "llm.overlap": str(self.overlap).lower(),
            "llm.script": "[" + ", ".join(f'"{story}"' for story in STORIES) + "]",
            "llm.tokens_per_s": f"{self.tokens_per_s:.3f}",
            "tts.rtf": f"{self.rtf:.3f}",
            "tts.first_audio_s": f"{self.first_audio_s:.3f}",
            "tts.seconds_per_character": "0.03",
            "asr.script": '["what is the weather like", "tell me a story"]',
            "answer.admission_s": "120",
            "answer.max_load": f"{self.max_load:.3f}",
            "pacer.send_s": f"{self.send_s:.3f}",
            "voice.barge_in": str(any(b.mode == "realtime" for b in self.boards)).lower(),
        }
        return load(None, [f"{name}={value}" for name, value in names.items()])


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    turns = rng.random() < 0.7
    return Scenario(
        seed=seed,
        boards=tuple(_draw_board(rng) for _ in range(2)),
        plan=Plan(seed=seed, fault=tuple(_draw_fault(rng) for _ in range(_fault_count(rng)))),
        turns=turns,
        overlap=turns and rng.random() < 0.1,
        rtf=rng.choice((0.05, 0.3, 0.5, 0.8)),
        first_audio_s=rng.choice((0.0, 0.1, 0.3, 0.8)),
        tokens_per_s=rng.choice((15.0, 60.0, 400.0)),
        load_s=rng.choice((0.0, 0.2, 2.0)),
        reap_s=rng.choice((0.0, 0.0, 0.3)),
        send_s=rng.choice((0.5, 5.0)),
        max_load=rng.choice((0.9, 5.0)),
        slots=rng.choice((1, 256)),
    )


def _fault_count(rng: random.Random) -> int:
    return rng.choices((0, 1, 2), (3, 5, 2))[0]


def _draw_board(rng: random.Random) -> BoardScenario:
    kinds = ("abort", "ask", "wake_word", "press", "drop", "reconnect", "vanish", "speak", "junk")
    weights = (8, 6, 3, 2, 3, 2, 1, 2, 1)
    deeds = [Deed("ask", round(rng.uniform(0, 0.5), 3))]
    for _ in range(rng.randrange(4)):
        kind = rng.choices(kinds, weights)[0]
        deeds.append(Deed(kind, _moment(rng)))  # type: ignore[arg-type]
        if kind != "ask" and rng.random() < 0.6:  # … and asks at once, or nearly
            deeds.append(Deed("ask", rng.choice((0.0, 0.0, 0.001, 0.02, 0.3))))
    slow_s = rng.choices((0.0, 0.005, 0.05, 0.3), (6, 2, 1, 1))[0]
    mode: ListenMode = "realtime" if rng.random() < 0.2 else "auto"
    return BoardScenario(tuple(deeds), slow_s, mode)


def _moment(rng: random.Random) -> float:
    """Early instants are the interesting ones; some fall exactly on a packet's time."""
    spread = rng.choice((0.0, 0.05, 0.3, 1.5, 4.0))
    moment = rng.uniform(0, spread)
    return round(moment / 0.06) * 0.06 if rng.random() < 0.3 else round(moment, 3)


def _draw_fault(rng: random.Random) -> Fault:
    seam = rng.choice(
        ("tts.start", "tts.block", "tts.block", "llm.piece", "llm.token", "asr.call", "socket.send")
    )
    if seam == "socket.send":
        effect = rng.choice(("stall", "half_open", "reset", "slow"))
        return Fault(
            seam=seam,
            effect=effect,
            nth=rng.randrange(1, 60),
            value=rng.choice((0.02, 0.2)) if effect == "slow" else 0.0,
        )
    effect = rng.choice(sorted(EFFECTS))
    value = {"late": rng.choice((0.1, 1.0, 30.0)), "slow": rng.choice((1.3, 3.0))}.get(effect, 0.0)
    generation = rng.choice((None, None, 1, 2, 3))
    return Fault(
        seam=seam,
        effect=effect,
        generation=None if seam == "asr.call" else generation,
        nth=rng.choice((1, 1, 2, 3, 7)),
        value=value,
    )
