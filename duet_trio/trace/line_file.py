"""A file of lines that may fail at any time: one warning, and nothing worse.

For the recorder's thread. A full disk, a lost network drive or a closed descriptor costs the
lines of that moment; writing is tried again later, beginning on a new line, so that a line
torn by the failure spoils no other.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

Opener = Callable[[Path], BinaryIO]


class LineFile:
    """Appends lines, unbuffered: what `write` took has reached the operating system.

    Making one raises `OSError` if ``path`` can't be opened; later failures raise nothing.
    ``opener`` gives a raw (unbuffered) binary file.
    """

    def __init__(self, path: Path, *, retry_s: float, opener: Opener | None = None) -> None:
        self._path = path
        self._retry_s = retry_s
        self._torn = _ends_in_mid_line(path)
        self._file = (opener or _open_append)(path)
        self._retry_at = 0.0
        self.is_failing = False

    @property
    def is_pausing(self) -> bool:
        """A write failed a moment ago; the next try would too."""
        return time.monotonic() < self._retry_at

    def write(self, lines: Sequence[bytes]) -> bool:
        """Append the lines, each without its newline; False if they were (partly) lost."""
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
        if self.is_failing:
            self.is_failing = False
            log.info("trace %s is written again", self._path)
        return True

    def close(self) -> None:
        """Close it; a quota that is counted only now is one more failed write."""
        try:
            self._file.close()
        except OSError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self.is_failing:
            log.warning("trace %s cannot be written (%s); speech goes on", self._path, error)
        self.is_failing = True


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
