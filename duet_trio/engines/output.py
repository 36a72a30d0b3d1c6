"""The worker's side of the message pipe: whole messages, from any thread."""

from __future__ import annotations

import os
import threading

from duet_trio.engines.pipe import FromWorker, encode


class Output:
    """Writes framed messages to a file descriptor; one at a time, never half of one."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, message: FromWorker) -> None:
        """Write one message; blocks while the pipe is full."""
        self.write_raw(encode(message))

    def write_raw(self, data: bytes) -> None:
        """Write bytes as they are. A parent that has gone ends the process."""
        with self._lock:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BrokenPipeError:
                    os._exit(0)
