"""Which sentences want to go on."""

from __future__ import annotations

import pytest

from duet_trio.speech.unfinished import is_unfinished


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("My favorite color is...", "en"),
        ("I would like a", "en"),
        ("Tell me about the.", "en-US"),
        ("First we go home, and", ""),
        ("First we go home,", ""),
        ("Ich möchte ein", "de"),
        ("我想要，", "zh"),
    ],
)
def test_goes_on(text: str, language: str) -> None:
    assert is_unfinished(text, language or "en")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("Yes.", "en"),
        ("A", "en"),
        ("The?", "en"),
        ("Yes, it is.", "en"),
        ("What is it about?", "en"),
        ("What do you mean by the?", "en"),
        ("I would like a", "fr"),
        ("Is it the", ""),
        ("今天天气怎么样", "zh"),
    ],
)
def test_is_complete(text: str, language: str) -> None:
    assert not is_unfinished(text, language)
