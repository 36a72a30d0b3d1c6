"""Take libqwen out of a wheel file: the shared libraries as data, nothing is installed or run.

The published wheels hold ``<package>/lib/libqwen.so`` beside the ggml libraries that it was
built with; it finds them by its own folder ($ORIGIN), so they must stay together, in a folder of
their own.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from duet_trio.errors import MissingFileError

#: What may be the engine itself inside a wheel, by platform.
LIBRARY_NAMES = ("libqwen.so", "libqwen.dylib", "qwen.dll", "libqwen.dll")
_SUFFIXES = (".so", ".dylib", ".dll")
_MEMBER_BYTES_MAX = 1 << 30


def extract_libqwen(wheel: Path, folder: Path) -> Path:
    """Put libqwen and the libraries beside it into ``folder``; returns libqwen's path.

    Also takes the wheel's licence texts. Existing files are replaced, each in one step (a
    running worker keeps its old mapping). Raises `MissingFileError` when the wheel is missing,
    damaged, or has no libqwen.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = {PurePosixPath(name): name for name in archive.namelist()}
            library = _library(wheel, list(members))
            folder.mkdir(parents=True, exist_ok=True)
            for path, name in members.items():
                if _wanted(path, library.parent):
                    _write(archive, name, folder / path.name)
    except FileNotFoundError:
        raise MissingFileError(f"{wheel}: no such file; download the wheel first") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise MissingFileError(f"{wheel}: not a wheel ({error}); download it again") from None
    return folder / library.name


def _library(wheel: Path, paths: list[PurePosixPath]) -> PurePosixPath:
    found = [path for path in paths if path.name in LIBRARY_NAMES]
    if len(found) != 1:
        raise MissingFileError(
            f"{wheel}: has {len(found)} files named {' or '.join(LIBRARY_NAMES)}, one is needed;"
            " take a wheel of libqwen for this platform"
        )
    return found[0]


def _wanted(path: PurePosixPath, beside: PurePosixPath) -> bool:
    library = path.parent == beside and any(
        path.name.endswith(suffix) or f"{suffix}." in path.name for suffix in _SUFFIXES
    )
    return library or "licenses" in path.parts


def _write(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    if archive.getinfo(name).is_dir():
        return
    if archive.getinfo(name).file_size > _MEMBER_BYTES_MAX:
        raise MissingFileError(f"{name}: larger than 1 GiB inside its wheel; not taken")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(archive.read(name))
    os.chmod(temporary, 0o755 if target.name in LIBRARY_NAMES else 0o644)
    os.replace(temporary, target)
