"""Cloned voices on disk.

::

    FOLDER/NAME/voice.json       what it is
    FOLDER/NAME/reference.wav    the checked reference, 24 kHz mono s16
    FOLDER/.made/KEY.npz         what an engine made of it, KEY = audio, transcript and model
    FOLDER/.made/KEY.voice       the same for engines with voice files of their own

An embedding belongs to one model file, so a voice is made anew for another model from its
reference, and the same reference under two names is made once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import wave
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.engines.native.types import Can, Floats, Voice
from duet_trio.errors import MissingFileError, UsageError

if TYPE_CHECKING:
    from duet_trio.engines.native.voice import NativeVoice

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


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


class VoiceStore:
    """The voices in one folder (made at the first `add`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All voices, sorted."""
        return sorted(path.parent.name for path in self.folder.glob("*/voice.json"))

    def read(self, name: str) -> Record:
        """That voice. Raises `MissingFileError` with the names there are."""
        path = self._folder_of(name) / "voice.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise MissingFileError(
                f"voice '{name}': not in {self.folder} (there: {known}); "
                "make it with: duet voice add NAME ref.wav"
            ) from None
        except msgspec.DecodeError as error:
            raise MissingFileError(
                f"{path}: damaged ({error}); add the voice '{name}' again"
            ) from None

    def add(self, name: str, pcm: Floats, *, transcript: str = "", source: str = "") -> Record:
        """Keep a checked reference (24 kHz mono) under ``name``, replacing what was there."""
        samples = np.rint(np.clip(pcm, -1, 1) * 32767).astype("<i2")
        record = Record(
            name=name,
            sha256=hashlib.sha256(samples.tobytes()).hexdigest(),
            seconds=round(len(samples) / SPEECH_RATE_HZ, 2),
            transcript=transcript,
            source=source,
        )
        folder = self._folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        with wave.open(str(folder / "reference.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(SPEECH_RATE_HZ)
            file.writeframes(samples.tobytes())
        _replace(folder / "voice.json", msgspec.json.format(msgspec.json.encode(record)))
        return record

    def remove(self, name: str) -> None:
        """Forget that voice and what engines made of it (unless another one shares it)."""
        record = self.read(name)
        shutil.rmtree(self._folder_of(name))
        if all(self.read(other).key != record.key for other in self.names()):
            for path in self._made.glob(f"{record.key}-*"):
                path.unlink()

    def made_for(self, record: Record) -> list[str]:
        """Identities of the models it has been made for."""
        return sorted(path.stem.split("-", 1)[1] for path in self._made.glob(f"{record.key}-*"))

    def load(self, record: Record, identity: str) -> Voice | None:
        """What an engine with that model made of it before; None: nothing yet.

        Raises `MissingFileError` when the file is damaged.
        """
        own = self._made / f"{record.key}-{identity}.voice"
        if own.exists():
            return Voice(transcript=record.transcript, file=str(own))
        path = own.with_suffix(".npz")
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as data:
                codes = data["codes"].astype(np.int32) if "codes" in data else None
                embedding = data["embedding"].astype(np.float32)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise MissingFileError(
                f"{path}: damaged ({error}); remove it, then: duet voice add {record.name} …"
            ) from None
        return Voice(embedding, codes, record.transcript if codes is not None else "")

    def make(self, record: Record, identity: str, native: NativeVoice) -> Voice:
        """Let an open engine make it (seconds on a CPU), and keep the result.

        Raises `EngineFailedError` when the engine cannot.
        """
        wav = self._folder_of(record.name) / "reference.wav"
        with wave.open(str(wav), "rb") as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        self._made.mkdir(parents=True, exist_ok=True)
        target = self._made / f"{record.key}-{identity}.npz"
        in_file = Can.VOICE_IN_FILE in native.info.can
        voice = native.make_voice(
            (samples / 32768).astype(np.float32),
            transcript=record.transcript,
            wav_path=str(wav),
            out_path=str(target.with_suffix(".voice")) if in_file else "",
        )
        if not in_file:
            handle, temporary = tempfile.mkstemp(dir=self._made, suffix=".npz")
            os.close(handle)
            if voice.codes is None:
                np.savez(temporary, embedding=np.asarray(voice.embedding))
            else:
                np.savez(temporary, embedding=np.asarray(voice.embedding), codes=voice.codes)
            os.replace(temporary, target)
        return voice

    @property
    def _made(self) -> Path:
        return self.folder / ".made"

    def _folder_of(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise UsageError(
                f"voice name '{name}': 1 to 32 of a-z, 0-9, - and _, the first no - or _"
            )
        return self.folder / name


def _replace(path: Path, data: bytes) -> None:
    """Write in one step: a reader sees the old file or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(data)
    os.replace(temporary, path)
