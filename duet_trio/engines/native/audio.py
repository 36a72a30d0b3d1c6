"""A block of speech, looked at and made into 16 bits, by the compiled interface.

All take float32 arrays, C-contiguous, and copy nothing of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duet_trio.engines.native.interface import ffi, lib
from duet_trio.engines.native.types import Floats


def count_loud(pcm: Floats, window: int, energy: float) -> int:
    """How many whole windows of ``window`` samples have more energy (sum of squares)."""
    return int(lib.dv_loud(ffi.from_buffer("float[]", pcm), pcm.size, window, energy, ffi.NULL))


def loud_windows(pcm: Floats, window: int, energy: float) -> npt.NDArray[np.uint8]:
    """Which of them: 0 or 1 for each whole window."""
    loud = np.zeros(pcm.size // window, np.uint8)
    out = ffi.from_buffer("uint8_t[]", loud, require_writable=True)
    lib.dv_loud(ffi.from_buffer("float[]", pcm), pcm.size, window, energy, out)
    return loud


def pcm16(pcm: Floats) -> bytes:
    """The samples as s16le, full scale 32767, clipped."""
    out = ffi.new("int16_t[]", pcm.size)
    lib.dv_pcm16(ffi.from_buffer("float[]", pcm), pcm.size, out)
    return bytes(ffi.buffer(out))
