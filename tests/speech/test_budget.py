"""The budget: sizes, what it learns, and that its rule keeps a voice from running dry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.speech.budget import Budget, Estimates
from duet_trio.speech.measure import speakable, speech_units

SENTENCE = "This is a sentence that has more than fifty letters in it."


def test_a_short_sentence_is_joined_however_much_is_ahead() -> None:
    budget = Budget(Estimates())
    assert not budget.enough("Yes.", at="sentence", first=True)
    assert not budget.enough("Yes.", at="sentence", first=False, audio_ahead_s=10)


def test_a_whole_first_sentence_is_enough_and_a_clause_is_not() -> None:
    budget = Budget(Estimates())
    assert budget.enough(SENTENCE, at="sentence", first=True)
    assert not budget.enough(SENTENCE + " Then,", at="clause", first=True)
    assert budget.enough(SENTENCE * 3, at="clause", first=True)
    assert budget.enough(SENTENCE + " Then,", at="clause", first=False)


def test_audio_ahead_makes_shorter_pieces_possible() -> None:
    budget = Budget(Estimates())
    text = "This has thirty letters in it."
    assert not budget.enough(text, at="sentence", first=False)
    assert budget.enough(text, at="sentence", first=False, audio_ahead_s=2)


def test_a_slow_writer_needs_longer_pieces() -> None:
    quick, slow = Estimates(real_time_factor=0.5), Estimates(real_time_factor=0.5, hold_s=1.5)
    text = "This has thirty letters in it."
    assert Budget(quick).enough(text, at="sentence", first=True)
    assert not Budget(slow).enough(text, at="sentence", first=True)
    assert Budget(slow).enough(SENTENCE * 2, at="sentence", first=True)


def test_a_voice_slower_than_real_time_does_not_wait_for_ever() -> None:
    budget = Budget(Estimates(real_time_factor=1.3))
    assert budget.enough("This has thirty letters in it.", at="sentence", first=True)
    assert not budget.enough("Yes.", at="sentence", first=True)


def test_start_hold_covers_what_the_piece_does_not() -> None:
    budget = Budget(Estimates())
    assert budget.start_hold_s(SENTENCE * 2, limit_s=0.3) == 0
    held = budget.start_hold_s("This has thirty letters in it.", limit_s=0.3)
    assert 0 < held < 0.3
    slow = Budget(Estimates(real_time_factor=1.3))
    assert slow.start_hold_s("Hello there.", limit_s=0.3) == 0.3
    assert slow.start_hold_s("Hello there.", limit_s=0) == 0


def test_chinese_is_measured_by_its_sound() -> None:
    assert speech_units("你好") == 8
    assert speech_units("1984") == 12
    assert speech_units("Hello") == 5
    assert Estimates().audio_s("你好吗") == pytest.approx(0.72)
    assert not speakable("… !")
    assert speakable("字")


def test_estimates_follow_measurements() -> None:
    estimates = Estimates()
    for _ in range(40):
        estimates.spoke(SENTENCE, audio_s=5.8, first_block_s=0.2, total_s=2.9)
        estimates.wrote(tokens=20, characters=90, seconds=1.0)
    assert estimates.seconds_per_unit == pytest.approx(5.8 / len(SENTENCE), rel=1e-3)
    assert estimates.characters_per_s == pytest.approx(len(SENTENCE) / 5.8, rel=1e-3)
    assert estimates.first_block_s == pytest.approx(0.2, rel=1e-3)
    assert estimates.real_time_factor == pytest.approx(0.5, rel=1e-3)
    assert estimates.tokens_per_s == pytest.approx(20, rel=1e-3)
    assert estimates.characters_per_token == pytest.approx(4.5, rel=1e-3)
    assert estimates.hold_s == pytest.approx(1.0, rel=1e-2)


def test_uneven_holds_are_given_a_margin() -> None:
    even, uneven = Estimates(), Estimates()
    for index in range(40):
        even.wrote(tokens=20, characters=80, seconds=0.5)
        uneven.wrote(tokens=20, characters=80, seconds=0.2 if index % 2 else 0.8)
    assert uneven.hold_s > even.hold_s + 0.1


def test_failed_pieces_and_empty_holds_teach_nothing() -> None:
    estimates = Estimates()
    before = vars(estimates).copy()
    estimates.spoke(SENTENCE, audio_s=0, first_block_s=5, total_s=5)
    estimates.spoke("", audio_s=3, first_block_s=5, total_s=5)
    estimates.wrote(tokens=0, characters=0, seconds=9)
    assert vars(estimates) == before


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 250),
    st.floats(0.1, 0.95),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.floats(0, 8),
)
def test_what_is_enough_does_cover_the_next_hold_and_first_block(
    letters: int, factor: float, first_s: float, hold_s: float, ahead_s: float
) -> None:
    estimates = Estimates(real_time_factor=factor, first_block_s=first_s, hold_s=hold_s)
    budget = Budget(estimates)
    text = "x" * letters
    if not budget.enough(text, at="sentence", first=False, audio_ahead_s=ahead_s):
        return
    # Play it: the first block at first_s, the whole audio made at the end of the synthesis.
    audio_s = estimates.audio_s(text)
    made_s = max(first_s, factor * audio_s)
    dry_s = first_s + audio_s + ahead_s
    next_first_block_s = made_s + estimates.hold_s + first_s
    longest = Estimates.audio_s(estimates, "x" * 100)
    helpless = longest - max(first_s, factor * longest) + first_s < estimates.hold_s + first_s
    assert helpless or dry_s >= next_first_block_s - 1e-9
