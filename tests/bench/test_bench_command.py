"""What ``duet bench`` says to options that nothing can be measured with."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from duet_trio.bench.command import _unless_ended
from duet_trio.bench.processes import CONFIG_FOLDER, named_config
from duet_trio.cli import main


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "abort", "--aborts", "0"),
        ("bench", "abort", "--boards", "0"),
        ("bench", "pace", "--answers", "-1"),
        ("bench", "answer", "--questions", "x"),
        ("bench", "boards", "--boards", "1", "0"),
        ("bench", "boards", "--seconds", "0"),
        ("bench", "boards", "--seconds", "nan"),
        ("faults", "search", "--processes", "0"),
    ],
)
def test_nothing_to_measure(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "from 1 up" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="there os.kill ends us")
async def test_an_ended_bench_tidies_up() -> None:
    tidy = []

    async def measure() -> dict[str, Any]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep(60)
            return {}
        finally:
            tidy.append(True)

    with trio.fail_after(5):
        assert await _unless_ended(measure) is None
    assert tidy == [True]


async def test_figures_come_through() -> None:
    async def measure() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"a": 1}

    assert await _unless_ended(measure) == {"a": 1}


def test_a_configuration_has_a_path_or_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert named_config("demo.toml") == CONFIG_FOLDER / "demo.toml"
    own = tmp_path / "mine.toml"
    own.touch()
    assert named_config("mine.toml") == Path("mine.toml")
    assert named_config(str(own)) == own
