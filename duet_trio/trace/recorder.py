"""Recorders: where trace events go while the system runs.

Theory of operation: ``emit`` stands in the paths that send audio, so it only reads the
clock and appends one tuple to a deque. Encoding and writing happen in one background
thread, which hands whole lines to the operating system several times a second: what has
been handed over survives a ``kill -9`` of the process. The queue has a limit; what doesn't
fit is dropped and counted, and the count is written as ``trace.dropped`` as soon as there
is room. (Rejected: a lock or ``queue.Queue`` in ``emit``: under load the writer holds it
while the event loop waits.)

Every event is one JSON object per line: ``t`` (seconds since the recorder was made),
``event``, ``board``, ``generation``, then the event's own fields. A field called ``due`` is a
time on the recorder's clock and is moved to the scale of ``t``, so that emitters may pass
``trio.current_time()`` values as they are.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from duet_trio.errors import ConfigError
from duet_trio.events import Field, Recorder

#: Version of the file format: a reader understands every minor version of its major one.
FORMAT = "1.0"

Clock = Callable[[], float]
#: One trace event as tools see it: ``t``, ``event``, ``board``, ``generation``, own fields.
Event = dict[str, Any]

_QueueItem = tuple[float, str, str | None, int | None, dict[str, Field]]

log = logging.getLogger(__name__)


def start_fields(config_digest: str = "") -> dict[str, Field]:
    """Return the fields of ``trace.start``: what somebody needs to compare two traces."""
    try:
        version = metadata.version("duet-trio")
    except metadata.PackageNotFoundError:  # run from a source tree that isn't installed
        version = "unknown"
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    return {
        "format": FORMAT,
        "wall_clock": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "machine": f"{machine}, Python {platform.python_version()}",
        "version": version,
        "config_digest": config_digest,
    }


def _assemble(item: _QueueItem, origin: float) -> Event:
    now, event, board, generation, fields = item
    record: Event = {
        "t": round(now - origin, 6),
        "event": event,
        "board": board,
        "generation": generation,
        **fields,
    }
    due = record.get("due")
    if isinstance(due, int | float):
        record["due"] = round(due - origin, 6)
    return record


class ListRecorder:
    """Keeps every event in memory, for tests and for tools that read a run at once.

    ``events`` is a list of the same objects that a `FileRecorder` would write. ``clock`` is
    read by ``emit`` only, so a recorder on ``trio.current_time`` may be made outside
    ``trio.run``. ``origin`` is the clock's value at ``t`` = 0; by default times stay as they
    are on the clock (a mock clock begins at 0).
    """

    def __init__(self, clock: Clock = time.monotonic, *, origin: float = 0.0) -> None:
        self._clock = clock
        self._origin = origin
        self.events: list[Event] = []

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Append the event."""
        item = (self._clock(), event, board, generation, fields)
        self.events.append(_assemble(item, self._origin))

    def select(self, event: str | None = None, generation: int | None = None) -> list[Event]:
        """Return the events of this name and generation (none: of any)."""
        return [
            one
            for one in self.events
            if (event is None or one["event"] == event)
            and (generation is None or one["generation"] == generation)
        ]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


class TeeRecorder:
    """Gives every event to several recorders, in order."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Pass the event on. Each recorder reads its own clock."""
        for recorder in self._recorders:
            recorder.emit(event, board=board, generation=generation, **fields)


