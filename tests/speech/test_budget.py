"""The budget: sizes, what it learns, and that its rule keeps a voice from running dry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.config import load
from duet_trio.server.assembly import first_estimates
from duet_trio.speech.budget import Budget, Estimates
from duet_trio.speech.measure import speakable, speech_units
from duet_trio.speech.pieces import PieceMaker

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


STORY = " ".join(
    [
        "Once there was a small fox who lived by the sea.",
        "Every morning she walked along the beach, looked at the waves, and counted the boats.",
        "Oh!",
        "One day there was a boat that she had never seen before, and it was painted red.",
        "It had no sails.",
        "She went closer, because she was curious, and found an old man asleep in it.",
        "Hello, she said.",
        "He woke up, rubbed his eyes, and smiled as if he had waited for her all his life.",
    ]
    * 3
)


def play(factor: float, first_block_s: float, tokens_per_s: float) -> tuple[float, float]:
    """Turns at constant speeds: gives first audio and the seconds the board had nothing."""
    estimates = Estimates(
        real_time_factor=factor, first_block_s=first_block_s, tokens_per_s=tokens_per_s
    )
    maker = PieceMaker(Budget(estimates))
    tokens = iter([STORY[i : i + 4] for i in range(0, len(STORY), 4)])
    now = stalled_s = 0.0
    first_audio_s: float | None = None
    plays_until = 0.0
    while True:
        began, count = now, 0
        while not maker.ready:
            token = next(tokens, None)
            if token is None:
                maker.finish()
                break
            now += 1 / tokens_per_s
            count += 1
            maker.feed(token, audio_ahead_s=max(0.0, plays_until - now))
        estimates.wrote(tokens=count, characters=4 * count, seconds=now - began)
        piece = maker.take()
        if piece is None:
            assert first_audio_s is not None
            return first_audio_s, stalled_s
        audio_s = speech_units(piece.text) * 0.06
        block_at = now + first_block_s
        if first_audio_s is None:
            first_audio_s = plays_until = block_at
        stalled_s += max(0.0, block_at - plays_until)
        plays_until = max(plays_until, block_at) + audio_s
        total_s = max(first_block_s, factor * audio_s)
        now += total_s
        estimates.spoke(piece.text, audio_s=audio_s, first_block_s=first_block_s, total_s=total_s)


@pytest.mark.parametrize(
    ("factor", "tokens_per_s"),
    [(0.3, 30), (0.6, 30), (0.75, 30), (0.6, 63), (0.75, 63), (0.87, 63)],
)
@pytest.mark.parametrize("first_block_s", [0.2, 0.5])
def test_an_answer_in_turns_never_runs_dry_at_the_reference_speeds(
    factor: float, first_block_s: float, tokens_per_s: float
) -> None:
    first_audio_s, stalled_s = play(factor, first_block_s, tokens_per_s)
    assert stalled_s == 0
    assert first_audio_s < first_block_s + 35 / tokens_per_s


def test_the_first_piece_of_a_fast_voice_may_be_a_clause() -> None:
    clause = "Well, that is quite a long story,"
    slow = Budget(Estimates(real_time_factor=0.6, first_block_s=0.2))
    fast = Budget(Estimates(real_time_factor=0.1, first_block_s=0.2))
    assert not slow.enough(clause, at="clause", first=True)
    assert fast.enough(clause, at="clause", first=True)
    assert not fast.enough("Well,", at="clause", first=True)


@pytest.mark.parametrize(
    "text",
    [
        "There was a little robot who lived all alone in a very big house by the sea and went out"
        " every morning to look for shells that the storm of the night had left on the beach. Then",
        "the " * 80,
        "x" * 300,
        "\u5b57" * 90,
    ],
)
def test_the_first_piece_of_a_fast_voice_is_short_whatever_is_written(text: str) -> None:
    maker = PieceMaker(Budget(Estimates(real_time_factor=0.2)))
    for letter in text:
        maker.feed(letter)
    maker.finish()
    lengths = []
    while (piece := maker.take()) is not None:
        lengths.append(speech_units(piece.text))
    assert 60 <= lengths[0] <= 121  # 7 s of speech (and a space)
    assert len(lengths) > 1


def test_the_demo_voice_is_taken_for_fast_before_it_has_spoken() -> None:
    estimates = first_estimates(load(None, ["tts.engine=piper"]))
    text = "Eloquefy, a humble little robot named Elo, has been a loyal companion to the team."
    maker = PieceMaker(Budget(estimates))
    maker.feed(text)
    piece = maker.take()
    assert piece is not None
    assert piece.text == "Eloquefy, a humble little robot named Elo,"
    slow = first_estimates(load(None, ["tts.engine=qwen"]))
    assert slow.real_time_factor == Estimates().real_time_factor
