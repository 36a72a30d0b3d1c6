"""The demo's three engines in worker processes: a spoken question, an answer, an abort."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soxr
import trio

from duet_trio.config import load
from duet_trio.engines.contracts import (
    LISTEN_RATE_HZ,
    SPEECH_RATE_HZ,
    ListenRequest,
    Message,
    SpeechRequest,
    WriteRequest,
)
from duet_trio.engines.factory import EngineSet

pytestmark = pytest.mark.models

DEMO = Path(__file__).parents[2] / "config" / "demo.toml"


async def test_the_demo_hears_answers_and_speaks_and_survives_an_abort() -> None:
    engines = EngineSet(load(DEMO, ["llm.temperature=0"]))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            await nursery.start(engines.run)
            await engines.wait_ready()
            pids = [status.pid for status in engines.statuses()]

            question = await speak(engines, "What is the capital of England?", generation=1)
            heard = (await engines.asr.transcribe(ListenRequest(question))).text
            assert "capital" in heard.lower()

            answer = engines.llm.start([Message("user", heard)], generation=2)
            text: list[str] = []
            while not (await answer.write(WriteRequest(16), on_text(text))).finished:
                assert len(text) < 200
            answer.close()
            assert "".join(text).strip()
            assert len(await speak(engines, "".join(text)[:80], generation=2)) > LISTEN_RATE_HZ

            # An abort in the middle of a long piece and of a long prompt.
            for cancelled_call in (long_piece, long_prompt):
                with trio.move_on_after(0.3) as scope:
                    await cancelled_call(engines)
                assert scope.cancelled_caught
            with trio.fail_after(5):
                assert await speak(engines, "And on we go.", generation=4)
                again: list[str] = []
                stream = engines.llm.start([Message("user", heard)], generation=5)
                await stream.write(WriteRequest(16), on_text(again))
            assert "".join(text).startswith("".join(again))

            assert [status.pid for status in engines.statuses()] == pids
            nursery.cancel_scope.cancel()


def on_text(into: list[str]) -> Callable[[str], bool]:
    def take(text: str) -> bool:
        into.append(text)
        return True

    return take


async def speak(engines: EngineSet, text: str, generation: int) -> bytes:
    """What the voice says, at the recogniser's rate."""
    blocks: list[bytes] = []
    await engines.tts.speak(SpeechRequest(text, generation, 1, cap_s=20.0), blocks.append)
    audio = np.frombuffer(b"".join(blocks), dtype="<i2").astype(np.float32)
    return bytes(soxr.resample(audio, SPEECH_RATE_HZ, LISTEN_RATE_HZ).astype("<i2").tobytes())


async def long_piece(engines: EngineSet) -> None:
    await speak(engines, "and then they walked on, " * 60, generation=3)


async def long_prompt(engines: EngineSet) -> None:
    stream = engines.llm.start([Message("user", "This is long. " * 400)], generation=3)
    await stream.write(WriteRequest(16), lambda text: True)
