"""Will it fit? VRAM and RAM of a configuration, planned from the heads of its model files.

Nothing is loaded and no card is needed. Files that are not there yet but that the catalogue knows
are planned from their published dimensions (`memory_plan.published`), and the plan says so. Figures
that no file tells (contexts, processes, the desktop) are assumptions and say so; where nvidia-smi
exists, what is really in use stands beside the plan.
"""

from __future__ import annotations

from duet_trio.config import Config
from duet_trio.memory_plan.advice import Adviser
from duet_trio.memory_plan.machine import measure
from duet_trio.memory_plan.parts import all_rows
from duet_trio.memory_plan.rows import (
    REFERENCE_VRAM_MIB,
    VRAM_SPARE_MIB,
    Advice,
    Cure,
    Measured,
    MemoryPlan,
    Row,
)
from duet_trio.memory_plan.sources import Sources

__all__ = ["Advice", "Cure", "Measured", "MemoryPlan", "Row", "plan"]


def plan(config: Config, *, measured: Measured | None = None) -> MemoryPlan:
    """Plan ``config``. Missing or damaged model files are listed, not raised.

    ``measured``: what the machine says (default: asked now, up to ten seconds).
    """
    sources = Sources()
    rows, missing = all_rows(config, sources)
    now = measure() if measured is None else measured
    own = None if now.vram_total_mib is None else now.vram_total_mib - VRAM_SPARE_MIB
    adviser = Adviser(config, sources)
    return MemoryPlan(
        rows=tuple(rows),
        advice=tuple(adviser.savings()),
        cure=adviser.cure(REFERENCE_VRAM_MIB - VRAM_SPARE_MIB),
        own_cure=None if own is None else adviser.cure(own),
        missing=tuple(missing),
        published=tuple(sources.published),
        measured=now,
    )
