"""The search for what nobody thought of: drawn scenarios, run whole, judged by invariants.

Everything runs on a mock clock with the server's own code; a seed fixes the engines, the users'
deeds, the faults and trio's task order, so that a failure can be had again by its number alone.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from duet_trio.lab.run import run_scenario
from duet_trio.lab.scenario import draw
from duet_trio.lab.verdict import Outcome


@dataclass(slots=True)
class Report:
    """Many outcomes together."""

    scenarios: int = 0
    seconds: float = 0.0
    packets: int = 0
    pieces: int = 0
    answers: int = 0
    worst_stop_s: float = 0.0
    failures: list[Outcome] = field(default_factory=list)
    coverage: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.scenarios += 1
        self.packets += outcome.packets
        self.pieces += outcome.pieces
        self.answers += outcome.answers
        self.worst_stop_s = max(self.worst_stop_s, outcome.worst_stop_s)
        self.coverage.update(outcome.coverage)
        if outcome.complaints:
            self.failures.append(outcome)


def run_seeds(seeds: Sequence[int], first_failure: bool = False) -> Report:
    """Run them one after the other in this process."""
    report = Report()
    began = time.perf_counter()
    for seed in seeds:
        report.add(run_scenario(draw(seed)))
        if first_failure and report.failures:
            break
    report.seconds = time.perf_counter() - began
    return report


def search(
    seeds: Sequence[int],
    *,
    processes: int = 0,
    tell: Callable[[Report], None] = lambda _report: None,
) -> Report:
    """Run many seeds on several processes (0: as many as there are CPUs, at most 4)."""
    processes = processes or min(4, os.cpu_count() or 1)
    if processes == 1:
        return run_seeds(seeds)
    whole = Report()
    began = time.perf_counter()
    parts = [seeds[start : start + 50] for start in range(0, len(seeds), 50)]
    with ProcessPoolExecutor(processes, initializer=be_quiet) as pool:
        for part in pool.map(run_seeds, parts):
            _merge(whole, part)
            whole.seconds = time.perf_counter() - began
            tell(whole)
    return whole


def be_quiet() -> None:
    """What drawn boards do wrong is no news: no warnings of the server on stderr."""
    logging.getLogger("duet_trio").addHandler(logging.NullHandler())


def _merge(whole: Report, part: Report) -> None:
    whole.scenarios += part.scenarios
    whole.packets += part.packets
    whole.pieces += part.pieces
    whole.answers += part.answers
    whole.worst_stop_s = max(whole.worst_stop_s, part.worst_stop_s)
    whole.failures += part.failures
    whole.coverage.update(part.coverage)


def coverage_table(report: Report) -> Iterable[str]:
    """Phases × triggers, with the number of different faults that each met."""
    cells: dict[tuple[str, str], set[str]] = {}
    for where, trigger, effect in report.coverage:
        cells.setdefault((where, trigger), set()).add(effect)
    for (where, trigger), effects in sorted(cells.items()):
        yield f"{where:24} {trigger:10} {len(effects):3} faults"
