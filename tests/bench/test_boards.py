"""``duet bench boards``: what it makes of a trace, and one small run of the real thing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from duet_trio.bench import boards
from duet_trio.bench.boards_clients import device_ids
from duet_trio.bench.processor import busy_s, children_cpu_s, own_cpu_s


def test_lateness_ends_with_the_first_board_that_leaves(tmp_path: Path) -> None:
    def sent(t: float, due: float, what: str = "frame") -> dict[str, object]:
        return {"t": t, "event": "sent", "board": "b", "generation": 1, "what": what, "due": due}

    events = [
        {"t": 0.0, "event": "trace.start", "format": "1.0"},
        sent(1.000, 0.998),
        sent(1.010, 1.020),  # early counts as in time
        sent(1.020, 0.0, "tts.stop"),
        {"t": 2.0, "event": "board.close", "board": "b", "generation": None},
        sent(3.0, 2.0),
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    late, count = boards._lateness(path)
    assert late == pytest.approx([2.0, 0.0])
    assert count == 2


def test_boards_have_ids_of_their_own() -> None:
    ids = device_ids(300)
    assert len(set(ids)) == 300
    assert ids[0] == "02:00:00:00:00:01"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processor_time_of_the_machine_holds_ours() -> None:
    before, ours = busy_s(), own_cpu_s()
    while own_cpu_s() < ours + 0.1:
        sum(range(10_000))
    assert busy_s() - before >= 0.07
    assert children_cpu_s(os.getpid()) >= 0


@pytest.mark.slow
async def test_two_boards_speak_ask_and_listen() -> None:
    options = boards.BoardsOptions([2], [0.5], seconds=16.0, complexity=0)
    figures = await boards.measure(options)
    (run,) = figures["runs"]
    assert run["answers"] >= 2
    assert run["lost_connections"] == 0
    assert run["packets"] > 150
    assert 0 < run["speaking_share"] < 0.6
    assert 0.1 < run["first_audio_s"]["median"] < 2
    assert run["gap_mean_ms"] == pytest.approx(60, abs=3)
    assert run["ticker_largest_ms"] >= 60
    assert run["server_rss_mb"] > 30
    assert "2 boards" in boards.report(figures)
