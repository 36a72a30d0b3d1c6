"""The lock file of a set: what was fetched for the files that the catalogue cannot pin.

``models-lock.json`` lies in the set's folder. It says of each file from a hub which commit it
came from, its size and its hashes as they were when it was fetched and checked. From then on
those count like pinned ones: ``duet models list`` and the next pull compare with them.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from duet_trio.errors import UsageError

LOCK_FILE = "models-lock.json"


class Locked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file as it was fetched. ``hub_hash``: SHA-256 (LFS) or git's SHA-1, as the hub says."""

    repository: str
    name: str
    commit: str
    size: int
    sha256: str
    hub_hash: str


def read_lock(folder: Path) -> dict[str, Locked]:
    """By path within the set; empty if there is no lock file. Raises `UsageError`."""
    path = folder / LOCK_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Locked])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"models: {path} is damaged ({error}); delete it and pull again") from None


def write_lock(folder: Path, locked: dict[str, Locked]) -> None:
    """Replace the lock file in one step."""
    path = folder / LOCK_FILE
    partial = path.with_name(path.name + ".partial")
    encoded = msgspec.json.encode(dict(sorted(locked.items())))
    partial.write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
    os.replace(partial, path)
