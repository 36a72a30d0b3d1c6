"""Small files in ``server.state_dir``: replaced whole or not at all.

A write waits for the disk, milliseconds or more: never from within the event loop.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write ``data`` to ``path``; readers see the old file or the new one, never half of it.

    Makes the folder. ``mode`` (less the umask) is in force before the content is. Raises
    `OSError`; then the old file stands, and nothing else is left behind.
    """
    temporary = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a power cut after the rename must not leave an empty file
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
