"""Real ears on a mock clock: Silero, libopus and whisper in this process, at no cost in time.

The recogniser is called where it stands, so it takes no virtual time at all; what it would take is
measured by the bench. The board's voice is the demo voice where an answer must sound like speech.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import soxr
import trio

from duet_trio.bench.ears_corpus import RATE_HZ, Samples, at_level, floats
from duet_trio.engines.adapters.piper import PiperAdapter
from duet_trio.engines.adapters.whisper import WhisperAdapter
from duet_trio.engines.contracts import (
    SPEECH_RATE_HZ,
    Hold,
    ListenRequest,
    SpeechRequest,
    Spoken,
    Transcript,
)
from duet_trio.engines.pipe import SpeakJob, TranscribeJob
from duet_trio.engines.silero import SileroDetector, find_model
from duet_trio.session.services import Services


@cache
def recogniser() -> WhisperAdapter:
    adapter = WhisperAdapter()
    adapter.load({"model": "", "threads": 1})
    return adapter


@cache
def voice() -> PiperAdapter:
    adapter = PiperAdapter()
    adapter.load({"model": "", "threads": 1, "voice": "", "language": "english"})
    return adapter


@cache
def detector() -> SileroDetector:
    return SileroDetector(find_model())


@cache
def spoken_24k(text: str) -> bytes:
    blocks: list[bytes] = []
    voice().speak(SpeakJob(1, text, 1, 1, 60.0), blocks.append, lambda: False)
    return b"".join(blocks)


@cache
def said(text: str, level_dbfs: float = -26.0) -> Samples:
    """``text`` in the demo voice, 16 kHz, without silence around it."""
    samples = np.frombuffer(spoken_24k(text), dtype="<i2") / 32768
    samples = np.asarray(soxr.resample(samples, SPEECH_RATE_HZ, RATE_HZ))
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return at_level(samples[loud[0] : loud[-1] + 1], level_dbfs)


def still(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE_HZ))


@dataclass
class RealAsr:
    """Whisper, called where it stands."""

    heard: list[ListenRequest] = field(default_factory=list)
    slots: int = 1

    async def transcribe(self, request: ListenRequest) -> Transcript:
        await trio.lowlevel.checkpoint()
        self.heard.append(request)
        job = TranscribeJob(1, request.pcm, request.language or "en")
        return recogniser().transcribe(job, lambda: False)


@dataclass
class SpeakingTts:
    """The demo voice, with all it has to say there at once."""

    slots: int = 4

    async def speak(
        self, request: SpeechRequest, on_block: Callable[[bytes], None], hold: Hold | None = None
    ) -> Spoken:
        await trio.lowlevel.checkpoint()
        pcm = spoken_24k(request.text)
        on_block(pcm)
        return Spoken(len(pcm) / 2 / SPEECH_RATE_HZ)


class RealEars:
    """For `open_lab`: ``wrap`` puts the real ears in; ``speaking``: and the real voice."""

    def __init__(self, *, speaking: bool = False) -> None:
        self.asr = RealAsr()
        self._speaking = speaking

    def wrap(self, services: Services) -> Services:
        services = replace(services, asr=self.asr, detector=detector())
        return replace(services, tts=SpeakingTts()) if self._speaking else services


def words(text: str) -> list[str]:
    """For comparison."""
    return "".join(c for c in text.lower() if c.isalnum() or c == " ").split()


def mixed(*tracks: Samples) -> Samples:
    """All of them at once."""
    total = np.zeros(max(track.size for track in tracks))
    for track in tracks:
        total[: track.size] += track
    return total


__all__: Sequence[str] = ("RealEars", "floats", "mixed", "said", "still", "words")
