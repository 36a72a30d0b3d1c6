"""From a scenario that fails to the smallest one that still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from duet_trio.lab.run import run_scenario
from duet_trio.lab.scenario import Scenario

T = TypeVar("T")


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool] | None = None) -> Scenario:
    """The smallest scenario found by leaving parts out that still fails."""
    check = fails or (lambda one: bool(run_scenario(one).complaints))
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(scenario):
            if check(smaller):
                scenario, changed = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    change = msgspec.structs.replace
    for index in range(len(scenario.plan.fault)):
        faults = _without(scenario.plan.fault, index)
        yield change(scenario, plan=change(scenario.plan, fault=faults))
    if len(scenario.boards) > 1:
        for index in range(len(scenario.boards)):
            yield change(scenario, boards=_without(scenario.boards, index))
    for number, board in enumerate(scenario.boards):
        for index in range(len(board.deeds)):
            boards = list(scenario.boards)
            boards[number] = change(board, deeds=_without(board.deeds, index))
            yield change(scenario, boards=tuple(boards))
    usual = Scenario(seed=scenario.seed, boards=scenario.boards)
    for name in (
        "turns",
        "overlap",
        "rtf",
        "first_audio_s",
        "tokens_per_s",
        "load_s",
        "reap_s",
        "slots",
        "max_load",
        "send_s",
    ):
        if getattr(scenario, name) != getattr(usual, name):
            yield change(scenario, **{name: getattr(usual, name)})


def _without(items: tuple[T, ...], index: int) -> tuple[T, ...]:
    return items[:index] + items[index + 1 :]
