"""The native gate's own words: what is missing, what failed (its work runs in the gate)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import native_check


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["native_check.py"])


@pytest.mark.usefixtures("asked")
def test_a_missing_compiler_fails_and_names_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert native_check.main() == 1
    out = capsys.readouterr().out
    assert "clang: clang is missing; install: clang libclang-rt-dev" in out
    assert "mingw: x86_64-w64-mingw32-gcc is missing; install: gcc-mingw-w64-x86-64" in out


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("passed", ["12 passed, 0 failed", "900 passed, 1 failed", ""])
def test_c_tests_that_fail_or_are_too_few(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], passed: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    for name in ("compile_everything", "sanitisers_notice"):
        monkeypatch.setattr(native_check, name, lambda *_: None)
    monkeypatch.setattr(native_check, "run_c_tests", lambda *_: passed)
    assert native_check.main() == 1
    assert f"gcc: FAILED\nC tests: {passed}" in capsys.readouterr().out


def test_a_warning_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "warned.c"
    source.write_text("int f(void);\nint f(void) { int unused; return 1; }\n")
    monkeypatch.setattr(native_check, "SOURCES", [source])
    with pytest.raises(native_check.FailedError, match="unused"):
        native_check.compile_everything("gcc", tmp_path)


def test_sanitisers_that_see_nothing_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_check, "SANITIZE", [])
    monkeypatch.setattr(native_check, "BAD_PROGRAM", "int main(void) { return 0; }")
    with pytest.raises(native_check.FailedError, match="its sanitisers see nothing"):
        native_check.sanitisers_notice("gcc", tmp_path)
