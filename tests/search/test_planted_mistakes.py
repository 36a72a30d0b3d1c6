"""The search finds what it is for: each planted mistake is caught."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duet_trio import errors
from tests.search.planted_mistakes import MISTAKES, Mistake

PACKAGE = Path(errors.__file__).parent


def plant(mistake: Mistake, root: Path) -> None:
    """Copy the package, and put the mistake in."""
    shutil.copytree(
        PACKAGE, root / "duet_trio", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    for name, old, new in mistake.edits:
        path = root / "duet_trio" / name
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{name}: the place for '{mistake.name}' is gone"
        path.write_text(source.replace(old, new), encoding="utf-8")


def run_search(root: Path, seeds: str) -> tuple[int, dict[str, object]]:
    """Search in the copy, in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "duet_trio", "faults", "search"),
            *("--seeds", seeds, "--first", "--json"),
        ],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_planted_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    plant(mistake, tmp_path)
    code, found = run_search(tmp_path, f"0:{mistake.seeds}")
    assert code == 1, f"not found in {mistake.seeds} scenarios"
    assert found["failures"]


def test_an_untouched_copy_passes(tmp_path: Path) -> None:
    plant(Mistake("none", ()), tmp_path)
    code, found = run_search(tmp_path, "0:25")
    assert (code, found["failures"], found["scenarios"]) == (0, {}, 25)
