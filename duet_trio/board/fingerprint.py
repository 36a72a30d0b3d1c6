"""Which answer is this sound of? Scripted voices speak each generation at a pitch of its own."""

from __future__ import annotations

import numpy as np

#: Scripted voices: a tone of ``TONE_BASE_HZ + TONE_STEP_HZ * (generation mod TONES)``.
TONE_BASE_HZ = 300
TONE_STEP_HZ = 50
TONES = 40
#: Root mean square, of 32768, below which a frame counts as silent.
SILENCE_RMS = 100.0
FRAME_MS = 60


def tone_hz(pcm: bytes, rate_hz: int = 24_000) -> float | None:
    """Return the strongest frequency of s16le mono PCM; None for silence or under 10 ms.

    Good to about 1 Hz for a steady tone of one packet (60 ms): the peak of a windowed FFT,
    refined by the parabola through its neighbours.
    """
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
    if len(samples) < rate_hz // 100 or np.sqrt(np.mean(samples**2)) < SILENCE_RMS:
        return None
    size = 4 * len(samples)  # zero padding: the parabola fits a finer grid
    levels = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), size))
    levels[: 1 + 50 * size // rate_hz] = 0  # no voice down there, but perhaps an offset
    peak = int(np.argmax(levels))
    shift = 0.0
    if 0 < peak < len(levels) - 1:
        left, top, right = np.log(levels[peak - 1 : peak + 2] + 1e-9)
        bend = left - 2 * top + right
        shift = 0.5 * (left - right) / bend if bend else 0.0
    return float((peak + shift) * rate_hz / size)


def generation_of(pcm: bytes, rate_hz: int = 24_000) -> int | None:
    """Return the scripted generation (mod 40) that sounds here; None if none does.

    A frequency more than 15 Hz off every generation's tone is none of them.
    """
    hz = tone_hz(pcm, rate_hz)
    if hz is None:
        return None
    step = round((hz - TONE_BASE_HZ) / TONE_STEP_HZ)
    if not 0 <= step < TONES or abs(hz - TONE_BASE_HZ - step * TONE_STEP_HZ) > 15:
        return None
    return step


def fingerprints(pcm: bytes, rate_hz: int = 24_000, frame_ms: int = FRAME_MS) -> list[int | None]:
    """Return `generation_of` each frame, in order; a short last frame is left out.

    A frame in which one tone gives way to another, or to silence, may be either or None.
    """
    size = 2 * rate_hz * frame_ms // 1000
    return [
        generation_of(pcm[at : at + size], rate_hz) for at in range(0, len(pcm) - size + 1, size)
    ]
