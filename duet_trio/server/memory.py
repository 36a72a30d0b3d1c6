"""Memory of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def rss_mb(pid: int | None = None) -> float:
    """Resident memory in MB (10⁶ bytes) of ``pid`` (None: this process); 0 where unknown."""
    path = Path(f"/proc/{pid or os.getpid()}/statm")
    try:
        pages = int(path.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return _peak_mb() if pid is None else 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _peak_mb() -> float:
    """The peak, where the system tells no present value (macOS); nothing on Windows."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
