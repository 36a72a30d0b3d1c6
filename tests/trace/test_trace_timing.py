"""The arithmetic of playback against a player that moves millisecond by millisecond."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.trace.timing import Distribution, playback, stalls, start_delay

Blocks = list[tuple[int, int]]  # (arrival, audio), both in whole milliseconds


@st.composite
def arrival_lists(draw: st.DrawFn) -> Blocks:
    now = draw(st.integers(0, 500))
    blocks = []
    for _ in range(draw(st.integers(0, 12))):
        blocks.append((now, draw(st.sampled_from((0, 1, 7, 20, 60, 190, 320, 1000)))))
        now += draw(st.sampled_from((0, 1, 5, 60, 61, 190, 400, 1500)))
    return blocks


def in_seconds(blocks: Blocks) -> list[tuple[float, float]]:
    return [(t / 1000, audio / 1000) for t, audio in blocks]


def play_stepwise(blocks: Blocks, buffer_ms: int) -> list[tuple[int, int]]:
    """Play a millisecond at a time; return the stalls as (at, duration) in ms."""
    audible = [block for block in blocks if block[1] > 0]
    if not audible:
        return []
    left = sum(audio for _, audio in audible)
    waiting = list(audible)
    buffered = 0
    found: list[tuple[int, int]] = []
    dry_since: int | None = None
    now = audible[0][0]
    begin = now + buffer_ms
    while left:
        while waiting and waiting[0][0] <= now:
            buffered += waiting.pop(0)[1]
        if now >= begin:
            if buffered:
                if dry_since is not None:
                    found.append((dry_since, now - dry_since))
                    dry_since = None
                buffered -= 1
                left -= 1
            elif dry_since is None:
                dry_since = now
        now += 1
    return found


@given(arrival_lists(), st.sampled_from((0, 1, 60, 180, 300, 500)))
@settings(max_examples=300, deadline=None)
def test_stalls_equal_those_of_a_stepwise_player(blocks: Blocks, buffer_ms: int) -> None:
    found = [
        (round(one.at * 1000), round(one.duration_s * 1000))
        for one in stalls(in_seconds(blocks), buffer_ms / 1000)
    ]
    assert found == play_stepwise(blocks, buffer_ms)


@given(arrival_lists())
@settings(max_examples=200, deadline=None)
def test_start_delay_is_the_smallest_wait_without_a_stall(blocks: Blocks) -> None:
    delay_ms = round(start_delay(in_seconds(blocks)) * 1000)
    assert play_stepwise(blocks, delay_ms) == []
    if delay_ms:
        assert play_stepwise(blocks, delay_ms - 1) != []


@given(arrival_lists(), st.floats(0, 2))
@settings(max_examples=200, deadline=None)
def test_stalls_and_start_delay_are_two_views_of_the_same(blocks: Blocks, buffer_s: float) -> None:
    arrivals = in_seconds(blocks)
    total = sum(one.duration_s for one in stalls(arrivals, buffer_s))
    expected = max(0.0, start_delay(arrivals) - buffer_s)
    assert total == pytest.approx(expected, abs=1e-4)


@given(arrival_lists())
@settings(max_examples=100, deadline=None)
def test_everything_that_arrived_is_played_once(blocks: Blocks) -> None:
    spans = playback(in_seconds(blocks))
    played = sum(span.end - span.start for span in spans)
    assert played == pytest.approx(sum(audio for _, audio in blocks) / 1000)
    assert all(a.end < b.start for a, b in itertools.pairwise(spans))


def test_a_silence_after_the_last_block_is_no_stall() -> None:
    assert stalls([(0.0, 0.1)], 0.0) == []
    assert stalls([(0.0, 0.1), (5.0, 0.0)], 0.0) == []


def test_the_burst_of_the_first_block_does_not_hide_a_gap() -> None:
    """1.0 s at once, the next block 1.4 s later: a player with 0.3 s stalls for 0.1 s."""
    (stall,) = stalls([(10.0, 1.0), (11.4, 0.5)], 0.3)
    assert stall.at == pytest.approx(11.3)
    assert stall.duration_s == pytest.approx(0.1)
    assert start_delay([(10.0, 1.0), (11.4, 0.5)]) == pytest.approx(0.4)


@given(st.lists(st.floats(0, 1e4, allow_nan=False), min_size=1, max_size=200), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_quantiles_are_within_half_a_percent(values: list[float], share: float) -> None:
    ordered = sorted(values)
    rank = max(1, math.ceil(share * len(values) - 1e-9))
    found = Distribution(values).quantile(share)
    assert found == pytest.approx(ordered[rank - 1], rel=0.006, abs=1e-12)


@given(st.lists(st.floats(0, 100), max_size=50), st.lists(st.floats(0, 100), max_size=50))
@settings(max_examples=50, deadline=None)
def test_merged_distributions_equal_one_of_all_values(
    left: list[float], right: list[float]
) -> None:
    merged = Distribution(left)
    merged.merge(Distribution(right))
    whole = Distribution(left + right)
    for share in (0.0, 0.5, 0.99, 1.0):
        assert merged.quantile(share) == whole.quantile(share)
    assert merged.count == whole.count
    assert merged.mean == (None if whole.mean is None else pytest.approx(whole.mean))
