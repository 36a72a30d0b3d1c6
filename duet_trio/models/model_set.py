"""What a set of models is made of: files, and where each comes from.

The sets themselves stand in `duet_trio.models.catalogue`. A new kind of place is an origin class
here and a fetcher in `duet_trio.models.pull`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["asr", "llm", "tts"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the package index; it is downloaded, never installed.

    ``system`` is ``sys.platform`` where it is for one system only; elsewhere it is left out.
    """

    project: str
    version: str
    filename: str
    size: int
    sha256: str
    system: str = ""

    @property
    def requirement(self) -> str:
        """One line of a ``--require-hashes`` requirements file."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class WheelMember:
    """A file inside a wheel."""

    wheel: Wheel
    member: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a Hugging Face repository, at a pinned revision (a commit, not a branch)."""

    repository: str
    revision: str
    name: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a set. ``path`` is relative to the set's folder, with ``/``.

    ``sha256`` is empty where it is not pinned; ``size`` is then what is expected, for plans.
    """

    path: str
    size: int
    sha256: str
    origin: WheelMember | HubFile

    @property
    def pinned(self) -> bool:
        """Is the content fixed here? If not, by the hub and then by the lock file."""
        return bool(self.sha256)

    @property
    def for_this_system(self) -> bool:
        """False for libraries that were built for another one."""
        origin = self.origin
        return not isinstance(origin, WheelMember) or origin.wheel.system in ("", sys.platform)


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Models that belong together. ``defaults`` says what an empty ``model = ""`` means."""

    name: str
    summary: str
    licences: tuple[str, ...]
    files: tuple[ModelFile, ...]
    defaults: Mapping[Kind, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # for whoever pulls it

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)
