"""The abort bench on a real server, a few presses of each kind."""

from __future__ import annotations

import pytest

from duet_trio.bench import abort


@pytest.mark.slow
@pytest.mark.parametrize("hang", [False, True])
async def test_presses_are_answered_once_and_nothing_follows(hang: bool) -> None:
    figures = await abort.measure(abort.AbortOptions(aborts=6, boards=2, hang=hang, seed=1))
    assert figures["abort_ms"]["count"] == figures["echo_ms"]["count"] == 6
    assert 0 < figures["abort_ms"]["median"] < 200
    assert figures["late_packets"] == figures["extra_stops"] == 0
    assert "abort → tts stop" in abort.report(figures)
