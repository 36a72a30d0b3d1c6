"""Reading trace files: one event at a time, so a file of gigabytes needs no memory.

What a crash, a full disk or another version leaves behind is tolerated and counted, never
raised: a last line that was cut off, lines that are no JSON object, events and fields that
this version doesn't know. Refused are another *major* format version, and a file in which no
line is a trace event: figures of nothing would look like figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from duet_trio.errors import MissingFileError, UsageError
from duet_trio.events import EVENTS
from duet_trio.trace.records import FORMAT, Event

#: No event is that long; what is, is damage (a disk full of zeros has no newline at all).
LONGEST_LINE = 1 << 20
#: So many lines without one event, from the start on, and the rest is not read.
ENOUGH_BAD_LINES = 10_000


def parse_line(line: bytes) -> Event | None:
    """Return the event in ``line``, or None if it isn't one.

    ``t`` (float) and ``event`` (str) are there afterwards, ``board`` and ``generation`` too,
    None if the line has none. Other fields are as written.
    """
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    t = event.get("t")
    if not isinstance(t, int | float) or isinstance(t, bool):
        return None
    try:
        event["t"] = float(t)
    except OverflowError:  # hundreds of digits
        return None
    board = event.setdefault("board", None)
    generation = event.setdefault("generation", None)
    if not isinstance(board, str | None) or not isinstance(generation, int | None):
        return None
    return event


class TraceFile:
    """One file; iterating reads it from the start and counts what was found.

    Raises `MissingFileError` or `UsageError` (one line each) when iteration begins and the
    file can't be opened, when it meets a ``trace.start`` of another major format, or at the
    end if the file holds no event that this version knows.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.reset()

    def reset(self) -> None:
        """Forget all counts."""
        self.events = 0
        self.bad_lines = 0
        self.truncated = False  # the last line was cut off in the middle
        self.unknown: set[str] = set()  # names of events that this version doesn't know
        self._has_known = False

    def __iter__(self) -> Iterator[Event]:
        self.reset()
        with open_trace(self.path) as file:
            while line := file.readline(LONGEST_LINE):
                if self.bad_lines >= ENOUGH_BAD_LINES and not self.events:
                    break
                whole = line.endswith(b"\n")
                if not whole and len(line) == LONGEST_LINE:
                    self.bad_lines += 1
                    _skip_line(file)
                    continue
                event = self.parse(line, whole)
                if event is not None:
                    yield event
        self._check_content()

    def remarks(self) -> list[str]:
        """Return what a reader of the events must know about the file, a line each."""
        found = []
        if self.truncated:
            found.append("the last line is cut off (the writer was killed or is still writing)")
        if self.bad_lines:
            found.append(f"{self.bad_lines} lines are no trace events and were left out")
        if self.unknown:
            names = ", ".join(sorted(self.unknown)[:8])
            found.append(f"events unknown to this version: {names}")
        return found

    def _check_content(self) -> None:
        if self._has_known:
            return
        if self.events or self.bad_lines:
            raise UsageError(f"{self.path}: no trace (none of its lines is an event of a trace)")
        state = "only a cut-off line" if self.truncated else "empty"
        raise UsageError(
            f"{self.path}: {state}; no event has been written to it "
            "(a server writes them once `trace.path` names the file)"
        )

    def parse(self, line: bytes, whole: bool = True) -> Event | None:
        """Parse and count one line; ``whole``: it ended with a newline."""
        if not line.strip():
            return None  # a recorder that continues a cut-off file writes an empty line
        event = parse_line(line)
        if event is None:
            if not whole and line.startswith(b"{"):
                self.truncated = True
            else:
                self.bad_lines += 1
            return None
        self.events += 1
        name = event["event"]
        if name not in EVENTS:
            self.unknown.add(name)
            return event
        self._has_known = True
        if name == "trace.start":
            check_format(event, self.path)
        return event


def read(*paths: str | Path) -> Iterator[Event]:
    """Yield the events of the files, one file after the other. Errors as `TraceFile`."""
    for path in paths:
        yield from TraceFile(path)


def check_format(event: Event, path: Path) -> None:
    """Raise `UsageError` if this ``trace.start`` is of a format that we can't read."""
    written = str(event.get("format", FORMAT))
    if written.partition(".")[0] != FORMAT.partition(".")[0]:
        raise UsageError(
            f"{path}: trace format {written}, this program reads {FORMAT}; "
            "use the version of duet-trio that wrote it"
        )


def open_trace(path: Path) -> BinaryIO:
    """Open for reading; raises `MissingFileError` or `UsageError` of one line."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise MissingFileError(
            f"{path}: no such trace; `duet serve --set trace.path=FILE` writes one"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from None


def _skip_line(file: BinaryIO) -> None:
    while line := file.readline(LONGEST_LINE):
        if line.endswith(b"\n"):
            return
