"""What this machine says about itself: nvidia-smi where it exists, and its RAM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from duet_trio.memory_plan.rows import MIB, Measured

_QUERY = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,memory.used",
    "--format=csv,noheader,nounits",
)
_LIMIT_S = 10.0


def measure(command: Sequence[str] = _QUERY) -> Measured:
    """Ask; fields that nobody answers stay None. Blocks for at most ten seconds."""
    ram = _ram_mib()
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_LIMIT_S, check=False, encoding="utf-8",
            errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return Measured(ram_total_mib=ram)
    line = done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else ""
    name, *figures = (field.strip() for field in line.rsplit(",", 2))
    try:
        total, used = (float(figure) for figure in figures)
    except ValueError:  # "[N/A]" on cards that share the machine's memory
        return Measured(gpu_name=name, ram_total_mib=ram)
    return Measured(name, total, used, ram)


def _ram_mib() -> float | None:
    names = getattr(os, "sysconf_names", {})  # not on Windows
    if "SC_PHYS_PAGES" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB
