"""History: what was heard, in a form every chat template takes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.speech.history import INTERRUPTED, History, estimate_tokens, heard_text


def test_turns_in_order() -> None:
    history = History("Be kind.", 1000)
    history.heard("One?", "First.", interrupted=False)
    assert history.messages("Two?") == [
        ("system", "Be kind."),
        ("user", "One?"),
        ("assistant", "First."),
        ("user", "Two?"),
    ]
    assert history.last_answer == "First."


def test_an_interrupted_answer_is_marked_and_an_unheard_one_leaves_only_its_question() -> None:
    history = History("", 1000)
    history.heard("One?", "First half", interrupted=True)
    history.heard("Two?", "", interrupted=True)
    history.heard("Three?", "  ", interrupted=True)
    assert history.messages("Four?") == [
        ("user", "One?"),
        ("assistant", "First half" + INTERRUPTED),
        ("user", "Two?\nThree?\nFour?"),
    ]
    assert history.last_answer == ""


def test_whole_turns_are_trimmed_and_the_system_prompt_stays() -> None:
    history = History("S" * 400, 300)
    for number in range(200):
        history.heard(f"question {number} " + "q" * 100, "a" * 100, interrupted=False)
    lines = history.messages("last?")
    assert lines[0] == ("system", "S" * 400)
    assert [role for role, _ in lines[1:]] == ["user", "assistant"] * 3 + ["user"]
    assert lines[-3][1].startswith("question 199")
    history.clear()
    assert len(history.messages("x")) == 2


def test_a_question_too_long_for_everything_still_stands() -> None:
    history = History("System.", 10)
    history.heard("a", "b", interrupted=False)
    assert history.messages("q" * 500) == [("system", "System."), ("user", "q" * 500)]


def test_token_estimate() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("你好ab") == 3


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], ""),
        ([("One.", 10, 10), (" Two three.", 20, 10)], "One. Two"),
        ([("One.", 10, 10), (" Two.", 10, 0)], "One."),
        ([("One.", 10, 0), (" Two.", 10, 0)], ""),
        ([("One two three four.", 10, 1)], ""),
        ([("One two three four.", 10, 5)], "One two"),
        ([("One two three four.", 10, 12)], "One two three four."),
        ([("你好我是小智", 6, 3)], "你好我"),
        ([("One.", 0, 0), (" Two.", 10, 10)], ""),
        ([("Hello there", 10, 9), (" never", 10, 10)], "Hello"),
    ],
)
def test_heard_text(pieces: list[tuple[str, int, int]], expected: str) -> None:
    assert heard_text(pieces) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.text(st.sampled_from("ab 字."), max_size=30), st.integers(1, 40))),
    st.integers(0, 200),
)
def test_what_is_heard_grows_with_what_is_played_and_ends_at_word_borders(
    pieces: list[tuple[str, int]], played: int
) -> None:
    whole = "".join(text for text, _ in pieces)

    def heard(packets: int) -> str:
        rows = []
        for text, total in pieces:
            rows.append((text, total, min(total, packets)))
            packets = max(0, packets - total)
        return heard_text(rows)

    got = heard(played)
    assert whole.strip().startswith(got)
    assert len(got) <= len(heard(played + 1))
    assert heard(10_000) == whole.strip()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20), st.booleans()), max_size=12),
    st.integers(0, 120),
    st.sampled_from(["", "System prompt."]),
)
def test_prompts_always_have_the_form_that_templates_want(
    turns: list[tuple[str, str, bool]], limit: int, system: str
) -> None:
    history = History(system, limit)
    for turn in turns:
        history.heard(*turn)
    lines = history.messages("now?")
    roles = [role for role, _ in lines]
    if system:
        assert roles.pop(0) == "system"
    assert "system" not in roles
    assert roles[-1] == "user"
    assert all(a != b for a, b in pairwise(roles))
    assert all(content.strip() for _, content in lines)
    assert lines[-1][1].endswith("now?")
