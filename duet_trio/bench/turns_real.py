"""``bench turns`` on real engines: alternately in turns and at once, in one sitting.

With ``share_core`` both workers are pinned to one CPU core, which then stands for the card: two
programs that compute, one thing to compute on. The sessions run on the other cores.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duet_trio.bench.processor import busy_s, children_cpu_s
from duet_trio.bench.turns_figures import Answers, Sitting, spread
from duet_trio.bench.turns_stage import SCHEDULES, Schedule, open_stage
from duet_trio.bench.turns_texts import QUESTIONS
from duet_trio.config import Config, load
from duet_trio.engines.carrier import Carrier
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.factory import CarrierFactory, in_worker_process
from duet_trio.engines.process import ProcessCarrier
from duet_trio.errors import UsageError
from duet_trio.trace.records import Event

#: Over the configuration file, and under ``--set``: the same text in both schedules (greedy),
#: long enough to stall, and both engines as users of one card.
SETTINGS = (
    "asr.engine=scripted",
    "llm.gpu=true",
    "tts.gpu=true",
    "llm.temperature=0",
    "llm.max_tokens=200",
    "llm.system_prompt=You are a story teller. You tell long stories in plain sentences.",
)


@dataclass(slots=True)
class RealFigures:
    """What one sitting found. ``events`` of each answer.

    ``disturbance``: share of the shared core that neither worker used, but somebody did.
    """

    voice: str
    writer: str
    core: int | None
    sitting: Sitting
    same_text: int = 0
    disturbance: dict[Schedule, list[float]] = field(default_factory=dict)
    events: dict[Schedule, list[list[Event]]] = field(default_factory=dict)
    load_average: float = 0.0


async def measure(
    file: Path,
    settings: Sequence[str],
    *,
    answers: int,
    share_core: bool,
    buffer_s: float,
    tell: Callable[[str], None],
) -> RealFigures:
    """Run the sitting; ``tell`` gets a line per answer. Raises like engines and configurations."""
    config = load(file, [*SETTINGS, *settings])
    core, carriers = _one_core(config) if share_core else (None, in_worker_process)
    found = RealFigures(
        voice=_engine(config.tts.engine, config.tts.model),
        writer=_engine(config.llm.engine, config.llm.model),
        core=core,
        sitting={schedule: Answers() for schedule in SCHEDULES},
    )
    async with open_stage(config, carriers) as stage:
        tell("warming up")
        await stage.ask("turns", "Say hello.")
        for number in range(answers):
            texts: list[str] = []
            for schedule in SCHEDULES if number % 2 == 0 else SCHEDULES[::-1]:
                watch = _Watch(core)
                events = await stage.ask(schedule, QUESTIONS[number % len(QUESTIONS)])
                others = watch.others()
                found.disturbance.setdefault(schedule, []).append(others)
                one = found.sitting[schedule].add(events, buffer_s)
                found.events.setdefault(schedule, []).append(events)
                texts.append("".join(e["text"] for e in events if e["event"] == "piece"))
                tell(
                    f"{schedule:8} {number + 1}: first audio {one.first_audio_s:.2f} s,"
                    f" stalls {one.stalls} ({one.stall_s:.2f} s),"
                    f" start delay {one.start_delay_s or 0:.2f} s, audio {one.audio_s:.0f} s"
                    + (f", others on the core {100 * others:.0f} %" if share_core else "")
                )
            found.same_text += texts[0] == texts[1]
    found.load_average = os.getloadavg()[0] if sys.platform != "win32" else 0.0
    return found


class _Watch:
    """Who computes on the shared core beside our two workers."""

    def __init__(self, core: int | None) -> None:
        self._core = core
        self._began = time.monotonic()
        self._busy_s, self._workers_s = busy_s(core), children_cpu_s(os.getpid())

    def others(self) -> float:
        """Their share of it since the beginning; 0 without a shared core."""
        if self._core is None:
            return 0.0
        busy = busy_s(self._core) - self._busy_s
        workers = children_cpu_s(os.getpid()) - self._workers_s
        return max(0.0, busy - workers) / (time.monotonic() - self._began)


def _one_core(config: Config) -> tuple[int, CarrierFactory]:
    if sys.platform != "linux":
        raise UsageError("--share-core: pinning to a core works on Linux only")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise UsageError("--share-core: needs a second core for the sessions; this machine has one")
    core = cores[-1]
    os.sched_setaffinity(0, cores[:-1])

    def carriers(kind: EngineKind, settings: dict[str, Any]) -> Carrier:
        return ProcessCarrier(kind, cpus=() if kind == "asr" else (core,))

    return core, carriers


def _engine(engine: str, model: str) -> str:
    return f"{engine} {Path(model).name}".strip()


def report(found: RealFigures) -> list[str]:
    """The lines for a person, below the table."""
    where = (
        f"core {found.core} stands for the card: both workers are pinned to it (modelled);"
        if found.core is not None
        else "each engine where its configuration puts it;"
    )
    count = len(found.sitting["turns"].each)
    disturbed = (
        [
            f"others used that core for {_percent(found, 'turns')} of the time in turns,"
            f" {_percent(found, 'overlap')} at once"
        ]
        if found.core is not None
        else []
    )
    return [
        f"LLM {found.writer}, voice {found.voice}, in worker processes, real time (measured)",
        f"{where} alternately, one sitting",
        f"same text in both schedules: {found.same_text} of {count};"
        f" load average at the end {found.load_average:.1f}",
        *disturbed,
    ]


def _percent(found: RealFigures, schedule: Schedule) -> str:
    return spread([100 * share for share in found.disturbance[schedule]]) + " %"
