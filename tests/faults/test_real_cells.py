"""Cells of the matrix with real worker processes and real sockets."""

from __future__ import annotations

import pytest

from duet_trio.lab.real import CHOSEN, DEADLINE_S, run_real_cells

QUICK = CHOSEN[2]  # a worker that dies in mid-piece
#: One cell in five; ``duet faults run --real`` runs them all, which takes two minutes.
SOME = CHOSEN[::5]


def test_a_dying_worker_behind_a_real_socket() -> None:
    (result,) = run_real_cells([QUICK])
    assert result.complaints == []
    assert result.fired


@pytest.mark.slow
@pytest.mark.parametrize("cell", SOME, ids=lambda cell: cell.name)
def test_a_cell_with_real_workers(cell: object) -> None:
    (result,) = run_real_cells([cell])  # type: ignore[list-item]
    assert result.complaints == []
    assert result.stop_s is None or result.stop_s <= DEADLINE_S + 0.5 + 1.0  # a busy machine
