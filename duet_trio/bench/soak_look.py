"""What a server holds, process by process: open files and memory, and what of it has grown.

Everything comes from ``/proc``, so from Linux alone. Elsewhere a look finds nothing, and
`NOT_MEASURED` says so in the figures.

``own_mb`` is what no file stands behind (``RssAnon``): heaps, stacks, the evaluated context of a
language model. Resident memory (``rss_mb``) also holds the parts of libraries and of a mapped
model that happen to have been read; these grow with use, can be dropped at any time, and are no
leak. Both are shown; growth is judged by the own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NOT_MEASURED = "open files and memory of processes: only Linux tells (/proc)"
PROC = Path("/proc")
MB = 1e6
MAIN = "main"  # name of the server's own process


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process: ``main``, or a worker by what it does; memory in MB (10⁶ bytes)."""

    name: str
    pid: int
    rss_mb: float
    own_mb: float


@dataclass(frozen=True, slots=True)
class Look:
    """A server at one moment: its open files, and its processes, itself first."""

    files: int
    processes: tuple[ProcessMemory, ...]

    def to_dict(self) -> dict[str, Any]:
        """For the figures."""
        return {"files": self.files, "processes": [asdict(one) for one in self.processes]}


def measurable() -> bool:
    """Does this system tell what processes hold?"""
    return (PROC / "self" / "status").is_file()


def look(pid: int) -> Look:
    """Look at a server and all processes below it; empty where nothing can be seen."""
    try:
        files = sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
    except OSError:
        return Look(0, ())
    found = []
    for one, name in [(pid, MAIN), *((child, _name(child)) for child in _below(pid))]:
        with suppress(OSError, ValueError):  # it has just ended
            found.append(_memory(one, name))
    return Look(files, tuple(found))


def workers(pid: int) -> list[int]:
    """The processes that a server itself has started."""
    found = []
    for task in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return sorted(found)


def _below(pid: int) -> Iterator[int]:
    for child in workers(pid):
        yield child
        yield from _below(child)


def _memory(pid: int, name: str) -> ProcessMemory:
    values = {"VmRSS": 0.0, "RssAnon": 0.0}
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in values:
            values[key] = int(value.split()[0]) * 1024 / MB
    return ProcessMemory(name, pid, round(values["VmRSS"], 2), round(values["RssAnon"], 2))


def _name(pid: int) -> str:
    """``worker tts`` for ``python -m duet_trio.engines.worker tts``; else the program's name."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    words = [word for word in words if word]
    if "-m" in words[:-1]:
        at = words.index("-m") + 1
        return " ".join([words[at].rpartition(".")[2], *words[at + 1 :][:1]])
    return Path(words[0]).name if words else "a process"


@dataclass(frozen=True, slots=True)
class Growth:
    """Two looks at the same server."""

    before: Look
    after: Look

    def faults(self, main_mb: float, workers_mb: float) -> Iterator[str]:
        """What is not as it was: files, processes, own memory that grew by more than these."""
        if self.before.files != self.after.files:
            yield f"open files: {self.before.files} became {self.after.files}"
        was, became = _names(self.before.processes), _names(self.after.processes)
        if was != became:
            yield f"processes: {was} became {became}"
        for old, new in self._pairs():
            if new.own_mb - old.own_mb > (main_mb if new.name == MAIN else workers_mb):
                yield f"{new.name}: own memory {old.own_mb} MB became {new.own_mb} MB"

    def to_dict(self) -> dict[str, Any]:
        """For the figures."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "growth": [
                {
                    "name": new.name,
                    "rss_mb": round(new.rss_mb - old.rss_mb, 2),
                    "own_mb": round(new.own_mb - old.own_mb, 2),
                }
                for old, new in self._pairs()
            ],
        }

    def _pairs(self) -> Iterator[tuple[ProcessMemory, ProcessMemory]]:
        old = {one.pid: one for one in self.before.processes}
        for one in self.after.processes:
            if one.pid in old:
                yield old[one.pid], one


def _names(processes: Sequence[ProcessMemory]) -> str:
    return ", ".join(f"{one.name} ({one.pid})" for one in processes)


def report_growth(title: str, figures: dict[str, Any]) -> list[str]:
    """The lines of one `Growth.to_dict`: a process each."""
    before, after = figures["before"], figures["after"]
    lines = [f"{title}: open files {before['files']} -> {after['files']}"]
    old = {one["pid"]: one for one in before["processes"]}
    for one in after["processes"]:
        was = old.get(one["pid"])
        if was is None:
            lines.append(f"  {one['name']:12} new (pid {one['pid']}): {one['rss_mb']:.1f} MB")
            continue
        lines.append(
            f"  {one['name']:12} resident {was['rss_mb']:6.1f} -> {one['rss_mb']:6.1f} MB"
            f"  of that own {was['own_mb']:6.1f} -> {one['own_mb']:6.1f} MB"
            f"  ({one['own_mb'] - was['own_mb']:+.2f})"
        )
    return lines
