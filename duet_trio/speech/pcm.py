"""Arithmetic on 16-bit little-endian mono PCM.

Every function takes and gives whole samples; a block of odd length is a `ValueError`
(it means that somebody upstream tore a sample).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Every voice speaks at this rate.
SPEECH_RATE_HZ = 24_000
#: What `level_dbfs` gives for digital silence and for no samples at all.
SILENCE_DBFS = -120.0

_WINDOW_MS = 10


def _samples(pcm: bytes) -> NDArray[np.float64]:
    if len(pcm) % 2:
        raise ValueError(f"{len(pcm)} bytes are not whole 16-bit samples")
    return np.frombuffer(pcm, dtype="<i2").astype(np.float64)


def _bytes(samples: NDArray[np.float64]) -> bytes:
    return np.clip(np.rint(samples), -32768, 32767).astype("<i2").tobytes()


def duration_s(pcm: bytes, rate_hz: int = SPEECH_RATE_HZ) -> float:
    """Seconds of audio in ``pcm``."""
    return len(pcm) / (2 * rate_hz)


def byte_count(seconds: float, rate_hz: int = SPEECH_RATE_HZ) -> int:
    """Bytes of that much audio, rounded down to whole samples."""
    return max(0, int(seconds * rate_hz + 1e-6)) * 2


def level_dbfs(pcm: bytes) -> float:
    """Root-mean-square level; 0 dBFS is a full-scale square wave. Not below `SILENCE_DBFS`."""
    samples = _samples(pcm)
    if not samples.size:
        return SILENCE_DBFS
    rms = float(np.sqrt(np.mean(samples * samples))) / 32768.0
    return max(SILENCE_DBFS, 20 * math.log10(rms)) if rms > 0 else SILENCE_DBFS


def fade_in(pcm: bytes, ms: float, rate_hz: int = SPEECH_RATE_HZ) -> bytes:
    """Raise the first ``ms`` from nothing, linearly (against the click at a hard start)."""
    samples = _samples(pcm)
    count = min(samples.size, round(ms * rate_hz / 1000))
    samples[:count] *= np.arange(count) / max(count, 1)
    return _bytes(samples)


def fade_out(pcm: bytes, ms: float, rate_hz: int = SPEECH_RATE_HZ) -> bytes:
    """Lower the last ``ms`` to nothing, linearly (against the click at a cut)."""
    samples = _samples(pcm)
    count = min(samples.size, round(ms * rate_hz / 1000))
    if count:
        samples[samples.size - count :] *= np.arange(count - 1, -1, -1) / count
    return _bytes(samples)


def split_quiet_tail(
    pcm: bytes, threshold_dbfs: float = -50.0, rate_hz: int = SPEECH_RATE_HZ
) -> tuple[bytes, bytes]:
    """Part ``pcm`` into all up to the last audible 10 ms, and the quiet tail behind it.

    A window is quiet when its level is below ``threshold_dbfs``. The two parts joined are
    ``pcm``; windows are counted from the end, an incomplete one stands at the beginning.
    """
    samples = _samples(pcm)
    window = max(1, rate_hz * _WINDOW_MS // 1000)
    limit = (32768.0 * 10 ** (threshold_dbfs / 20)) ** 2
    end = samples.size
    while end > 0:
        start = max(0, end - window)
        part = samples[start:end]
        if float(np.mean(part * part)) >= limit:
            break
        end = start
    return pcm[: end * 2], pcm[end * 2 :]


class TailHolder:
    """Lets the audio of one piece through as it comes, but for a long quiet tail.

    Of a quiet stretch the first ``keep_ms`` pass at once (they belong to the piece whatever
    follows); only quiet audio beyond that waits, for it is either a pause, then the voice
    that follows takes it along, or the silence that the engine appends, then it is dropped.
    Voiced audio is never held: holding a fixed length instead was what ran boards dry.
    """

    def __init__(
        self,
        keep_ms: float = 200.0,
        threshold_dbfs: float = -50.0,
        rate_hz: int = SPEECH_RATE_HZ,
    ) -> None:
        self._keep = byte_count(keep_ms / 1000, rate_hz)
        self._threshold_dbfs = threshold_dbfs
        self._rate_hz = rate_hz
        self._held = b""
        self._quiet_sent = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that wait; all of them quiet."""
        return len(self._held)

    def feed(self, block: bytes) -> bytes:
        """Take a block; give what may be sent now."""
        voiced, tail = split_quiet_tail(block, self._threshold_dbfs, self._rate_hz)
        if voiced:
            out, self._held, self._quiet_sent = self._held + voiced, b"", 0
        else:
            out = b""
        room = max(0, self._keep - self._quiet_sent)
        self._quiet_sent += min(room, len(tail))
        self._held += tail[room:]
        return out + tail[:room]

    def finish(self) -> bytes:
        """End of the piece: what of the tail lies within ``keep_ms``; the rest is dropped."""
        room = max(0, self._keep - self._quiet_sent)
        rest, self._held = self._held[:room], b""
        self._quiet_sent = 0
        return rest
