"""What the project's own checks share: how a finding looks, and which files there are."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: Without git (an unpacked archive) these folders are never looked into.
SKIPPED = {".git", ".venv", "build", "dist", "models", "demo-out", "__pycache__"}


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is wrong, in the form that editors jump to."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        """``path:line: message``."""
        return f"{self.path}:{self.line}: {self.message}"


Check = Callable[[Path], Iterable[Finding]]


def project_files(root: Path) -> list[Path]:
    """All files that are or would be tracked: new ones count before they are committed."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout.decode()
        paths = [root / name for name in listed.split("\0") if name]
    else:
        paths = [
            path
            for path in root.rglob("*")
            if not SKIPPED.intersection(path.relative_to(root).parts[:-1])
        ]
    return sorted(path for path in set(paths) if path.is_file())


def python_files(root: Path, *folders: str) -> list[Path]:
    """The Python files under these folders of the project (none: everywhere)."""
    return [
        path
        for path in project_files(root)
        if path.suffix == ".py" and (not folders or path.relative_to(root).parts[0] in folders)
    ]


def relative(root: Path, path: Path) -> str:
    """The path as findings name it: from the project's root, with forward slashes."""
    return path.relative_to(root).as_posix()


def run_check(check: Check, description: str) -> int:
    """The command line that every check has: ``--root DIR``; exit code 1 if it found something."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="default: %(default)s")
    findings = sorted(set(check(parser.parse_args().root.resolve())))
    for finding in findings:
        print(finding)
    return 1 if findings else 0
