"""The pace: the lead is never exceeded, nothing bursts, nothing drifts."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.speech.pace import CATCH_UP_S, LEAST_GAP_S, PaceSchedule, Underruns

FRAME_S = 0.06
TINY_S = 1e-6


def run(
    ready: list[float], late: list[float], lead: int
) -> tuple[PaceSchedule, list[float], list[int]]:
    """Send every packet at its due time plus its lateness, never before the one before it.

    Gives the schedule, the times of sending, and how many packets an independent model of the
    board (plays from the first packet, each 60 ms, waits when it has none) holds after each.
    """
    pace = PaceSchedule(FRAME_S, lead=lead)
    times: list[float] = []
    ends: list[float] = []  # of playback of each packet, at the board
    held: list[int] = []
    now = -math.inf
    for ready_at, lateness in zip(ready, late, strict=True):
        now = max(pace.due(ready_at) + lateness, now)
        pace.sent(now)
        times.append(now)
        ends.append(max(now, ends[-1] if ends else now) + FRAME_S)
        held.append(sum(end > now + TINY_S for end in ends[-20:]))
        assert pace.playback_end(now) == pytest.approx(ends[-1])
        assert pace.played_packets(now) == pytest.approx(len(ends) - held[-1])
    return pace, times, held


ARRIVALS = st.lists(
    st.tuples(
        st.floats(0, 0.3) | st.just(0.0) | st.floats(0, 2),  # since the packet before
        st.just(0.0) | st.floats(0, 0.02) | st.floats(0, 0.5),  # lateness of the send
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(ARRIVALS, st.integers(1, 5))
def test_the_lead_is_never_exceeded_and_nothing_bursts(
    arrivals: list[tuple[float, float]], lead: int
) -> None:
    ready: list[float] = []
    for gap, _ in arrivals:
        ready.append((ready[-1] if ready else 100.0) + gap)
    pace, times, held = run(ready, [late for _, late in arrivals], lead)
    assert max(held) <= lead
    assert pace.sent_packets == len(arrivals)
    for time, ready_at in zip(times, ready, strict=True):
        assert time >= ready_at
    for number, (first, second) in enumerate(pairwise(times), start=1):
        if number >= lead:
            assert second - first >= LEAST_GAP_S - TINY_S


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 0.3) | st.just(0.0), min_size=1, max_size=60), st.integers(1, 5))
def test_sent_on_time_no_two_packets_are_within_50_ms(gaps: list[float], lead: int) -> None:
    ready = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    _, times, _ = run(ready, [0.0] * len(gaps), lead)
    for number, (first, second) in enumerate(pairwise(times), start=1):
        if number >= lead:
            assert second - first >= CATCH_UP_S - TINY_S


@settings(max_examples=100, deadline=None)
@given(ARRIVALS)
def test_underruns_are_what_the_board_suffers(arrivals: list[tuple[float, float]]) -> None:
    ready: list[float] = []
    for gap, _ in arrivals:
        ready.append((ready[-1] if ready else 0.0) + gap)
    pace, times, _ = run(ready, [late for _, late in arrivals], 3)
    dry = [0.0]
    end = times[0] + FRAME_S
    for time in times[1:]:
        dry.append(max(0.0, time - end))
        end = max(time, end) + FRAME_S
    assert pace.underruns.total_s == pytest.approx(sum(dry))
    assert pace.underruns.count == sum(gap > TINY_S for gap in dry)


def test_an_instant_voice_is_sent_by_the_clock() -> None:
    _, times, held = run([5.0] * 10, [0.0] * 10, 3)
    assert times == pytest.approx([5.0, 5.0, 5.0] + [5.0 + 0.06 * k for k in range(1, 8)])
    assert max(held) == 3


@pytest.mark.parametrize("lead", [2, 3])
def test_no_drift_over_ten_thousand_packets(lead: int) -> None:
    count = 10_000
    # Every send is late by up to 25 ms, every tenth by 45.
    late = [0.045 if k % 10 == 9 else (k * 7919 % 100) / 4000 for k in range(count)]
    pace, times, held = run([0.0] * count, late, lead)
    assert pace.underruns == Underruns()
    assert max(held) <= lead
    assert times[-1] == pytest.approx(late[0] + (count - lead) * FRAME_S, abs=lead * FRAME_S)
    assert pace.playback_end(0.0) == pytest.approx(late[0] + count * FRAME_S)


@pytest.mark.parametrize("lead", [2, 3])
def test_coarse_timers_do_not_run_the_board_dry(lead: int) -> None:
    tick_s = 1 / 64  # Windows
    pace = PaceSchedule(FRAME_S, lead=lead)
    now = 0.0
    for _ in range(5_000):
        now = max(now, math.ceil(pace.due(0.0) / tick_s) * tick_s)
        pace.sent(now)
    assert pace.underruns == Underruns()


def test_after_an_underrun_the_lead_grows_back_by_ten_ms_a_packet() -> None:
    pace = PaceSchedule(FRAME_S, lead=3)
    assert [pace.sent(pace.due(0.0)) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert pace.playback_end(0.0) == pytest.approx(0.18)
    late = pace.sent(pace.due(0.3))  # the fourth was not ready before
    assert late == pytest.approx(0.12)
    assert pace.underruns.count == 1
    assert pace.underruns.total_s == pytest.approx(0.12)
    assert pace.lead_packets(0.3) == 1
    now, gaps = 0.3, []
    for _ in range(14):
        due = pace.due(0.0)
        gaps.append(round(due - now, 6))
        now = due
        pace.sent(now)
    assert gaps[:12] == [0.05] * 12
    assert gaps[12:] == [0.06] * 2
    assert pace.lead_packets(now) == 3


def test_before_the_first_packet() -> None:
    pace = PaceSchedule(lead=2)
    assert pace.due(7.0) == 7.0
    assert pace.playback_end(7.0) == 7.0
    assert (pace.played_packets(7.0), pace.lead_packets(7.0), pace.sent_packets) == (0, 0, 0)


def test_played_packets_follow_the_clock() -> None:
    pace = PaceSchedule(lead=3)
    for _ in range(3):
        pace.sent(10.0)
    assert [pace.played_packets(10 + t) for t in (0, 0.059, 0.06, 0.12, 0.18, 9)] == [
        *(0, 0, 1, 2, 3, 3)
    ]
    assert pace.playback_end(20.0) == 20.0


@pytest.mark.parametrize(("frame_s", "lead"), [(0.06, 0), (0.02, 3)])
def test_impossible_schedules_are_refused(frame_s: float, lead: int) -> None:
    with pytest.raises(ValueError, match="lead"):
        PaceSchedule(frame_s, lead=lead)
