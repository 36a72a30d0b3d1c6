"""The fault matrix: every cell fires and passes; a cell that cannot fire fails."""

from __future__ import annotations

import pytest

from duet_trio import cli
from duet_trio.lab.cells import Cell, cells
from duet_trio.lab.matrix import run_matrix
from duet_trio.lab.play import run_cell


def test_all_phases_triggers_and_effects_are_in_the_matrix() -> None:
    chosen = list(cells())
    assert {cell.engine for cell in chosen} == {"asr", "llm", "tts"}
    assert len({cell.phase for cell in chosen}) == 8
    assert len({cell.trigger for cell in chosen}) == 7
    assert len({cell.effect for cell in chosen}) == 12
    assert len(set(chosen)) == len(chosen) >= 500


def test_a_sample_of_the_matrix_passes() -> None:
    report = run_matrix(list(cells())[::23], processes=1)
    assert report.to_dict()["failures"] == {}


@pytest.mark.slow
def test_the_whole_matrix_passes() -> None:
    figures = run_matrix().to_dict()
    assert figures["failures"] == {}
    assert figures["never_fired"] == 0
    assert figures["stale"] == 0
    assert figures["worst_abort_to_stop_s"] < 0.05
    assert figures["worst_fault_to_stop_s"] < 10.5  # the longest deadline and half a second
    assert figures["passed"] == figures["cells"]


def test_a_fault_that_never_fires_fails_its_cell() -> None:
    result = run_cell(Cell("tts", "hang", "mid-piece", "none", "tts.block", nth=5000))
    assert result.complaints == ["the fault never fired"]


def test_the_named_cases_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["faults", "run"]) == 0
    shown = capsys.readouterr().out
    for name in ("interrupt-and-ask", "handover-error", "handover-hang"):
        assert f"{name}.toml: passed" in shown


def test_a_case_whose_fault_never_comes_fails(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{tmp_path}/never.toml"
    with open(path, "w") as file:
        file.write('[[fault]]\nseam = "tts.block"\neffect = "hang"\nnth = 5000\n')
    assert cli.main(["faults", "run", path, "--json"]) == 1
    assert "never fired" in capsys.readouterr().out
