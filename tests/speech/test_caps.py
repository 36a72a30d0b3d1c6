"""Caps on audio leave honest speech alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.speech.budget import MAX_UNITS
from duet_trio.speech.caps import audio_cap_s, is_absurdly_short
from duet_trio.speech.measure import SECONDS_PER_UNIT, speech_units


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(categories=["L", "Nd", "Zs", "Po"]), min_size=1, max_size=250))
def test_the_cap_is_more_than_twice_normal_speech(text: str) -> None:
    units = speech_units(text)
    if units <= MAX_UNITS:
        assert audio_cap_s(text) > 2 * units * SECONDS_PER_UNIT
    assert 3.2 <= audio_cap_s(text) <= 32.0


def test_known_values() -> None:
    assert audio_cap_s("1次") == pytest.approx((12 + 3 * 7) * 0.08 if 12 + 21 > 40 else 3.2)
    assert audio_cap_s("x" * 100) == pytest.approx(312 * 0.08)
    assert audio_cap_s("x" * 250) == 32.0


@pytest.mark.parametrize(
    ("text", "audio_s", "short"),
    [
        ("Hello there.", 0.0, True),
        ("Hello there.", 0.08, True),
        ("Hello there.", 0.72, False),
        ("Hi", 0.12, False),
        ("A", 0.0, True),
        ("A", 0.06, False),
        ("…", 0.0, False),
        ("你好", 0.05, True),
        ("你好", 0.4, False),
    ],
)
def test_absurdly_short(text: str, audio_s: float, short: bool) -> None:
    assert is_absurdly_short(text, audio_s) is short
