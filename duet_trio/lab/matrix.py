"""The fault matrix: every engine × effect × phase × trigger that makes sense, each cell once.

A cell is one conversation on the mock clock with the server's own code and real Opus: a question,
a fault in its phase, a user who does something about it (or nothing), and one more question *at
once*. It passes only if the fault was really committed (its ``fault`` event is in the trace), the
answers keep the laws of `judge`, and the next answer was heard whole, by its tone.

The engines run one job at a time, as real ones do: the next question has to wait until a worker
that hangs has been killed and replaced.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from duet_trio.lab.cells import Cell, CellResult, cells
from duet_trio.lab.play import run_cell


@dataclass(slots=True)
class MatrixReport:
    """The whole matrix."""

    results: list[CellResult] = field(default_factory=list)

    @property
    def failed(self) -> list[CellResult]:
        """Cells that did not pass."""
        return [result for result in self.results if result.complaints]

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        stops = [r.stop_s for r in self.results if r.stop_s is not None]
        aborted = [
            r.stop_s
            for r in self.results
            if r.stop_s is not None and r.cell.trigger in ("button", "wake word", "new question")
        ]
        spoke = [r.next_spoke_s for r in self.results if r.next_spoke_s is not None]
        return {
            "cells": len(self.results),
            "passed": len(self.results) - len(self.failed),
            "never_fired": sum(not result.fired for result in self.results),
            "worst_abort_to_stop_s": round(max(aborted, default=0.0), 4),
            "worst_fault_to_stop_s": round(max(stops, default=0.0), 3),
            "worst_next_answer_s": round(max(spoke, default=0.0), 3),
            "stale": sum(result.stale for result in self.results),
            "failures": {r.cell.name: r.complaints for r in self.failed},
        }


def run_matrix(chosen: Sequence[Cell] | None = None, *, processes: int = 0) -> MatrixReport:
    """Run all cells (or the chosen ones) on several processes (0: one per CPU, at most 4)."""
    todo = list(cells()) if chosen is None else chosen
    processes = processes or min(4, os.cpu_count() or 1)
    if processes == 1:
        return MatrixReport([run_cell(cell) for cell in todo])
    with ProcessPoolExecutor(processes) as pool:
        return MatrixReport(list(pool.map(run_cell, todo, chunksize=8)))
