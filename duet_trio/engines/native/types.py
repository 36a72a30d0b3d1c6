"""What goes in and out of a native engine, as plain data (no compiled code is imported)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

from duet_trio.errors import EngineFailedError

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int32]


class Status(IntEnum):
    """How a call ended (``DV_*``)."""

    OK = 0
    CANCELLED = 1
    LATE = 2
    CAPPED = 3
    REFUSED = -1
    BUSY = -2
    FAILED = -3
    MEMORY = -4
    MISSING = -5
    MODEL = -6


class Can(IntFlag):
    """What an engine can do (``DV_CAN_*``)."""

    STREAM = 1
    CLONE = 2
    ICL = 4
    SEED = 8
    VOICE_IN_FILE = 16


class RefusedError(EngineFailedError):
    """The request was refused before the engine saw it; the engine is unharmed."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to open. ``engine`` empty: known by the library's symbols."""

    library: str = ""
    model: str = ""
    codec: str = ""
    engine: str = ""
    threads: int = 1
    gpu: bool = False
    embedding_length: int = 0  # that the model wants; 0: voices by embedding are refused
    codebook_size: int = 0  # 0: voices by codes are refused


@dataclass(frozen=True, slots=True)
class Info:
    """What an open engine says about itself. ``step_frames`` 0: it never hears a cancel."""

    engine: str
    version: str
    rate_hz: int
    frame_samples: int
    codebooks: int
    embedding_length: int
    step_frames: int
    can: Can


@dataclass(frozen=True, slots=True)
class Voice:
    """A cloned voice: an embedding, with codes ``[codebooks, frames]`` and transcript for ICL.

    Or ``file``: a voice file of the engine's own (`Can.VOICE_IN_FILE`).
    """

    embedding: Floats | None = None
    codes: Codes | None = None
    transcript: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One text to speak. ``max_frames`` is required; zeros mean the model's own default."""

    text: str
    max_frames: int
    language: str = ""
    speaker: str = ""
    style: str = ""
    voice: Voice | None = None
    seed: int = 0
    deadline_ms: int = 0
    greedy: bool = False
    temperature: float = 0.0
    top_p: float = 0.0
    top_k: int = 0
    repetition_penalty: float = 0.0
    quiet_start_ban: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """How a piece of speech ended; ``first_ms`` is negative when no block came."""

    status: Status
    blocks: int
    samples: int
    first_ms: float
    total_ms: float
