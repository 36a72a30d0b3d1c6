"""Ctrl-C while a module in C++ is being imported: it says that the import failed."""

from __future__ import annotations

import pytest

from duet_trio import cli
from duet_trio.errors import EngineFailedError, EngineHungError, first_leaf


def test_an_import_that_was_interrupted_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_arguments: list[str]) -> int:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(cli, "_run", run)
    assert cli.main(["doctor"]) == 130


def test_an_import_that_failed_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_arguments: list[str]) -> int:
        raise ImportError("no such module") from ValueError()

    monkeypatch.setattr(cli, "_run", run)
    with pytest.raises(ImportError, match="no such module"):
        cli.main(["doctor"])


def test_the_first_leaf_of_nested_groups() -> None:
    first = EngineHungError("one", engine="tts", reason="")
    second = EngineFailedError("two", engine="tts", reason="")
    assert first_leaf(ExceptionGroup("a", [ExceptionGroup("b", [first]), second])) is first
