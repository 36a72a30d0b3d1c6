"""The main job on the demo's models: a spoken question, an answer that can be understood."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soxr
import trio

from duet_trio.bench.processes import CONFIG_FOLDER, serving
from duet_trio.board.client import BoardClient
from duet_trio.board.script import Action, BoardOptions, Question
from duet_trio.config import load
from duet_trio.demo import speech
from duet_trio.engines.contracts import ListenRequest
from duet_trio.engines.factory import EngineSet
from duet_trio.trace.reader import read
from duet_trio.trace.statistics import evaluate_events

pytestmark = [pytest.mark.slow, pytest.mark.models]

CONFIG = CONFIG_FOLDER / "demo.toml"
#: Greedy, so that the answer is the same each time; short, so that the test is.
SETTINGS = ("llm.temperature=0", "llm.max_tokens=45")
QUESTION = "Can you tell me a story about a little dog?"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def word_errors(reference: str, heard: str) -> float:
    """Word error rate: edit distance over the reference's length."""
    left, right = words(reference), words(heard)
    row = list(range(len(right) + 1))
    for i, word in enumerate(left, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1] / len(left)


async def transcribe(engines: EngineSet, pcm: bytes, rate_hz: int) -> str:
    samples = np.frombuffer(pcm, dtype="<i2")
    resampled = np.asarray(soxr.resample(samples, rate_hz, 16_000), dtype="<i2")
    parts = [resampled[at : at + 16_000 * 28] for at in range(0, len(resampled), 16_000 * 28)]
    texts = [(await engines.asr.transcribe(ListenRequest(part.tobytes()))).text for part in parts]
    return " ".join(texts)


async def test_a_spoken_question_gets_a_spoken_answer(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    engines = EngineSet(load(CONFIG))
    async with trio.open_nursery() as nursery:
        for kind in ("tts", "asr"):
            await nursery.start(engines.services[kind].run)
        question = await speech(engines.tts, QUESTION)
        async with serving(CONFIG, [*SETTINGS, f"trace.path='{trace}'"], tmp_path) as server:
            client = BoardClient(BoardOptions(url=server.url))
            interrupted = Question(pcm=question, actions=(Action("button", 1.0, "audio"),))
            result = await client.run([Question(pcm=question), interrupted, Question(pcm=question)])
        first, aborted, last = result.turns[0], result.turns[1], result.turns[-1]
        heard = await transcribe(
            engines, result.heard_pcm(end_s=first.tts_stop_s), result.sample_rate_hz
        )
        nursery.cancel_scope.cancel()

    assert word_errors(QUESTION, first.transcript) <= 0.2
    assert len(words(first.answer)) >= 8
    assert word_errors(first.answer, heard) <= 0.2
    assert result.stalls == []
    # The interrupted one fell silent, and the next is whole again.
    assert aborted.abort_to_stop_s is not None
    assert aborted.abort_to_stop_s < 0.5
    assert aborted.frames_after_stop == 0
    assert len(words(last.answer)) >= 8
    figures = evaluate_events(read(trace))
    assert [answer.outcome for answer in figures.answers] == ["done", "aborted", "done"]
    assert figures.stale == 0
