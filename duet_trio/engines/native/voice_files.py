"""The files of one cloned voice: what it is, its recording, what an engine made of it."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import wave
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.engines.native.types import Floats, Voice
from duet_trio.errors import MissingFileError

RECORD, REFERENCE = "voice.json", "reference.wav"
#: What reading a damaged archive of arrays may raise.
_DAMAGED = (
    OSError, ValueError, TypeError, KeyError, EOFError, RuntimeError, MemoryError, struct.error,
    zlib.error, zipfile.BadZipFile,
)  # fmt: skip


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """``voice.json``. ``transcript`` not empty: an ICL voice, else an x-vector."""

    name: str
    sha256: str  # of reference.wav's samples
    seconds: float
    transcript: str = ""
    source: str = ""  # file name that it was added from

    @property
    def kind(self) -> str:
        """In the field's words."""
        return "ICL" if self.transcript else "x-vector"

    @property
    def key(self) -> str:
        """Of audio and transcript, for the file names of what engines make."""
        return hashlib.sha256(f"{self.sha256}\n{self.transcript}".encode()).hexdigest()[:16]


def write_draft(folder: Path, record: Record, samples: npt.NDArray[np.int16]) -> None:
    """Recording and record into an empty folder."""
    with wave.open(str(folder / REFERENCE), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SPEECH_RATE_HZ)
        file.writeframes(samples.tobytes())
    (folder / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record)))


def read_reference(path: Path, record: Record) -> Floats:
    """Its samples, if they are those that the record speaks of. Raises `MissingFileError`."""
    again = f"add the voice '{record.name}' again"
    try:
        with wave.open(str(path), "rb") as file:
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        why = getattr(error, "strerror", None) or str(error) or "it ends too early"
        raise MissingFileError(f"{path}: cannot be read ({why}); {again}") from None
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise MissingFileError(f"{path}: not the recording that this voice was made of; {again}")
    return (np.frombuffer(data, "<i2") / 32768).astype(np.float32)


def read_arrays(path: Path, transcript: str) -> Voice | None:
    """An embedding, and codes for ICL; None if the file is not there or not whole."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            codes = data["codes"].astype(np.int32) if "codes" in data else None
            embedding = data["embedding"].astype(np.float32)
    except _DAMAGED:
        return None
    whole = embedding.ndim == 1 and embedding.size and np.isfinite(embedding).all()
    if not whole or (codes is not None and codes.ndim != 2):
        return None
    return Voice(embedding, codes, transcript if codes is not None else "")


def write_arrays(path: Path, voice: Voice) -> None:
    """What `read_arrays` reads."""
    embedding = np.asarray(voice.embedding)
    if voice.codes is None:
        np.savez(path, embedding=embedding)
    else:
        np.savez(path, embedding=embedding, codes=voice.codes)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes ``path`` if the block does not fail."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # `mkstemp` makes it its owner's alone
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
