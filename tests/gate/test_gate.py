"""The gate as it is called: a clean tree passes, and every part catches its own kind of fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.planted import HOME, clean_tree, module, put
from tools.gate import Part, run

FAULTS = {
    "format": ("duet_trio/wire/one.py", '"""M."""\n\nONE = [1,2]\n'),
    "lint": ("duet_trio/wire/two.py", '"""M."""\n\nimport json\n'),
    "async": (
        "duet_trio/session/three.py",
        '"""M."""\n\nimport trio\n\n\nasync def wait() -> None:\n    """Wait."""\n'
        "    with trio.move_on_after(1):\n        pass\n",
    ),
    "texts": ("notes.txt", "FIX" + "ME\n"),
    "code rules": (
        "tests/test_four.py",
        'def test_four() -> None:\n    assert hasattr(1, "real")\n',
    ),
    "layers": ("duet_trio/wire/five.py", module("from duet_trio import session")),
    "configuration": ("README.md", "# Nothing\n"),
    "types": ("duet_trio/wire/six.py", '"""M."""\n\nSIX: int = "6"\n'),
    "tests": ("tests/test_seven.py", "def test_seven() -> None:\n    assert 3 + 4 == 8\n"),
}


def gate(what: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run the gate on a tree."""
    return subprocess.run(
        [sys.executable, "-m", "tools.gate", what, "--root", str(root)],
        cwd=HOME,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_clean_tree_passes(tmp_path: Path) -> None:
    result = gate("test", clean_tree(tmp_path))
    assert "gate: all parts passed" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 0
    assert "1 passed" in result.stdout


@pytest.mark.slow
def test_every_part_fails_and_all_are_shown(tmp_path: Path) -> None:
    clean_tree(tmp_path)
    for name, text in FAULTS.values():
        put(tmp_path, name, text)
    put(tmp_path, "tools/native_check.py", '"""Fails."""\n\nimport sys\n\nsys.exit(3)\n')
    result = gate("test", tmp_path)
    last = result.stdout.splitlines()[-1]
    assert last.removeprefix("gate: failed: ").split(", ") == [
        *(part for part in FAULTS if part != "tests"), "native", "tests",
    ]  # fmt: skip
    assert result.returncode == 1


def test_a_part_that_never_ends_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for_ever = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    good = [sys.executable, "-c", ""]
    assert run([Part("long", for_ever, tmp_path, 0.2), Part("good", good, tmp_path)]) == ["long"]
    assert "long: not done after 0 s, killed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_warning_in_a_test_is_an_error(tmp_path: Path) -> None:
    text = "import warnings\n\n\ndef test_it() -> None:\n    warnings.warn('old', stacklevel=1)\n"
    put(clean_tree(tmp_path), "tests/test_warns.py", text)
    result = gate("test", tmp_path)
    assert "--- tests: FAILED" in result.stdout
    assert "UserWarning: old" in result.stdout
