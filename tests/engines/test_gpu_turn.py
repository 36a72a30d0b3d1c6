"""The turn on the GPU: who is next, what a cancel leaves, and a random search of invariants."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duet_trio.engines.gpu_turn import GpuTurn, OpenGate, SelectiveGate, Who

pytestmark = pytest.mark.usefixtures("scheduler_seed")


def soon(value: float = 1.0) -> Callable[[], float]:
    return lambda: value


async def order(gate: GpuTurn, nursery: trio.Nursery, *waiters: tuple[Any, ...]) -> list[str]:
    """Let ``(name, who, generation, urgency)`` queue behind a holder; who came in which order?"""
    came: list[str] = []

    async def wait(name: str, who: Who, generation: int, urgency: Any) -> None:
        async with gate.turn(who, board="b", generation=generation, urgency=urgency):
            came.append(name)
            await trio.sleep(1)

    async with gate.turn("llm", board=None, generation=0, urgency=soon()):
        for waiter in waiters:
            nursery.start_soon(wait, *waiter)
            await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(len(waiters) + 1)
    return came


async def test_the_answer_that_runs_dry_first_goes_first(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    came = await order(
        GpuTurn(),
        nursery,
        ("a", "llm", 1, soon(3)),
        ("b", "tts", 2, soon(2)),
        ("c", "llm", 3, soon(-1)),
    )
    assert came == ["c", "b", "a"]


async def test_the_voice_before_the_writer(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    came = await order(
        GpuTurn(), nursery, ("writer", "llm", 1, soon(2)), ("voice", "tts", 2, soon(2))
    )
    assert came == ["voice", "writer"]
    # Within an answer whatever the clock says.
    came = await order(
        GpuTurn(), nursery, ("writer", "llm", 1, soon(1)), ("voice", "tts", 1, soon(2))
    )
    assert came == ["voice", "writer"]


async def test_equal_ones_in_order_of_asking(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    came = await order(GpuTurn(), nursery, *((n, "llm", int(n), soon()) for n in "123"))
    assert came == ["1", "2", "3"]


async def test_urgency_is_asked_again_at_each_hand_over(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    def until(when: float) -> Callable[[], float]:
        return lambda: when - trio.current_time()

    def fixed_then_urgent() -> float:
        return 10.0 if trio.current_time() < 0.5 else -10.0

    came = await order(
        GpuTurn(),
        nursery,
        ("a", "llm", 1, until(5)),
        ("b", "llm", 2, until(6)),
        ("c", "llm", 3, fixed_then_urgent),
    )
    assert came == ["a", "c", "b"]


async def test_http_comes_last_but_does_not_starve(
    autojump_clock: MockClock, nursery: trio.Nursery, log: Any
) -> None:
    gate = GpuTurn(log, http_wait_s=5.0)
    got: list[float] = []

    async def board(generation: int) -> None:
        while True:
            async with gate.turn("tts", board="b", generation=generation, urgency=soon()):
                await trio.sleep(0.7)

    async def http() -> None:
        async with gate.turn("llm", board=None, generation=9, urgency=lambda: math.inf):
            got.append(trio.current_time())

    for generation in (1, 2):
        nursery.start_soon(board, generation)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(http)
    await trio.sleep(4.9)
    assert not got
    await trio.sleep(1.0)
    assert got
    assert 5.0 <= got[0] <= 5.7


async def test_the_turn_waits_for_attached_jobs(autojump_clock: MockClock, log: Any) -> None:
    gate = GpuTurn(log)
    with trio.CancelScope() as scope:
        async with gate.turn("tts", board="b", generation=4, urgency=soon()) as hold:
            hold.attach()
            scope.cancel()
            await trio.sleep(1)
    assert gate.statistics()["holder"] == "tts"
    await trio.sleep(2)
    assert log.of("turn") == []
    hold.detach()
    assert gate.statistics()["holder"] is None
    (turn,) = log.of("turn")
    assert (turn["who"], turn["board"], turn["generation"]) == ("tts", "b", 4)
    assert (turn["waited_ms"], turn["held_ms"]) == (0.0, 2000.0)


async def test_a_job_may_end_before_its_owner_leaves(autojump_clock: MockClock) -> None:
    gate = GpuTurn()
    async with gate.turn("llm", board=None, generation=1, urgency=soon()) as hold:
        for _ in range(2):
            hold.attach()
            hold.detach()
            assert gate.statistics()["holder"] == "llm"
    assert gate.statistics()["holder"] is None


async def test_cancelled_in_the_very_tick_of_the_grant(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    gate = GpuTurn()
    scope = trio.CancelScope()

    async def waiter() -> None:
        with scope:
            async with gate.turn("llm", board=None, generation=2, urgency=soon()):
                await trio.sleep(1)

    async with gate.turn("llm", board=None, generation=1, urgency=soon()):
        nursery.start_soon(waiter)
        await trio.testing.wait_all_tasks_blocked()
    assert gate.statistics()["holder"] == "llm"  # granted, not yet awake
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert gate.statistics()["holder"] is None
    assert gate.statistics()["waiting"] == 0


async def test_cancelled_before_it_asks(autojump_clock: MockClock) -> None:
    gate = GpuTurn()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with gate.turn("llm", board=None, generation=1, urgency=soon()):
            pass
    assert scope.cancelled_caught
    assert gate.statistics()["holder"] is None


async def test_random_search(autojump_clock: MockClock, scheduler_seed: int, log: Any) -> None:
    """One holder at most; nobody leaks; all get it in the end; HTTP's wait is bounded."""
    longest_hold_s = 1.0
    for seed in range(20):
        rng = random.Random(1000 * scheduler_seed + seed)
        gate = GpuTurn(log, http_wait_s=2.0)
        busy: set[int] = set()
        finished: list[str] = []

        async def job(number: int, hold: Any, seconds: float, busy: set[int] = busy) -> None:
            await trio.sleep(seconds)  # the engine says idle, whoever has left
            busy.discard(number)
            hold.detach()

        async def owner(
            number: int,
            jobs: trio.Nursery,
            rng: random.Random = rng,
            gate: GpuTurn = gate,
            busy: set[int] = busy,
            finished: list[str] = finished,
        ) -> None:
            await trio.sleep(rng.uniform(0, 10))
            who: Who = rng.choice(("llm", "tts"))
            urgency = soon(math.inf if rng.random() < 0.2 else rng.uniform(-5, 5))
            with trio.move_on_after(rng.choice((0.0, 0.3, 1.0, math.inf))) as scope:
                async with gate.turn(
                    who, board="b", generation=number % 7, urgency=urgency
                ) as hold:
                    assert not busy, "somebody else's job is on the GPU"
                    if rng.random() < 0.8:
                        busy.add(number)
                        hold.attach()
                        jobs.start_soon(job, number, hold, rng.uniform(0, longest_hold_s))
                    await trio.sleep(rng.uniform(0, longest_hold_s))
            finished.append("cancelled" if scope.cancelled_caught else "held")

        async with trio.open_nursery() as jobs, trio.open_nursery() as owners:
            for number in range(40):
                owners.start_soon(owner, number, jobs)
        assert len(finished) == 40
        assert {"cancelled", "held"} == set(finished)
        assert gate.statistics()["holder"] is None
        assert gate.statistics()["waiting"] == 0
        assert not busy
    assert all(turn["held_ms"] <= 1000 * longest_hold_s for turn in log.of("turn"))


async def test_the_open_gate_lets_everybody_in(autojump_clock: MockClock, log: Any) -> None:
    gate = OpenGate(log)
    async with gate.turn("llm", board=None, generation=1, urgency=soon()):
        async with gate.turn("tts", board=None, generation=1, urgency=soon()) as hold:
            hold.attach()
            assert gate.statistics()["inside"] == 2
        assert gate.statistics()["inside"] == 2
        hold.detach()
        assert gate.statistics()["inside"] == 1
    assert gate.statistics()["inside"] == 0
    assert len(log.of("turn")) == 2


async def test_only_those_that_need_it_take_turns(autojump_clock: MockClock, log: Any) -> None:
    turn = GpuTurn(log)
    gate = SelectiveGate(turn, {"tts"}, log)
    async with (
        gate.turn("tts", board=None, generation=1, urgency=soon()),
        gate.turn("llm", board=None, generation=1, urgency=soon()),
    ):
        assert turn.statistics()["holder"] == "tts"
        with trio.move_on_after(1) as scope:
            async with gate.turn("tts", board=None, generation=2, urgency=soon()):
                pass
        assert scope.cancelled_caught
