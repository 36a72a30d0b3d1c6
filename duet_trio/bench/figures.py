"""Quantiles, and the machine on which they were measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Spread:
    """A sample of durations, in the unit that it was given in."""

    count: int
    median: float
    p99: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        ordered = sorted(values)
        return cls(
            len(ordered),
            round(quantile(ordered, 0.5), 3),
            round(quantile(ordered, 0.99), 3),
            round(ordered[-1], 3),
        )

    def __str__(self) -> str:
        return f"median {self.median:.2f}, p99 {self.p99:.2f}, largest {self.largest:.2f}"

    def as_dict(self) -> dict[str, float]:
        """For ``--json``."""
        return asdict(self)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of an ordered, non-empty sample lies (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, str | int]:
    """What somebody needs to compare figures."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
