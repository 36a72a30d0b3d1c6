"""Utterances for the ears: spoken by the demo voice, with pauses and noise put in by us.

Where speech begins and ends is measured in the clean recordings, before any noise: that is the
truth which the endpoints are held against. Everything is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

RATE_HZ = 16_000
WORDS = ("Yes.", "No.", "Stop.", "Hello.", "Thank you.", "Okay.", "Why?", "Go on.")
SENTENCES = (
    "What is your name?",
    "Can you tell me a story about a dog?",
    "What do you like to do in the morning?",
    "How do I make a cup of tea?",
    "Please tell me something about the moon.",
    "I would like to know more about that.",
    "What time is it in New York now?",
    "Is it going to rain this weekend?",
    "Turn the volume down a little bit, please.",
    "Who wrote the book about the white whale?",
    "I think that was a very good idea.",
    "Please wake me up at seven.",
)
#: Said in two halves with a pause in between.
HALVES = (
    ("I would like to know", "how many people live in Spain."),
    ("Tell me a story", "about a cat and a mouse."),
    ("Can you please", "turn off the light?"),
    ("My favourite colour is", "green, and what is yours?"),
)
PAUSES_MS = tuple(range(200, 901, 100))
SNRS_DB = (None, 20, 10, 5)
BEFORE_S, AFTER_S = 0.7, 4.0
LEVEL_DBFS = -26.0

Samples = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recording:
    """One utterance as a microphone records it. ``begins``, ``ends`` in samples."""

    kind: str  # word, sentence, or pause
    text: str
    pause_ms: int
    snr_db: int | None
    noise: str
    samples: Samples
    begins: int
    ends: int


def texts() -> list[str]:
    """All that has to be spoken."""
    return [*WORDS, *SENTENCES, *(half for pair in HALVES for half in pair)]


def recordings(spoken: Mapping[str, bytes], seed: int = 1) -> Iterator[Recording]:
    """All utterances at all pauses and noise levels: `len` is about 200."""
    rng = np.random.default_rng(seed)
    clean = {text: _trimmed(floats(pcm)) for text, pcm in spoken.items()}
    noises = {"fan": fan, "babble": babbler([clean[text] for text in SENTENCES])}
    plain = [("word", text, 0, clean[text]) for text in WORDS]
    plain += [("sentence", text, 0, clean[text]) for text in SENTENCES]
    for pause_ms in PAUSES_MS:
        for first, second in HALVES:
            gap = np.zeros(RATE_HZ * pause_ms // 1000)
            whole = np.concatenate([clean[first], gap, clean[second]])
            plain.append(("pause", f"{first} … {second}", pause_ms, whole))
    for number, (kind, text, pause_ms, speech) in enumerate(plain):
        for snr_db in SNRS_DB:
            noise = ("fan", "babble")[number % 2]
            before = round(BEFORE_S * RATE_HZ)
            track = np.concatenate([np.zeros(before), speech, np.zeros(round(AFTER_S * RATE_HZ))])
            if snr_db is None:
                noise = "none"
            else:
                track = track + at_level(
                    noises[noise](track.size, rng), level_dbfs(speech) - snr_db
                )
            yield Recording(
                kind, text, pause_ms, snr_db, noise, track, before, before + speech.size
            )


def noise_tracks(spoken: Mapping[str, bytes], seconds: float) -> dict[str, Samples]:
    """What must make no turn: a minute of each."""
    rng = np.random.default_rng(2)
    count = round(seconds * RATE_HZ)
    times = np.arange(count) / RATE_HZ
    hum = sum(np.sin(2 * np.pi * 50 * k * times) / k for k in (1, 2, 3, 5))
    breath = fan(count, rng) * (0.5 + 0.5 * np.sin(2 * np.pi * 0.4 * times)) ** 4
    return {
        "silence": np.zeros(count),
        "fan": at_level(fan(count, rng), -40),
        "loud fan": at_level(fan(count, rng), -25),
        "hum": at_level(np.asarray(hum), -35),
        "breath": at_level(breath, -40),
        "clicks": clicks(count, rng),
        "coughs": coughs(count, rng),
        "babble": at_level(
            babbler([_trimmed(floats(spoken[text])) for text in SENTENCES])(count, rng), -45
        ),
    }


def fan(count: int, rng: Any) -> Samples:
    """Noise that falls by 3 dB per octave."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    spectrum /= np.sqrt(np.maximum(np.arange(spectrum.size), 1))
    return np.asarray(np.fft.irfft(spectrum, count))


def babbler(voices: Sequence[Samples]) -> Any:
    """Makes the murmur of eight people, each at a pitch and pace of their own."""
    shifted = [
        np.asarray(soxr.resample(voice, RATE_HZ, RATE_HZ * factor))
        for voice in voices
        for factor in (0.85, 1.15)
    ]

    def babble(count: int, rng: Any) -> Samples:
        total = np.zeros(count)
        for _ in range(8):
            parts: list[Samples] = []
            while sum(part.size for part in parts) < 2 * count:
                parts.append(shifted[int(rng.integers(len(shifted)))])
            line = np.concatenate(parts)
            start = int(rng.integers(line.size - count))
            total += line[start : start + count]
        return total

    return babble


def clicks(count: int, rng: Any) -> Samples:
    """A click or a knock every second or so."""
    track = np.zeros(count)
    for start in range(RATE_HZ // 2, count - RATE_HZ, RATE_HZ):
        length = int(rng.integers(40, 800))
        burst = rng.standard_normal(length) * np.exp(-5 * np.arange(length) / length)
        track[start : start + length] = 0.3 * burst
    return track


def coughs(count: int, rng: Any) -> Samples:
    """A cough every two seconds: two bursts of coloured noise, 300 ms in all."""
    track = np.zeros(count)
    for start in range(RATE_HZ, count - 2 * RATE_HZ, 2 * RATE_HZ):
        for offset, length in ((0, 2400), (2800, 2000)):
            burst = fan(length, rng)
            burst *= np.exp(-4 * np.arange(length) / length) / (np.abs(burst).max() + 1e-9)
            track[start + offset : start + offset + length] += 0.4 * burst
    return track


def floats(pcm: bytes) -> Samples:
    """s16le as numbers within 1."""
    return np.frombuffer(pcm, dtype="<i2").astype(np.float64) / 32768


def pcm_of(samples: Samples) -> bytes:
    """The other way."""
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()


def level_dbfs(samples: Samples) -> float:
    """Level of the loud half: pauses do not count."""
    windows = samples[: samples.size // 320 * 320].reshape(-1, 320)
    power = np.sort(np.mean(windows * windows, axis=1))
    return float(10 * np.log10(np.mean(power[power.size // 2 :]) + 1e-12))


def at_level(samples: Samples, dbfs: float) -> Samples:
    """The same at another level."""
    return np.asarray(samples * 10 ** ((dbfs - level_dbfs(samples)) / 20))


def _trimmed(samples: Samples) -> Samples:
    """Without the silence around it, at the usual level."""
    samples = at_level(samples, LEVEL_DBFS)
    windows = samples[: samples.size // 160 * 160].reshape(-1, 160)
    loud = np.flatnonzero(10 * np.log10(np.mean(windows * windows, axis=1) + 1e-12) > -50)
    return samples[loud[0] * 160 : (loud[-1] + 1) * 160]
