"""Is it our own voice? How much of the microphone's sound the loudspeaker's explains. Sans-IO.

A board in realtime mode sends its microphone while it speaks, and no echo canceller is perfect.
What it hears of itself must not interrupt it. Level alone cannot tell (an echo may be louder than
a person across the room), but we know every sample that we sent: the microphone's audio is laid
against it, the delay is found by a whitened cross-correlation, and at that delay the coherence of
the two gives the share of the microphone's energy that a fixed linear path (loudspeaker, room)
explains. For an echo it is near 1, for somebody else's voice it is small, for both at once it
falls with the person's share.

Limits: a path that is not linear (a loudspeaker driven to its limits) looks like another voice.
The transcript is compared with our words as well (`duet_trio.speech.guards.is_echo`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000
#: How long our own sound is remembered: the longest delay and the longest utterance that is
#: judged, with room for the board's queue.
KEPT_S = 4.0
#: Between our estimate of when a packet sounds and its coming back in a microphone packet.
EARLIEST_S, LATEST_S = -0.15, 0.80
#: How much of the microphone is judged. Over 768 ms, echoes through made-up rooms of up to 0.5 s
#: reverberation gave shares of 0.40 to 0.82, another voice at most 0.28 (0.5 s: 0.17 and 0.40).
JUDGED_MS = 768
#: Share from which it is an echo.
ECHO_SHARE = 0.35

_FRAME = 1024
_HOP = 128
_LOW_HZ, _HIGH_HZ = 200, 4000
_SHORTEST = 4096

Samples = NDArray[np.float32]


class EchoReference:
    """What one board has been given to play, on the clock of its playback (any one clock, s)."""

    def __init__(self) -> None:
        self._sound: Samples = np.zeros(0, dtype=np.float32)
        self._end = 0.0

    def played(self, pcm: bytes, at: float) -> None:
        """16 kHz s16le that left at ``at``; it sounds when what was sent before has sounded."""
        samples = _floats(pcm)
        start = max(self._end, at) if self._sound.size else at
        gap = min(round((start - self._end) * RATE_HZ), round(KEPT_S * RATE_HZ))
        if self._sound.size and gap > 0:
            samples = np.concatenate([np.zeros(gap, dtype=np.float32), samples])
        self._sound = np.concatenate([self._sound, samples])[-round(KEPT_S * RATE_HZ) :]
        self._end = start + len(pcm) / 2 / RATE_HZ

    def share(self, pcm: bytes, ended_at: float) -> float:
        """Share of the energy of ``pcm`` (its last sample arrived at ``ended_at``) that is echo.

        0 where there is nothing to compare with: nothing was played, or under 130 ms.
        """
        heard = _floats(pcm)
        first = ended_at - heard.size / RATE_HZ - LATEST_S
        own = self._between(first, ended_at - EARLIEST_S)
        if heard.size < _SHORTEST or not own.any():
            return 0.0
        delay = _delay(heard, own)
        return _explained(heard, own[delay : delay + heard.size])

    def _between(self, start: float, end: float) -> Samples:
        """What sounded then; zeros where nothing did."""
        count = round((end - start) * RATE_HZ)
        track = np.zeros(count, dtype=np.float32)
        begin = self._end - self._sound.size / RATE_HZ
        offset = round((begin - start) * RATE_HZ)
        source = self._sound[max(0, -offset) :]
        at = max(0, offset)
        if at < count:
            piece = source[: count - at]
            track[at : at + piece.size] = piece
        return track


def _delay(heard: Samples, own: Samples) -> int:
    """Samples by which ``heard`` lies behind the beginning of ``own`` (both are searched whole)."""
    size = 1 << (heard.size + own.size - 1).bit_length()
    cross: Any = np.fft.rfft(own, size) * np.conj(np.fft.rfft(heard, size))
    hz = np.fft.rfftfreq(size, 1 / RATE_HZ)
    cross[(hz < _LOW_HZ) | (hz > _HIGH_HZ)] = 0
    magnitude = np.abs(cross)
    # Half-way between plain correlation (pitch gives many peaks) and full whitening (noise).
    cross /= np.sqrt(magnitude + 1e-9 * (float(magnitude.max()) + 1e-12))
    lags = np.fft.irfft(cross, size)[: own.size - heard.size + 1]
    return int(np.argmax(lags))


def _explained(heard: Samples, own: Samples) -> float:
    """Welch's coherence between the two, weighted by where the microphone's energy is."""
    x, y = _spectra(own), _spectra(heard)
    cross = np.abs(np.sum(y * np.conj(x), axis=0)) ** 2
    own_power = np.sum(np.abs(x) ** 2, axis=0)
    heard_power = np.sum(np.abs(y) ** 2, axis=0)
    total = float(heard_power.sum())
    if total <= 0:
        return 0.0
    floor = 1e-9 * (float(own_power.max()) + 1e-12)
    return float((cross / (own_power + floor)).sum() / total)


def _spectra(samples: Samples) -> NDArray[np.complex128]:
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[::_HOP]
    spectra = np.fft.rfft(frames * np.hanning(_FRAME), axis=1)
    hz = np.fft.rfftfreq(_FRAME, 1 / RATE_HZ)
    found: NDArray[np.complex128] = spectra[:, (hz >= _LOW_HZ) & (hz <= _HIGH_HZ)]
    return found


def _floats(pcm: bytes) -> Samples:
    return np.frombuffer(pcm, dtype="<i2").astype(np.float32) / np.float32(32768)
