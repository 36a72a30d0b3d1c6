"""``duet bench answer``: from the last voiced sample to the first packet, on real models.

Questions are spoken: the demo voice says them beforehand, a simulated board sends them in real
time. The last voiced sample is found in the recording itself, so silence at its end counts as
waiting, not as speech.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench.figures import Spread, machine
from duet_trio.bench.processes import named_config, serving
from duet_trio.board.client import BoardClient
from duet_trio.board.script import BoardOptions, Question
from duet_trio.config import load
from duet_trio.demo import speech
from duet_trio.engines.contracts import LISTEN_RATE_HZ
from duet_trio.engines.factory import EngineSet
from duet_trio.speech.pcm import split_quiet_tail
from duet_trio.trace.reader import read

QUESTIONS = (
    "What is your name?",
    "Can you tell me a story about a dog?",
    "What do you like to do in the morning?",
    "How do I make a cup of tea?",
    "Please tell me something about the moon.",
)
SETTINGS = ("llm.max_tokens=40",)


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """``questions`` spoken ones, over and over; ``config``: a file in ``config/``."""

    questions: int
    config: str


async def measure(options: AnswerOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    config = named_config(options.config)
    spoken = await speak_all(config, QUESTIONS)
    with tempfile.TemporaryDirectory() as name:
        trace = Path(name) / "trace.jsonl"
        settings = [*SETTINGS, f"trace.path={trace.as_posix()!r}"]
        async with serving(config, settings, Path(name)) as server:
            client = BoardClient(BoardOptions(url=server.url, decode=False))
            questions = [spoken[number % len(spoken)] for number in range(options.questions)]
            result = await client.run([Question(pcm=pcm) for pcm in questions])
            ready_s = server.ready_s
        recognised = [event for event in read(trace) if event["event"] == "stt"]
    delays = [
        (turn.first_audio_s + trailing_s(pcm)) * 1000
        for turn, pcm in zip(result.turns, questions, strict=True)
        if turn.first_audio_s is not None
    ]
    return {
        "machine": machine(),
        "config": options.config,
        "ready_s": round(ready_s, 2),
        "asked": options.questions,
        "answered": len(delays),
        "speech_end_to_packet_ms": Spread.of(delays).as_dict(),
        "asr_after_endpoint_ms": Spread.of([event["asr_ms"] for event in recognised]).as_dict(),
        "transcripts": [turn.transcript for turn in result.turns[: len(QUESTIONS)]],
    }


async def speak_all(config: Path, texts: Sequence[str]) -> list[bytes]:
    """These texts in the configured voice, as a microphone records them (16 kHz s16le)."""
    engines = EngineSet(load(config))
    async with trio.open_nursery() as nursery:
        await nursery.start(engines.services["tts"].run)
        await engines.services["tts"].wait_ready()
        spoken = [await speech(engines.tts, text) for text in texts]
        nursery.cancel_scope.cancel()
    return spoken


def trailing_s(pcm: bytes) -> float:
    """Silence at the end of a recording, in seconds."""
    _, tail = split_quiet_tail(pcm, rate_hz=LISTEN_RATE_HZ)
    return len(tail) / 2 / LISTEN_RATE_HZ


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    whole, asr = figures["speech_end_to_packet_ms"], figures["asr_after_endpoint_ms"]
    return "\n".join(
        [
            f"on {figures['machine']['cpu']}, {figures['config']},"
            f" ready after {figures['ready_s']} s",
            f"last voiced sample → first packet: median {whole['median']:.0f}"
            f"  largest {whole['largest']:.0f} ms"
            f"  ({figures['answered']} of {figures['asked']} answered)",
            f"endpoint → text: median {asr['median']:.0f}  largest {asr['largest']:.0f} ms",
            *(f"  recognised: {text}" for text in figures["transcripts"]),
        ]
    )
