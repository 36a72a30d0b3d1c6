"""What may stand in no file: ``python -m tools.text_rules``.

Names of package registries (set-up must work with any mirror), paths of one machine or person,
and marks of unfinished work. The patterns are put together from halves, so that this file passes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.findings import Finding, project_files, relative, run_check

_FOLDERS = "|".join(("wo" r"rk", "ro" r"ot", "fa" r"rm", "ho" r"me/\w+", "Us" r"ers/\w+"))
_HOSTS = "|".join(("py" r"pi\.org", "python" r"hosted\.", "npm" r"js\.", r"\bdeb\." "debian"))
_MARKS = "|".join(("TO" r"DO", "FIX" r"ME", "XX" r"X"))

RULES = (
    ("the name of a package registry", re.compile(_HOSTS, re.IGNORECASE)),
    (
        "a path that exists on one machine only",
        re.compile(rf"(?<![\w.:*~-])/(?:{_FOLDERS})/|/tmp/bo" r"ot|[A-Z]:[\\/]Us" r"ers[\\/]"),
    ),
    ("a mark of unfinished work", re.compile(rf"\b(?:{_MARKS})\b")),
)


def check(root: Path) -> Iterator[Finding]:
    """Yield every line of a text file that one of the rules matches."""
    for path in project_files(root):
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            for what, pattern in RULES:
                found = pattern.search(line)
                if found:
                    yield Finding(relative(root, path), number, f"{what}: {found[0]!r}")


if __name__ == "__main__":
    sys.exit(run_check(check, "Check what may stand in no file."))
