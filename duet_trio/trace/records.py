"""What one line of a trace looks like.

Every event is one JSON object per line: ``t`` (seconds since the recorder was made),
``event``, ``board``, ``generation``, then the event's own fields. A field called ``due`` is a
time on the recorder's clock and is moved to the scale of ``t``, so that emitters may pass
``trio.current_time()`` values as they are.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from duet_trio.events import Field

#: Version of the file format: a reader understands every minor version of its major one.
FORMAT = "1.0"

#: One trace event as tools see it: ``t``, ``event``, ``board``, ``generation``, own fields.
Event = dict[str, Any]
#: An event before it is put together: clock time, name, board, generation, fields.
Item = tuple[float, str, str | None, int | None, dict[str, Field]]


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


def assemble(item: Item, origin: float) -> Event:
    """Return the event as it is written; ``origin`` is the clock's value at ``t`` = 0."""
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
