"""The whole set of engines from a configuration."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duet_trio import config
from duet_trio.engines.contracts import (
    EngineKind,
    ListenRequest,
    Message,
    SpeechRequest,
    WriteRequest,
)
from duet_trio.engines.factory import EngineSet
from duet_trio.engines.in_process import InProcessCarrier

pytestmark = pytest.mark.usefixtures("scheduler_seed")

SCRIPTED = ("asr.engine=scripted", "llm.engine=scripted", "tts.engine=scripted")


def slow_to_load(kind: EngineKind, settings: dict[str, Any]) -> InProcessCarrier:
    return InProcessCarrier(kind, settings, load_time_s=4.0)


async def test_all_three_work(autojump_clock: MockClock, nursery: trio.Nursery, log: Any) -> None:
    engines = EngineSet(config.load(None, SCRIPTED), log, InProcessCarrier)
    await nursery.start(engines.run)
    await engines.wait_ready()
    assert engines.ready
    assert (await engines.asr.transcribe(ListenRequest(b""))).text == "hello"
    text: list[str] = []
    stream = engines.llm.start([Message("user", "?")], generation=1)

    def take(bit: str) -> bool:
        text.append(bit)
        return True

    await stream.write(WriteRequest(64), take)
    assert "".join(text) == "Hello. I am a scripted answer."
    audio: list[bytes] = []
    await engines.tts.speak(SpeechRequest("abc", 1, 0, 5.0), audio.append)
    assert len(b"".join(audio)) == pytest.approx(3 * 0.06 * 48_000)
    assert [status.state for status in engines.statuses()] == ["ready"] * 3


@pytest.mark.parametrize(
    ("gpu", "ready_at"),
    [(True, {"tts": 4, "asr": 4, "llm": 8}), (False, {"tts": 4, "asr": 4, "llm": 4})],
)
async def test_gpu_workers_load_one_after_the_other_the_voice_first(
    autojump_clock: MockClock, nursery: trio.Nursery, log: Any, gpu: bool, ready_at: dict[str, int]
) -> None:
    settings = [*SCRIPTED, f"llm.gpu={str(gpu).lower()}", f"tts.gpu={str(gpu).lower()}"]
    engines = EngineSet(config.load(None, settings), log, slow_to_load)
    await nursery.start(engines.run)
    assert trio.current_time() == 0, "sockets are bound before models load"
    await engines.wait_ready()
    ready = {e["engine"]: e["t"] for e in log.of("engine") if e["state"] == "ready"}
    assert ready == pytest.approx(ready_at)


@pytest.mark.parametrize("overlap", [False, True])
async def test_overlap_lets_the_writer_in(
    autojump_clock: MockClock, log: Any, overlap: bool
) -> None:
    settings = [*SCRIPTED, "llm.gpu=true", "tts.gpu=true", f"llm.overlap={str(overlap).lower()}"]
    gate = EngineSet(config.load(None, settings), log, InProcessCarrier).gate
    async with gate.turn("tts", board=None, generation=1, urgency=lambda: 1.0):
        with trio.move_on_after(1) as scope:
            async with gate.turn("llm", board=None, generation=1, urgency=lambda: 1.0):
                pass
    assert scope.cancelled_caught is not overlap
