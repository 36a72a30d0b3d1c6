"""WAV files: questions come in as any 16-bit file, what was heard goes out as one."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import soxr

from duet_trio.errors import MissingFileError, UsageError

MICROPHONE_RATE_HZ = 16_000


def read_wav(path: Path, rate_hz: int = MICROPHONE_RATE_HZ) -> bytes:
    """Return the file as s16le mono PCM at ``rate_hz``; channels are averaged.

    Raises `MissingFileError` if there is no such file, `UsageError` for anything but 16-bit PCM.
    """
    try:
        with wave.open(str(path), "rb") as file:
            width, channels = file.getsampwidth(), file.getnchannels()
            own_rate_hz = file.getframerate()
            data = file.readframes(file.getnframes())
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; give an existing WAV file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (wave.Error, EOFError) as error:
        raise UsageError(f"{path}: not a PCM WAV file ({str(error) or 'too short'})") from None
    if width != 2:
        raise UsageError(f"{path}: {8 * width}-bit samples; convert it to 16-bit PCM")
    if not data or own_rate_hz <= 0:
        raise UsageError(f"{path}: holds no audio")
    whole = len(data) // (2 * channels) * channels
    samples = np.frombuffer(data, dtype="<i2", count=whole).reshape(-1, channels).mean(axis=1)
    if own_rate_hz != rate_hz:
        samples = soxr.resample(samples, own_rate_hz, rate_hz)
    return bytes(np.clip(np.rint(samples), -32768, 32767).astype("<i2").tobytes())


def write_wav(path: Path, pcm: bytes, rate_hz: int) -> None:
    """Write s16le mono PCM; raises `UsageError` if the file cannot be written."""
    try:
        with path.open("wb") as target, wave.open(target, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate_hz)
            file.writeframes(pcm)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
