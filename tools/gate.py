"""The one gate: ``python -m tools.gate check`` or ``test``; the same here and everywhere else.

``check`` reads: format, lint, types, layers, texts, configuration. ``test`` does that and then
runs: the native checks, and all tests with branch coverage. Every part runs even when an earlier
one failed, so that one run shows everything; the exit code is 1 if any part failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.findings import python_files

PYTHON = sys.executable
CHECKS_HOME = Path(__file__).resolve().parent.parent
NATIVE = "tools/native_check.py"
#: A hang must not cost an hour; pytest shows where after 300 s (faulthandler_timeout).
TESTS_LIMIT_S = 2400.0


@dataclass(frozen=True, slots=True)
class Part:
    """One step: its name, and the command that must exit with 0 in time."""

    name: str
    command: Sequence[str]
    folder: Path
    limit_s: float = 600.0


def reading_parts(root: Path) -> list[Part]:
    """What `check` runs, the quickest first."""
    own = [
        # Ours, whichever tree they look at.
        Part(name, [PYTHON, "-m", f"tools.{module}", "--root", str(root)], CHECKS_HOME)
        for name, module in (
            ("texts", "text_rules"),
            ("code rules", "code_rules"),
            ("layers", "layering"),
            ("configuration", "config_table"),
        )
    ]
    return [
        Part("format", [PYTHON, "-m", "ruff", "format", "--check", "--quiet", "--diff", "."], root),
        Part("lint", [PYTHON, "-m", "ruff", "check", "--quiet", "."], root),
        Part("async", async_command(root), root),
        *own,
        Part("types", [PYTHON, "-m", "mypy", "--strict"], root),
    ]


def async_command(root: Path) -> list[str]:
    """Call flake8-async on what is asynchronous (it takes a second per ten files).

    ASYNC9 is off by default there; ASYNC124 wants synchronous functions where an interface or the
    web framework (which would run them in threads) wants asynchronous ones. Functions that
    take ``task_status`` must be named to it: they are found here, so that no list grows old.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in python_files(root)}
    startable = r"async def (\w+)\([^)]*\btask_status\b"
    names = sorted({name for text in texts.values() for name in re.findall(startable, text)})
    files = [
        str(path.relative_to(root))
        for path, text in texts.items()
        if re.search(r"\b(async|trio)\b", text)
    ]
    named = ["--startable-in-context-manager", ",".join(names)] if names else []
    command = [PYTHON, "-W", "error", "-m", "flake8_async", "--disable", "ASYNC9,ASYNC124"]
    return [*command, *named, *files]


def running_parts(root: Path) -> list[Part]:
    """What `test` runs besides; the tests last, so that their summary is the end of the output."""
    native = [Part("native", [PYTHON, NATIVE], root)] if (root / NATIVE).is_file() else []
    report = ["--cov", "--cov-branch", "--cov-report=term:skip-covered", "--durations=15"]
    return [*native, Part("tests", [PYTHON, "-m", "pytest", *report], root, TESTS_LIMIT_S)]


def run(parts: Sequence[Part]) -> list[str]:
    """Run them one after the other; the names of those that failed."""
    failed = []
    for part in parts:
        print(f"--- {part.name}", flush=True)
        start = time.monotonic()
        try:
            code = subprocess.run(
                part.command, cwd=part.folder, timeout=part.limit_s, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"{part.name}: not done after {part.limit_s:.0f} s, killed")
            code = 1
        verdict = "ok" if code == 0 else "FAILED"
        print(f"--- {part.name}: {verdict} ({time.monotonic() - start:.1f} s)", flush=True)
        if code != 0:
            failed.append(part.name)
    return failed


def main() -> int:
    """Run the gate on a tree; 0 only if every part passed."""
    parser = argparse.ArgumentParser(description="Check the tree, or check and test it.")
    parser.add_argument("what", choices=["check", "test"])
    parser.add_argument("--root", type=Path, default=CHECKS_HOME, help="default: %(default)s")
    args = parser.parse_args()
    root = args.root.resolve()
    parts = reading_parts(root)
    if args.what == "test":
        parts += running_parts(root)
    failed = run(parts)
    print(f"gate: failed: {', '.join(failed)}" if failed else "gate: all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
