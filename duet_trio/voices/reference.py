"""Is this recording good enough to clone a voice from? Checked, trimmed, brought to 24 kHz.

A bad reference does not fail, it gives a bad voice for ever: so each fault is named here, with
the number that was found and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.errors import UsageError
from duet_trio.voices.wav import read_wav

Floats = npt.NDArray[np.float32]

LEAST_S, MOST_S = 3.0, 15.0
#: ICL pays for each second with every sentence and rushes with long references.
ICL_MOST_S = 8.0
LEAST_SPEECH_S = 1.5
QUIET_DBFS = -35.0  # level of the speech; below it the room's noise is cloned too
SPEECH_OVER_FLOOR_DB = 12.0
CLIPPED = 0.999
CLIPPED_SHARE = 0.0005
PEAK = 0.7
_WINDOW = SPEECH_RATE_HZ // 50
_EDGE_KEPT_S = 0.1
#: Silence after the last word, against its last sound bleeding into what is spoken.
_ICL_TAIL_S = 0.5


@dataclass(frozen=True, slots=True)
class Reference:
    """A usable reference: mono float at 24 kHz, and remarks for the person."""

    pcm: Floats
    seconds: float
    speech_s: float
    level_dbfs: float
    remarks: tuple[str, ...]


def check_reference(path: Path, *, icl: bool = False) -> Reference:
    """Read and check ``path``. Raises `UsageError` (what is wrong, how to mend it)."""
    samples, rate_hz = read_wav(path)
    _check_length(path, len(samples) / rate_hz, icl=icl)  # hours would be converted otherwise
    if not np.all(np.isfinite(samples)):
        raise UsageError(f"{path}: has samples that are no numbers; record it again")
    clipped = float(np.mean(np.abs(samples) >= CLIPPED))
    mono = samples.mean(axis=1).astype(np.float32)
    remarks = []
    if rate_hz != SPEECH_RATE_HZ:
        mono = np.asarray(soxr.resample(mono, rate_hz, SPEECH_RATE_HZ), np.float32)
        remarks.append(f"converted from {rate_hz} Hz")
    if samples.shape[1] > 1:
        remarks.append(f"mixed down from {samples.shape[1]} channels")
    if rate_hz < 16_000:
        remarks.append(f"recorded at {rate_hz} Hz only: the voice will sound dull")
    levels = _levels_db(mono)
    if clipped > CLIPPED_SHARE:
        raise UsageError(
            f"{path}: clipped ({clipped:.2%} of the samples are at full scale); record it again"
            " with less gain"
        )
    speech = _speech(path, levels)
    level = float(10 * np.log10(np.mean(10 ** (levels[speech] / 10))))
    if level < QUIET_DBFS:
        raise UsageError(
            f"{path}: too quiet (speech at {level:.0f} dBFS, {QUIET_DBFS:.0f} is the least);"
            " record it nearer or with more gain"
        )
    mono = _trim(mono, speech)
    speech_s = float(np.count_nonzero(speech)) * _WINDOW / SPEECH_RATE_HZ
    mono = mono * np.float32(PEAK / max(float(np.max(np.abs(mono))), 1e-6))
    if icl:
        mono = np.concatenate([mono, np.zeros(int(_ICL_TAIL_S * SPEECH_RATE_HZ), np.float32)])
    return Reference(mono, len(mono) / SPEECH_RATE_HZ, speech_s, level, tuple(remarks))


def _check_length(path: Path, seconds: float, *, icl: bool) -> None:
    most = ICL_MOST_S if icl else MOST_S
    why = " with a transcript" if icl else ""
    if seconds < LEAST_S:
        raise UsageError(
            f"{path}: too short ({seconds:.1f} s); {LEAST_S:.0f} to {most:.0f} s are needed{why}"
        )
    if seconds > most:
        raise UsageError(
            f"{path}: too long ({seconds:.1f} s); cut it to {LEAST_S:.0f} to {most:.0f} s{why}"
        )


def _levels_db(mono: Floats) -> npt.NDArray[np.float64]:
    """RMS level of each 20 ms in dBFS."""
    windows = mono[: mono.size // _WINDOW * _WINDOW].reshape(-1, _WINDOW).astype(np.float64)
    return np.asarray(10 * np.log10(np.mean(windows**2, axis=1) + 1e-12), np.float64)


def _speech(path: Path, levels: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which windows hold speech: within 30 dB of the loud ones, and clear of the floor."""
    loud = float(np.percentile(levels, 95))
    floor = float(np.percentile(levels, 5))
    speech = levels > max(loud - 30, -80)
    seconds = float(np.count_nonzero(speech)) * _WINDOW / SPEECH_RATE_HZ
    if seconds < LEAST_SPEECH_S:
        raise UsageError(
            f"{path}: hardly any speech ({seconds:.1f} s; {LEAST_SPEECH_S:.1f} are the least);"
            " record a few whole sentences"
        )
    if floor > loud - SPEECH_OVER_FLOOR_DB and floor > -50:
        raise UsageError(
            f"{path}: too noisy (pauses only {loud - floor:.0f} dB below the speech);"
            " record it in a quiet room, with short pauses"
        )
    return speech


def _trim(mono: Floats, speech: npt.NDArray[np.bool_]) -> Floats:
    """Without the silence at both ends, but for a tenth of a second."""
    where = np.flatnonzero(speech)
    edge = int(_EDGE_KEPT_S * SPEECH_RATE_HZ)
    start = max(0, int(where[0]) * _WINDOW - edge)
    return mono[start : int(where[-1] + 1) * _WINDOW + edge]
