"""Faults with the demo's real engines: the promised times, and that the next question is answered.

The limits are the promises: an answer is over within its deadline and half a second, a worker is
back within its load time (here: the slowest of this machine's loads, measured first) and 0.3 s.
Only the times that must hold on a loaded machine are asserted; all are printed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from duet_trio.config import load
from duet_trio.engines.contracts import EngineKind
from duet_trio.faults.hub import Watch
from duet_trio.faults.plan import Fault, Plan
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.real import RealLab, open_real_lab

pytestmark = [pytest.mark.models, pytest.mark.slow]

DEMO = Path(__file__).parents[2] / "config" / "demo.toml"
QUESTION = "Tell me about the sea in four sentences."
#: What a busy machine may add to a promise.
SLACK_S = 2.0
#: 200 were tried when this was written: 80 s.
CANCELS = 50


class Demo:
    def __init__(self, lab: RealLab, board: Puppet, load_s: dict[str, float]) -> None:
        self.lab = lab
        self.board = board
        self.load_s = load_s

    def arm(self, fault: Fault) -> None:
        self.lab.faults.watches.append(Watch(fault))

    async def until(self, reached: object, limit_s: float = 60.0) -> float:
        began = time.perf_counter()
        with trio.fail_after(limit_s):
            while not reached():  # type: ignore[operator]  # noqa: ASYNC110
                await trio.sleep(0.002)
        return time.perf_counter() - began

    async def ask(self) -> None:
        before = len(self.board.parts)
        self.board.ask(QUESTION)
        await self.until(lambda: len(self.board.parts) > before)

    async def packets(self, count: int) -> None:
        await self.until(lambda: len(self.board.parts[-1].packets) >= count)

    async def stopped(self) -> float:
        return await self.until(lambda: not self.board.speaking)

    def state(self, kind: EngineKind) -> str:
        return self.lab.engines.services[kind].state

    def pid(self, kind: EngineKind) -> int:
        pid = self.lab.engines.services[kind].status().pid
        assert pid is not None
        return pid

    async def next_is_answered(self) -> float:
        began = time.perf_counter()
        await self.ask()
        await self.packets(20)
        first_s = time.perf_counter() - began
        assert not self.board.parts[-1].alerts
        self.board.abort()
        await self.stopped()
        return first_s


@asynccontextmanager
async def demo(*settings: str) -> AsyncIterator[Demo]:
    config = load(
        DEMO, ["llm.temperature=0", "tts.first_s=2", "tts.stall_s=2", "llm.first_s=3", *settings]
    )
    never = Fault(seam="tts.start", effect="error", match="no such text at all")
    async with open_real_lab(config, Plan(fault=(never,))) as lab:
        ready = {
            str(event["engine"]): float(event["t"])
            for event in lab.recorder.select("engine")
            if event["state"] == "ready"
        }
        began = {
            str(event["engine"]): float(event["t"])
            for event in reversed(lab.recorder.select("engine"))
            if event["state"] == "loading"
        }
        load_s = {kind: ready[kind] - began[kind] for kind in ready}
        board = Puppet("02:00:00:00:00:01", lab.host, lambda _packet: None)
        board.connect()
        await trio.sleep(0.3)
        yield Demo(lab, board, load_s)


HARMS = ["hang", "SIGKILL", "SIGSTOP", "flood"]


@pytest.mark.parametrize("kind", ["tts", "llm"])
@pytest.mark.parametrize("how", HARMS)
async def test_the_promised_times(kind: EngineKind, how: str) -> None:
    with trio.fail_after(150):
        async with demo() as it:
            seam = "tts.block" if kind == "tts" else "llm.piece"
            deadline_s = 2.0 if kind == "tts" else it.lab.config.llm.first_s
            if how in ("hang", "flood"):
                it.arm(Fault(seam=seam, effect=how, nth=1))
                await it.ask()
                await it.until(lambda: it.lab.recorder.select("fault"))
            else:
                await it.ask()
                await it.until(lambda: it.state(kind) == "busy")
                os.kill(it.pid(kind), getattr(signal, how))
            over_s = await it.stopped()
            ready_s = await it.until(lambda: it.state(kind) == "ready")
            next_s = await it.next_is_answered()
            print(
                f"\n{kind} {how}: over {over_s:.2f} s (deadline {deadline_s:g}),"
                f" ready again {ready_s:.2f} s later (first load {it.load_s[kind]:.2f}),"
                f" next answer's 20th packet after {next_s:.2f} s"
            )
            # A stopped worker may have been in the middle of its time, a writer's second step has
            # another deadline: never more than the longest, and half a second.
            assert over_s <= deadline_s + 1.0 + 0.5 + SLACK_S
            assert ready_s <= 2 * it.load_s[kind] + 0.3 + SLACK_S
            assert it.board.complaints == []


async def test_no_healthy_engine_is_killed_by_cancels() -> None:
    draw = random.Random(200)
    first_control_s = []
    with trio.fail_after(280):
        async with demo() as it:
            pids = [it.pid(kind) for kind in ("asr", "llm", "tts")]
            for _ in range(CANCELS):
                await it.ask()
                await trio.sleep(draw.choice((0.0, draw.uniform(0, 0.3), draw.uniform(0, 1.2))))
                it.board.abort()
                at, before = trio.current_time(), len(it.board.parts)
                it.board.ask(QUESTION)
                await it.until(lambda before=before: len(it.board.parts) > before)
                first_control_s.append(it.board.parts[-1].started_at - at)
                it.board.abort()
                await it.stopped()
            assert [it.pid(kind) for kind in ("asr", "llm", "tts")] == pids
            await it.next_is_answered()
            assert it.board.complaints == []
    first_control_s.sort()
    median_s = first_control_s[CANCELS // 2]
    print(
        f"\nabort, then ask at once: start of the new answer after {1000 * median_s:.1f} ms"
        f" (median), {1000 * first_control_s[-1]:.1f} ms (worst)"
    )
    assert median_s <= 0.1
