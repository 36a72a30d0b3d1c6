"""One process at a time: a lock on a file, which the system drops when its holder dies.

A file that merely exists would outlive a killed process, and every later one would wait for it.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

#: File systems that cannot lock (some network folders): better without a lock than not at all.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)

if sys.platform == "win32":
    import msvcrt

    def _take(file: BinaryIO, *, wait: bool) -> None:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(error.errno, "locked by another process") from None
else:
    import fcntl

    def _take(file: BinaryIO, *, wait: bool) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise


@contextmanager
def holding(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock file ``path`` (made where it is not there, never removed).

    Blocks until it is free, or with ``wait`` false raises `BlockingIOError` if it is not. (Windows
    gives up waiting after ten seconds, with the same error.) Other `OSError` are those of opening
    it.
    """
    with path.open("ab") as file:  # closing it gives the lock back
        _take(file, wait=wait)
        yield
