"""Faces for emoji."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duet_trio.wire.emotions import EMOJI, EMOTIONS, emotion_of


def test_the_names_that_boards_can_draw() -> None:
    assert set(EMOTIONS) == {
        "neutral", "happy", "laughing", "funny", "sad", "angry", "crying", "loving",
        "embarrassed", "surprised", "shocked", "thinking", "winking", "cool", "relaxed",
        "delicious", "kissy", "confident", "sleepy", "silly", "confused",
    }  # fmt: skip
    assert len(EMOTIONS) == 21


@pytest.mark.parametrize("name", EMOTIONS)
def test_each_emotion_is_found_by_its_emoji_and_its_name(name: str) -> None:
    assert emotion_of(EMOJI[name]) == name
    assert emotion_of(f" {name.upper()} ") == name


@pytest.mark.parametrize(
    ("text", "emotion"),
    [
        ("Well 😭, then 🙂", "crying"),
        ("❤️ you", "loving"),
        ("👍🏽", "happy"),
        ("🐙 then 😎", "cool"),
        ("🐙", None),
        ("I am sad", None),
        ("", None),
    ],
)
def test_the_first_known_emoji_counts(text: str, emotion: str | None) -> None:
    assert emotion_of(text) == emotion


@given(st.text())
def test_any_text_gives_a_drawable_face_or_none(text: str) -> None:
    assert emotion_of(text) in {None, *EMOTIONS}
