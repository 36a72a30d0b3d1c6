"""Cloned voices on disk.

::

    FOLDER/NAME/voice.json       what it is
    FOLDER/NAME/reference.wav    the checked reference, 24 kHz mono s16
    FOLDER/.made/KEY.npz         what an engine made of it, KEY = audio, transcript and model
    FOLDER/.made/KEY.voice       the same for engines with voice files of their own
    FOLDER/.draft-XXXX/          a voice that is being made; killed in the middle, it stays one
    FOLDER/.lock                 held while a voice changes its place

An embedding belongs to one model file, so a voice is made anew for another model from its
reference, and the same reference under two names is made once. What lies in ``.made`` can always
be made again: a file there that is damaged counts as not there.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.engines.native.types import Can, Floats, Voice
from duet_trio.engines.native.voice_files import (
    RECORD,
    REFERENCE,
    Record,
    read_arrays,
    read_reference,
    write_arrays,
    write_draft,
    written_whole,
)
from duet_trio.errors import MissingFileError, UsageError
from duet_trio.filelock import holding

if TYPE_CHECKING:
    from duet_trio.engines.native.voice import NativeVoice

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SHOWN = 40  # characters of a bad name
_DRAFT = ".draft-"
#: No voice takes that long to make: what is older was left by a process that was killed.
_DRAFT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A voice that nobody can choose yet."""

    record: Record
    folder: Path


class VoiceStore:
    """The voices in one folder (made at the first `draft`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """All voices, sorted; damaged ones too."""
        found = (path.parent.name for path in self.folder.glob(f"*/{RECORD}"))
        return sorted(name for name in found if NAME.fullmatch(name))

    def read(self, name: str) -> Record:
        """That voice. Raises `MissingFileError` with the names there are."""
        return self._read(self._folder_of(name), name)

    def read_draft(self, folder: Path) -> Draft:
        """The draft in ``folder``. Raises `MissingFileError`."""
        return Draft(self._read(folder, ""), folder)

    def draft(self, name: str, pcm: Floats, *, transcript: str = "", source: str = "") -> Draft:
        """Keep a checked reference (24 kHz mono) aside, until `publish` or `discard`."""
        self._folder_of(name)
        samples = np.rint(np.clip(pcm, -1, 1) * 32767).astype("<i2")
        record = Record(
            name=name,
            sha256=hashlib.sha256(samples.tobytes()).hexdigest(),
            seconds=round(len(samples) / SPEECH_RATE_HZ, 2),
            transcript=transcript,
            source=source,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        draft = Draft(record, Path(tempfile.mkdtemp(dir=self.folder, prefix=_DRAFT)))
        try:
            draft.folder.chmod(0o755)  # `mkdtemp` makes it its owner's alone
            write_draft(draft.folder, record, samples)
        except OSError:
            self.discard(draft)
            raise
        return draft

    def publish(self, draft: Draft) -> Record:
        """Give the draft its name; a voice that had it before is forgotten."""
        target = self._folder_of(draft.record.name)
        with self._locked():
            before = draft.folder.with_name(f"{draft.folder.name}-before")
            if target.exists():
                target.rename(before)
            draft.folder.rename(target)
            shutil.rmtree(before, ignore_errors=True)
            self._prune()
        return draft.record

    def discard(self, draft: Draft) -> None:
        """Forget a draft and what an engine made of it."""
        shutil.rmtree(draft.folder, ignore_errors=True)
        with self._locked():
            self._prune()

    def remove(self, name: str) -> None:
        """Forget that voice and what engines made of it (unless another one shares it).

        A damaged one goes as well. Raises `MissingFileError` if there is none of that name.
        """
        folder = self._folder_of(name)
        if not folder.exists():
            self.read(name)  # says which there are
        with self._locked():
            shutil.rmtree(folder)
            self._prune()

    def made_for(self, record: Record) -> list[str]:
        """Identities of the models it has been made for."""
        found = {path.stem.split("-", 1)[1] for path in self._made.glob(f"{record.key}-*")}
        return sorted(each for each in found if self.load(record, each) is not None)

    def load(self, record: Record, identity: str) -> Voice | None:
        """What an engine with that model made of it before; None: nothing (whole) yet."""
        own = self._made / f"{record.key}-{identity}.voice"
        if own.exists() and own.stat().st_size:
            return Voice(transcript=record.transcript, file=str(own))
        return read_arrays(own.with_suffix(".npz"), record.transcript)

    def make(
        self, record: Record, identity: str, native: NativeVoice, folder: Path | None = None
    ) -> Voice:
        """Let an open engine make it (seconds on a CPU), and keep the result.

        ``folder``: that of a draft. Raises `EngineFailedError` when the engine cannot,
        `MissingFileError` when the reference is not there any more or nothing can be kept.
        """
        wav = (folder or self._folder_of(record.name)) / REFERENCE
        pcm = read_reference(wav, record)
        target = self._made / f"{record.key}-{identity}.npz"
        in_file = Can.VOICE_IN_FILE in native.info.can
        if in_file:
            target = target.with_suffix(".voice")
        try:
            self._made.mkdir(parents=True, exist_ok=True)
            with written_whole(target) as temporary:
                voice = native.make_voice(
                    pcm,
                    transcript=record.transcript,
                    wav_path=str(wav),
                    out_path=str(temporary) if in_file else "",
                )
                if not in_file:
                    write_arrays(temporary, voice)
        except OSError as error:
            raise MissingFileError(
                f"{self._made}: cannot be written to ({error.strerror}); choose another folder "
                "with tts.voices"
            ) from None
        return Voice(transcript=record.transcript, file=str(target)) if in_file else voice

    @property
    def _made(self) -> Path:
        return self.folder / ".made"

    def _locked(self) -> AbstractContextManager[None]:
        return holding(self.folder / ".lock", wait=True)

    def _prune(self) -> None:
        """Drop what was made of references that are gone; with a damaged voice nobody knows."""
        try:
            folders = [path.parent for path in self.folder.glob(f"*/{RECORD}")]
            keys = {self._read(folder, folder.name).key for folder in folders}
        except MissingFileError:
            return
        for path in self._made.glob("*-*"):
            if path.name.split("-", 1)[0] not in keys and not path.name.startswith("."):
                path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Drop what killed processes left."""
        for path in (*self.folder.glob(f"{_DRAFT}*"), *self._made.glob(".new-*")):
            try:
                old = time.time() - path.stat().st_mtime > _DRAFT_S
            except FileNotFoundError:  # its process removed it meanwhile
                continue
            if old and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif old:
                path.unlink(missing_ok=True)

    def _read(self, folder: Path, name: str) -> Record:
        path = folder / RECORD
        try:
            record = msgspec.json.decode(path.read_bytes(), type=Record)
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(self.names()) or "none"
            raise MissingFileError(
                f"voice '{name}': not in {self.folder} (there: {known}); "
                "make it with: duet voice add NAME ref.wav"
            ) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise MissingFileError(f"{path}: damaged ({error}); add that voice again") from None
        # The folder's name counts: people copy and rename folders.
        return msgspec.structs.replace(record, name=name) if name else record

    def _folder_of(self, name: str) -> Path:
        check_name(name)
        return self.folder / name


def check_name(name: str) -> None:
    """Raises `UsageError` for what cannot be a voice's name: it is a folder's on any system."""
    if not NAME.fullmatch(name):
        shown = ascii(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")
        raise UsageError(f"voice name {shown}: 1 to 32 of a-z, 0-9, - and _, the first no - or _")
