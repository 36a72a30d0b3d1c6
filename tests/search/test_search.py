"""The search itself: many scenarios pass, one number repeats one, a failure shrinks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from duet_trio import cli
from duet_trio.lab.run import run_scenario
from duet_trio.lab.scenario import Deed, Scenario, draw
from duet_trio.lab.search import Report, search
from duet_trio.lab.shrink import shrink


def passed(report: Report) -> None:
    assert [(one.seed, one.complaints) for one in report.failures] == []


def test_some_scenarios_pass() -> None:
    passed(search(range(40), processes=1))


@pytest.mark.slow
def test_fifteen_hundred_scenarios_pass(capsys: pytest.CaptureFixture[str]) -> None:
    report = search(range(1500))
    passed(report)
    assert report.scenarios == 1500
    assert report.pieces / report.scenarios >= 2
    assert report.packets / report.scenarios >= 40
    phases = {where for where, _trigger, _fault in report.coverage}
    triggers = {trigger for _where, trigger, _fault in report.coverage}
    faults = {fault for _where, _trigger, fault in report.coverage}
    assert phases >= {
        "idle",
        "prefill",
        "first piece",
        "before the first block",
        "mid-piece",
        "mid-piece, LLM paused",
        "between pieces",
        "draining",
    }
    assert len(triggers) == 9
    assert len(faults) == 65  # five seams x twelve effects, four of the socket, none
    with capsys.disabled():
        rate = report.scenarios / report.seconds
        print(f"\n{report.scenarios} scenarios, {rate:.0f}/s, {len(report.coverage)} combinations")


def test_a_seed_repeats_its_scenario() -> None:
    first, again = run_scenario(draw(7)), run_scenario(draw(7))
    assert (first.packets, first.pieces, first.answers, first.coverage) == (
        again.packets,
        again.pieces,
        again.answers,
        again.coverage,
    )


def test_a_scenario_can_be_written_down() -> None:
    scenario = draw(11)
    assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario


def test_a_failure_shrinks_to_what_it_needs() -> None:
    scenario = next(one for one in map(draw, range(1000)) if len(one.boards[0].deeds) > 4)
    culprit = scenario.boards[0].deeds[-1]

    def fails(one: Scenario) -> bool:
        return any(culprit in board.deeds for board in one.boards)

    small = shrink(scenario, fails)
    assert [board.deeds for board in small.boards] == [(culprit,)]
    assert small.plan.fault == ()


def test_one_command_replays_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["faults", "search", "--seed", "3"]) == 0
    assert "seed 3: passed" in capsys.readouterr().out


def test_the_named_cases_are_found_from_any_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["faults", "run", "--quiet"]) == 0
    assert "handover-hang.toml: passed" in capsys.readouterr().out


def test_a_board_that_is_never_answered_is_a_failure() -> None:
    """The judge of last resort: this server answers nobody within the patience of the search."""
    board = msgspec.structs.replace(draw(0).boards[0], deeds=(Deed("ask", 0.0),), slow_s=0.0)
    scenario = Scenario(seed=1, boards=(board,), first_audio_s=4.9, rtf=500.0)
    assert run_scenario(scenario).complaints
