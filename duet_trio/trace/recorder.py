"""Recorders: where trace events go while the system runs.

Theory of operation: ``emit`` stands in the paths that send audio, so it only reads the
clock and appends one tuple to a deque. Encoding and writing happen in one background
thread, which hands whole lines to the operating system several times a second: what has
been handed over survives a ``kill -9`` of the process. The queue has a limit; what doesn't
fit is dropped and counted, and the count is written as ``trace.dropped`` as soon as there
is room. (Rejected: a lock or ``queue.Queue`` in ``emit``: under load the writer holds it
while the event loop waits.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from duet_trio.errors import ConfigError
from duet_trio.events import Field, Recorder
from duet_trio.trace.line_file import LineFile, Opener
from duet_trio.trace.records import FORMAT, Event, Item, assemble, start_fields

__all__ = ["FORMAT", "Clock", "Event", "FileRecorder", "ListRecorder", "TeeRecorder"]

Clock = Callable[[], float]

#: Events encoded between two writes. Encoding holds the GIL, a write gives it away: 64 events
#: keep the event loop waiting for 0.2 ms at most.
CHUNK = 64


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
        self.events.append(assemble(item, self._origin))

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
        opener: Opener | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        try:
            self._file = LineFile(self.path, retry_s=retry_s, opener=opener)
        except OSError as error:
            raise ConfigError(
                f"trace.path: {self.path} cannot be written ({error.strerror or error}); "
                "name a file in a folder that exists and is writable"
            ) from None
        self._clock = clock
        self._origin = clock()
        self._limit = limit
        self._flush_s = flush_s
        self._queue: deque[Item] = deque()
        self._wake = threading.Event()
        self._closed = False
        self._encoder = msgspec.json.Encoder(enc_hook=str)
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
        return not self._thread.is_alive() and not self._queue and not self._file.is_failing

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
        self._file.close()

    def _drain(self, closing: bool) -> None:
        """Write the queue in chunks: long enough to be cheap, short for the GIL's sake."""
        if self._file.is_pausing and not closing:
            return  # the queue fills meanwhile; what overflows is counted by emit
        while self._queue:
            chunk = [self._queue.popleft() for _ in range(min(CHUNK, len(self._queue)))]
            if not self._file.write([self._encode(item) for item in chunk]):
                self.dropped += len(chunk)
                return
            self.written += len(chunk)
        missing = self.dropped - self._dropped_told
        if missing:
            fields: dict[str, Field] = {"count": missing}
            item = (self._clock_last, "trace.dropped", None, None, fields)
            if self._file.write([self._encode(item)]):
                self._dropped_told += missing

    def _encode(self, item: Item) -> bytes:
        try:
            return self._encoder.encode(assemble(item, self._origin))
        except Exception as error:  # noqa: BLE001 - supervision border: the trace writer
            # A value that is no JSON (a lone surrogate in a transcript, say) costs its
            # event's fields, not the trace.
            now, event, board, generation, fields = item
            text = ascii(fields)[:2000]
            safe: dict[str, Field] = {"unencodable": text, "error": type(error).__name__}
            header = (now, ascii(event)[1:-1], board and ascii(board)[1:-1], generation, safe)
            return self._encoder.encode(assemble(header, self._origin))
