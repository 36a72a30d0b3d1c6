"""How many answers may speak at once."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duet_trio.engines.admission import Admission

pytestmark = pytest.mark.usefixtures("scheduler_seed")


def rtf(value: float) -> Any:
    return lambda: value


async def test_one_alone_is_always_admitted(autojump_clock: MockClock) -> None:
    async with Admission().admit("b", rtf=rtf(3.0)):
        pass
    assert trio.current_time() == 0


async def test_the_sum_is_bounded_and_the_order_fair(
    autojump_clock: MockClock, nursery: trio.Nursery, log: Any
) -> None:
    admission = Admission(0.9, log)
    came: list[str] = []

    async def answer(name: str, factor: float, seconds: float) -> None:
        async with admission.admit(name, rtf=rtf(factor)):
            came.append(name)
            await trio.sleep(seconds)

    for name, factor in (("a", 0.6), ("b", 0.6), ("c", 0.2)):
        nursery.start_soon(answer, name, factor, 2.0)
        await trio.testing.wait_all_tasks_blocked()
    # c would fit beside a, but b was first.
    assert came == ["a"]
    assert admission.statistics() == {"speaking": 1, "waiting": 2, "load": 0.6}
    await trio.sleep(2.5)
    assert came == ["a", "b", "c"]
    assert admission.statistics()["load"] == pytest.approx(0.8)
    waits = [(e["board"], e["waited_ms"]) for e in log.of("admission")]
    assert waits == [("a", 0.0), ("b", 2000.0), ("c", 2000.0)]


async def test_factors_that_fall_let_the_next_in(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    admission = Admission(0.9)

    async def talk() -> None:
        async with admission.admit("a", rtf=lambda: 0.8 if trio.current_time() < 3 else 0.4):
            await trio.sleep(100)

    nursery.start_soon(talk)
    await trio.testing.wait_all_tasks_blocked()
    async with admission.admit("b", rtf=rtf(0.4)):
        assert 3.0 <= trio.current_time() <= 3.3


async def test_random_cancels_leave_nothing(autojump_clock: MockClock, scheduler_seed: int) -> None:
    rng = random.Random(scheduler_seed)
    admission = Admission(0.9)
    outcomes: list[bool] = []

    async def answer() -> None:
        await trio.sleep(rng.uniform(0, 20))
        with trio.move_on_after(rng.choice((0.0, 1.0, 5.0, 1000.0))) as scope:
            async with admission.admit("b", rtf=rtf(rng.uniform(0, 0.8))):
                assert admission.statistics()["load"] <= 0.9 + 1e-9
                await trio.sleep(rng.uniform(0, 3))
        outcomes.append(scope.cancelled_caught)

    async with trio.open_nursery() as nursery:
        for _ in range(80):
            nursery.start_soon(answer)
    assert set(outcomes) == {True, False}
    assert admission.statistics() == {"speaking": 0, "waiting": 0, "load": 0}
