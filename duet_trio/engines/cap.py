"""The bound on a piece's audio: a voice that does not end is cut with a fade.

Qwen3-TTS never ends in about 0.34 % of requests (measured by its users); the answer then goes
on with its next piece instead of failing.
"""

from __future__ import annotations

import sys
from array import array

from duet_trio.engines.contracts import SPEECH_RATE_HZ

BYTES_PER_S = SPEECH_RATE_HZ * 2
FADE_S = 0.02


class AudioCap:
    """Lets ``cap_s`` seconds of 24 kHz s16le PCM through; ``capped`` once it had to cut."""

    def __init__(self, cap_s: float) -> None:
        self._room = max(2, int(cap_s * SPEECH_RATE_HZ) * 2)
        self.sent_bytes = 0
        self.capped = False

    @property
    def audio_s(self) -> float:
        """Seconds let through."""
        return self.sent_bytes / BYTES_PER_S

    def take(self, pcm: bytes) -> bytes:
        """What of ``pcm`` may go out: all of it, its faded beginning, or nothing.

        An odd last byte is dropped: half a sample would shift all that follows.
        """
        pcm = pcm[: len(pcm) & ~1]
        room = self._room - self.sent_bytes
        if len(pcm) >= room:  # also at exactly the cap: what follows will find no room to fade
            self.capped = self.capped or len(pcm) > room
            pcm = fade_out(pcm[:room])
        self.sent_bytes += len(pcm)
        return pcm


def fade_out(pcm: bytes, fade_s: float = FADE_S) -> bytes:
    """Let the last ``fade_s`` seconds go down to silence, in a straight line."""
    samples = _samples(pcm)
    length = min(len(samples), int(fade_s * SPEECH_RATE_HZ))
    start = len(samples) - length
    for index in range(length):
        samples[start + index] = int(samples[start + index] * (length - 1 - index) / length)
    return _bytes(samples)


def _samples(pcm: bytes) -> array[int]:
    samples = array("h")
    samples.frombytes(pcm)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def _bytes(samples: array[int]) -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
