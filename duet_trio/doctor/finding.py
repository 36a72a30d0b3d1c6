"""What ``duet doctor`` has found out, a line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from duet_trio.errors import UsageError

Verdict = Literal["ok", "note", "BAD"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it stands, and how to mend it (if there is a need)."""

    verdict: Verdict
    what: str
    detail: str
    mend: str = ""

    def __str__(self) -> str:
        """``ok    libopus: libopus 1.6.1``."""
        end = f"; {self.mend}" if self.mend else ""
        return f"{self.verdict:5} {self.what}: {self.detail}{end}"


def usable(what: str, look: Callable[[], str]) -> Finding:
    """What ``look`` says, or the `UsageError` that it raises."""
    try:
        return Finding("ok", what, look())
    except UsageError as error:
        return Finding("BAD", what, str(error))
