"""From the end of speech to the text and to the first packet, on a real server; where time goes.

Times of the questions are the simulated board's, times of the steps the trace's: only differences
within one of the two are taken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duet_trio.bench.answer import trailing_s
from duet_trio.bench.figures import Spread
from duet_trio.bench.processes import serving
from duet_trio.board.client import BoardClient
from duet_trio.board.script import BoardOptions, Question
from duet_trio.trace.reader import read

#: Steps of an answer's beginning: name, and the two events between which it lies.
STEPS = (
    ("recognition after the endpoint", "speech.end", "stt"),
    ("to the model's first text", "stt", "llm.first"),
    ("first text to first piece", "llm.first", "piece"),
    ("piece to the voice's turn", "piece", "tts.start"),
    ("voice to its first block", "tts.start", "pcm"),
    ("first block to first packet", "pcm", "sent"),
)


async def measure(
    config: Path, questions: Sequence[bytes], settings: Sequence[str]
) -> dict[str, Any]:
    """Ask all of them aloud, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        trace = Path(name) / "trace.jsonl"
        async with serving(
            config, [*settings, f"trace.path={trace.as_posix()!r}"], Path(name)
        ) as server:
            client = BoardClient(BoardOptions(url=server.url, decode=False))
            result = await client.run([Question(pcm=pcm) for pcm in questions])
        events = list(read(trace))
    packets, texts = [], []
    for turn, pcm in zip(result.turns, questions, strict=False):
        if turn.question_end_s is None or turn.stt_s is None or turn.first_audio_s is None:
            continue
        spoken_until = turn.question_end_s - trailing_s(pcm)
        texts.append((turn.stt_s - spoken_until) * 1000)
        packets.append((turn.first_audio_s + trailing_s(pcm)) * 1000)
    asr = [float(event["asr_ms"]) for event in events if event["event"] == "stt"]
    endpoints = [float(e["endpoint_ms"]) for e in events if e["event"] == "speech.end"]
    return {
        "asked": len(questions),
        "answered": len(packets),
        "speech_end_to_text_ms": Spread.of(texts).as_dict(),
        "speech_end_to_packet_ms": Spread.of(packets).as_dict(),
        "text_within_100_ms_of_endpoint": round(sum(ms <= 100 for ms in asr) / len(asr), 3),
        "endpoint_ms": Spread.of(endpoints).as_dict(),
        "steps_ms": steps(events),
        "transcripts": [turn.transcript for turn in result.turns],
    }


def steps(events: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Median of each step from the end of speech to the first packet."""
    spent: dict[str, list[float]] = {name: [] for name, _, _ in STEPS}
    for first in _firsts(events):
        for name, begin, end in STEPS:
            if begin in first and end in first:
                spent[name].append((first[end] - first[begin]) * 1000)
    return {name: round(Spread.of(ms).median, 1) for name, ms in spent.items() if ms}


def _firsts(events: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """For each answer: the time of the first event of each name, its question's included."""
    answers: dict[int, dict[str, float]] = {}
    question: dict[str, float] = {}
    for event in events:
        name, generation = str(event["event"]), event["generation"]
        if name in ("speech.end", "stt"):
            question[name] = event["t"]
        elif name == "answer.start":
            answers[generation], question = dict(question), {}
        elif generation in answers and (name != "sent" or event["what"] == "frame"):
            answers[generation].setdefault(name, event["t"])
    return list(answers.values())
