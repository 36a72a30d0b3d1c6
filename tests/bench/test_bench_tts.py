"""The bench of the voice: its arithmetic, and a short run on the real libqwen."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from duet_trio import cli
from duet_trio.bench.chunk_clock import added_ms, build_clock
from duet_trio.bench.processes import BenchError
from duet_trio.bench.tts import report
from tests.native.support import libqwen


def test_each_block_is_matched_with_its_own_arrival() -> None:
    left = [1.0, 2.0, 3.0, 4.0]
    # The second was held back as quiet and came with the third; the tail came by itself.
    arrived = [1.0005, 3.001, 3.002, 4.0002, 4.0003]
    assert added_ms(left, arrived) == pytest.approx([0.5, 1.0, 0.2])
    assert added_ms(left, []) == []
    assert added_ms([], arrived) == []


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="no C compiler"):
        build_clock(Path("libqwen.so"), tmp_path)


@pytest.mark.slow
def test_a_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--pieces", "2", "--cancels", "2", "--kills", "1", "--library", str(libqwen())]
    assert cli.main(["bench", "tts", "--json", *words]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["added_ms"]["count"] > 5
    # Loose, for busy machines: the figures themselves are for the bench to print.
    assert 0 < figures["added_ms"]["median"] < 20
    assert 0 < figures["cancel_ms"]["median"] < 3 * figures["longest_block_ms"] + 1000
    assert figures["restart_s"]["count"] == 1
    assert figures["restart_s"]["largest"] < 15
    assert all(math.isfinite(value) for value in figures["bare_pipe_ms"].values())
    text = report(figures)
    for words_of in ("added to each block", "cancel → idle", "SIGKILL → ready again"):
        assert words_of in text
