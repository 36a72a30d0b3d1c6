"""Long runs leave nothing: aborted answers on the mock clock, and a short soak of a real server."""

from __future__ import annotations

import gc
import os

import pytest
import trio

from duet_trio.bench.soak import SoakOptions, measure, report
from tests.faults.talk import talk


def held() -> tuple[int, int]:
    """Tasks and open files of this process."""
    gc.collect()
    return trio.lowlevel.current_statistics().tasks_living, len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
async def test_between_aborted_answer_200_and_1200_nothing_grows(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk() as it:

        async def abort(count: int) -> tuple[int, int]:
            for number in range(count):
                it.board.ask("a question")
                await trio.sleep((0.0, 0.02, 0.2, 0.5)[number % 4])
                it.board.abort()
                await trio.sleep(0.001)
                it.lab.recorder.events.clear()
                it.prompts.prompts.clear()
                del it.board.parts[:-1]
            await it.quiet()
            return held()

        early = await abort(200)
        objects = len(gc.get_objects())
        late = await abort(1000)
        assert late == early
        assert len(gc.get_objects()) - objects < 2000  # the history is full by then: 2 a turn
        assert it.restarts() == 0
        assert it.board.complaints == []


@pytest.mark.slow
async def test_a_short_soak_of_a_real_server() -> None:
    figures = await measure(SoakOptions(aborts=150, reconnects=40, chaos_s=5, boards=4))
    assert figures["failures"] == []
    assert figures["after_aborts"] == figures["after_reconnects"] == figures["after_chaos"] == 4
    assert "answered whole" in report(figures)
