"""Where model files lie, and the error that says how to get one that is missing.

The model folder is ``$DUET_MODELS``, else ``~/.cache/duet-trio/models``; each set has a
folder of its own in it. A configured path may use ``~``, ``$VARIABLES`` and ``{models}``
(the model folder); an empty one means the demo set's file for that engine.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from duet_trio.errors import MissingFileError
from duet_trio.models.catalogue import CATALOGUE, DEMO
from duet_trio.models.model_set import Kind, ModelFile

#: ``unchecked``: there, but neither pinned nor in the lock file.
FileState = Literal["there", "missing", "damaged", "unchecked"]
_BLOCK = 1 << 20


def model_folder() -> Path:
    """The folder that holds the sets (it need not exist)."""
    return Path(os.environ.get("DUET_MODELS") or "~/.cache/duet-trio/models").expanduser()


def locate(kind: Kind, configured: str) -> Path:
    """The path that a configured ``model`` of an engine means. Existence is not checked."""
    if not configured:
        return model_folder() / DEMO.name / DEMO.defaults[kind]
    expanded = configured.replace("{models}", str(model_folder()))
    return Path(os.path.expandvars(expanded)).expanduser()


def require(path: Path, what: str) -> Path:
    """``path``, if that file or folder is there and whole; else `MissingFileError`.

    A file of the catalogue must have its size, any other must not be empty; hashes are
    checked when a file is fetched and by ``duet models list``, not at each start (240 MB of
    reading). ``what`` names the thing for people: "speech recognition model".
    """
    known = known_files(path)
    if not path.exists():
        raise MissingFileError(f"{what}: {path} is missing; {_cure(path)}")
    for name, file in known.items():
        part = path / name if name else path
        size = part.stat().st_size if part.is_file() else 0
        if size != file.size and (file.pinned or not size):
            state = f"damaged ({size} of {file.size} bytes)" if size else "missing"
            raise MissingFileError(f"{what}: {part} is {state}; {_cure(path)}")
    if not known and path.is_file() and path.stat().st_size == 0:
        raise MissingFileError(f"{what}: {path} is empty; {_cure(path)}")
    return path


def damaged(path: Path, what: str, why: str) -> MissingFileError:
    """The error for a file that is there but that its engine cannot load."""
    return MissingFileError(f"{what}: {path} cannot be loaded ({why}); {_cure(path)}")


def file_state(path: Path, file: ModelFile, locked_sha256: str = "") -> FileState:
    """Compare with the catalogue's hash, else with the lock file's (reads the whole file)."""
    wanted = file.sha256 or locked_sha256
    try:
        size = path.stat().st_size
        if not wanted:
            return "unchecked"
        if file.pinned and size != file.size:
            return "damaged"
        return "there" if sha256_of(path) == wanted else "damaged"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:  # a folder in its place, a disk that fails
        return "damaged"


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def known_files(path: Path) -> dict[str, ModelFile]:
    """The catalogue's files at or below ``path``, by their place relative to it."""
    found: dict[str, ModelFile] = {}
    for model_set in CATALOGUE.values():
        base = model_folder() / model_set.name
        for file in model_set.files:
            place = base / file.path
            if place.is_relative_to(path) and path.is_relative_to(base):
                relative = place.relative_to(path).as_posix()
                found["" if relative == "." else relative] = file
    return found


def fetch_hint(path: Path) -> str:
    """How to get a file of the catalogue; empty for a path outside of its sets."""
    for model_set in CATALOGUE.values():
        if path.is_relative_to(model_folder() / model_set.name):
            return f"fetch it with: duet models pull {model_set.name}"
    return ""


def _cure(path: Path) -> str:
    other = "correct the path in the configuration, or leave it empty for the demo model"
    return fetch_hint(path) or other
