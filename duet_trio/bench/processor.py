"""Processor time, of processes and of everybody: what a figure from a shared machine is worth.

All in seconds since any origin, from ``/proc`` (Linux; elsewhere 0).
"""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = 100.0


def own_cpu_s() -> float:
    """Of this process."""
    times = os.times()
    return times.user + times.system


def process_cpu_s(pid: int) -> float:
    """Of one process, its children not included."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def children_cpu_s(pid: int) -> float:
    """Of the children of a process."""
    total = 0.0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += process_cpu_s(int(child))
    except OSError:
        pass
    return total


def busy_s(core: int | None = None) -> float:
    """Of everybody, what a host took away included: on one core, or on all together."""
    name = "cpu" if core is None else f"cpu{core}"
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        head, *fields = line.split()
        if head == name:
            ticks = [int(field) for field in fields[:8]]
            return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS_PER_S  # idle, waiting for disks
    return 0.0