class FileRecorder:
    """Appends events to a JSON Lines file from a background thread.

    An existing file is continued, never overwritten: each run begins with ``trace.start``,
    and tools tell runs apart by it. Raises `ConfigError` if ``path`` can't be opened for
    writing; after that nothing is raised any more. A full disk or a lost file gives one
    warning in the log, events are dropped and counted, and writing is tried again every
    ``retry_s``: speech goes on.

    Args:
        path: the file; ``~`` is expanded, its folder must exist.
        clock: seconds, monotonic; ``trio.current_time`` in the server.
        config_digest: goes into ``trace.start``.
        limit: events that may wait for the thread. 65 536 is ten seconds of 200 boards that
            speak at once (34 events/s each), about 30 MB.
        flush_s: the longest time an event waits before it is handed to the system.
        retry_s: pause after a failed write.
        opener: opens ``path`` for appending bytes, unbuffered; tests put a bad disk here.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Clock = time.monotonic,
        config_digest: str = "",
        *,
        limit: int = 65_536,
        flush_s: float = 0.2,
        retry_s: float = 5.0,
        opener: Callable[[Path], BinaryIO] | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        try:
            needs_newline = _ends_in_mid_line(self.path)
            self._file = (opener or _open_append)(self.path)
        except OSError as error:
            raise ConfigError(
                f"trace.path: {self.path} cannot be written ({error.strerror or error}); "
                "name a file in a folder that exists and is writable"
            ) from None
        self._clock = clock
        self._origin = clock()
        self._limit = limit
        self._flush_s = flush_s
        self._retry_s = retry_s
        self._queue: deque[_QueueItem] = deque()
        self._wake = threading.Event()
        self._closed = False
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self._torn = needs_newline  # the file doesn't end with a newline
        self._warned = False
        self._retry_at = 0.0
        self._clock_last = self._origin
        self.written = 0
        self.dropped = 0
        self._dropped_told = 0
        self._queue.append((self._origin, "trace.start", None, None, start_fields(config_digest)))
        self._thread = threading.Thread(target=self._run, name="trace writer", daemon=True)
        self._thread.start()

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Queue the event: no lock, no I/O, no wait. Callable from any thread.

        Values in ``fields`` belong to the recorder from here on: do not change a list or
        dict afterwards.
        """
        try:
            now = self._clock_last = self._clock()
        except RuntimeError:  # trio's clock, read outside of trio.run: at shutdown
            now = self._clock_last
        waiting = len(self._queue)
        if waiting >= self._limit or self._closed:
            self.dropped += 1
            return
        self._queue.append((now, event, board, generation, fields))
        if waiting == self._limit // 2:
            self._wake.set()

    def close(self, timeout: float = 2.0) -> bool:
        """Write what is queued and close the file; blocks for up to ``timeout`` seconds.

        Returns whether everything emitted so far is in the file (or was counted there as
        dropped). Later events are dropped. Closing twice is harmless.
        """
        self._closed = True
        self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._queue and not self._warned

    def __enter__(self) -> FileRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The writer thread; nothing below is called from anywhere else.

    def _run(self) -> None:
        while True:
            self._wake.wait(self._flush_s)
            self._wake.clear()
            closing = self._closed  # read first: what was queued before it gets drained
            self._drain(closing)
            if closing:
                break
        # A file that fails to close (a quota that is counted late) is one more failed write.
        try:
            self._file.close()
        except OSError as error:
            self._warn(error)

    def _drain(self, closing: bool) -> None:
        """Write the queue in chunks: long enough to be cheap, short for the GIL's sake."""
        if time.monotonic() < self._retry_at and not closing:
            return  # the queue fills meanwhile; what overflows is counted by emit
        while self._queue:
            chunk = [self._queue.popleft() for _ in range(min(256, len(self._queue)))]
            if not self._write_lines([self._encode(item) for item in chunk]):
                self.dropped += len(chunk)
                return
            self.written += len(chunk)
        missing = self.dropped - self._dropped_told
        if missing:
            fields: dict[str, Field] = {"count": missing}
            item = (self._clock_last, "trace.dropped", None, None, fields)
            if self._write_lines([self._encode(item)]):
                self._dropped_told += missing

    def _encode(self, item: _QueueItem) -> bytes:
        try:
            return self._encoder.encode(_assemble(item, self._origin))
        except Exception as error:  # noqa: BLE001 - supervision border: the trace writer
            # A value that is no JSON (a lone surrogate in a transcript, say) costs its
            # event's fields, not the trace.
            now, event, board, generation, fields = item
            text = ascii(fields)[:2000]
            safe: dict[str, Field] = {"unencodable": text, "error": type(error).__name__}
            header = (now, ascii(event)[1:-1], board and ascii(board)[1:-1], generation, safe)
            return self._encoder.encode(_assemble(header, self._origin))

    def _write_lines(self, lines: list[bytes]) -> bool:
        data = b"\n".join(lines) + b"\n"
        if self._torn:
            data = b"\n" + data
        try:
            view = memoryview(data)
            while view:
                count = self._file.write(view)
                self._torn = True
                view = view[count:]
        except (OSError, ValueError) as error:  # ValueError: somebody closed the file
            self._warn(error)
            self._retry_at = time.monotonic() + self._retry_s
            return False
        self._torn = False
        if self._warned:
            self._warned = False
            log.info("trace %s is written again", self.path)
        return True

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            log.warning("trace %s cannot be written (%s); speech goes on without", self.path, error)
        self._warned = True


def _open_append(path: Path) -> BinaryIO:
    if path.is_fifo():
        # A plain open would wait for a reader, at start, for ever; this one fails without.
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "wb", buffering=0)
    return path.open("ab", buffering=0)


def _ends_in_mid_line(path: Path) -> bool:
    """Tell whether an earlier run was cut off in mid-line (killed, or the disk was full)."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except PermissionError:
        return True  # writable but not readable: an empty line harms nobody
