"""WAV files in: any rate, any number of channels, 8 to 32 bit integers or 32-bit floats.

The standard library's reader knows no floats and no WAVE_FORMAT_EXTENSIBLE, which is what
recording programs write most.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from duet_trio.errors import UsageError

Floats = npt.NDArray[np.float32]
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
#: Of sampling: telephones' slowest, and more than any recorder's.
LEAST_HZ, MOST_HZ = 4_000, 384_000
_BYTES_MAX = 64 * 1024 * 1024


def read_wav(path: Path) -> tuple[Floats, int]:
    """Samples as ``[frames, channels]`` in -1..1, and the rate in Hz. Raises `UsageError`."""
    try:
        if path.exists() and not path.is_file():  # a device or a pipe may never end
            raise UsageError(f"{path}: not a file; name a WAV recording")
        if path.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{path}: larger than 64 MiB; cut out 3 to 15 s of clear speech")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; name a WAV recording") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise UsageError(f"{path}: not a WAV file; convert it to WAV first")
    try:
        return _parse(data)
    except (struct.error, ValueError) as error:
        raise UsageError(f"{path}: a WAV file that cannot be used ({error})") from None


def _parse(data: bytes) -> tuple[Floats, int]:
    chunks = _chunks(data)
    if b"fmt " not in chunks or b"data" not in chunks:
        raise ValueError("no format or no audio in it")
    code, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunks[b"fmt "])
    if code == _EXTENSIBLE:
        (code,) = struct.unpack_from("<H", chunks[b"fmt "], 24)
    if not 1 <= channels <= 8 or not LEAST_HZ <= rate_hz <= MOST_HZ:
        raise ValueError(f"{channels} channels at {rate_hz} Hz")
    audio = chunks[b"data"]
    audio = audio[: len(audio) - len(audio) % (channels * max(1, bits // 8))]
    return _samples(audio, code, bits).reshape(-1, channels), rate_hz


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """The first chunk of each name. Streamed WAVs do not know the length of their audio: one past
    the end means "to the end", and so does 0 with something behind it.
    """
    found: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        name, length = struct.unpack_from("<4sI", data, at)
        if name == b"data" and not length:
            length = len(data) - at - 8
        found.setdefault(name, data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    return found


def _samples(audio: bytes, code: int, bits: int) -> Floats:
    if code == _FLOAT and bits == 32:
        return np.frombuffer(audio, np.dtype("<f4")).astype(np.float32)
    if code != _PCM or bits not in (8, 16, 24, 32):
        raise ValueError(f"format {code} with {bits} bits; use 16-bit PCM")
    if bits == 8:
        return (np.frombuffer(audio, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if bits == 24:
        bytes_3 = np.frombuffer(audio, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(bytes_3), 4), np.uint8)
        wide[:, 1:] = bytes_3  # as the upper three bytes: the sign comes by itself
        return (wide.view(np.dtype("<i4"))[:, 0] / 2**31).astype(np.float32)
    whole = np.frombuffer(audio, np.dtype(f"<i{bits // 8}"))
    return np.asarray(whole / 2 ** (bits - 1), np.float32)
