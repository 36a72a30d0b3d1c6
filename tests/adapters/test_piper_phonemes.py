"""gruut's phonemes in eSpeak's convention, and text that gruut would drop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.engines.adapters.piper_phonemes import (
    espeak_word,
    phoneme_ids,
    phonemes_of,
    plain_english,
)


@pytest.mark.parametrize(
    ("text", "gruut", "espeak"),
    [
        ("three", ["θ", "ɹ", "ˈi"], "θɹˈiː"),
        ("happy", ["h", "ˈæ", "p", "i"], "hˈæpi"),
        ("you", ["j", "ˈu"], "juː"),
        ("bird", ["b", "ˈɚ", "d"], "bˈɜːd"),
        ("hurry", ["h", "ˈɚ", "i"], "hˈɜːɹi"),
        ("every", ["ˈɛ", "v", "ɚ", "i"], "ˈɛvəɹi"),
        ("water", ["w", "ˈɔ", "t", "ɚ"], "wˈɔːɾɚ"),
        ("party", ["p", "ˈɑ", "ɹ", "t", "i"], "pˈɑːɹɾi"),
        ("hotel", ["h", "oʊ", "t", "ˈɛ", "l"], "hoʊtˈɛl"),  # before stress nothing is tapped
        ("top", ["t", "ˈɑ", "p"], "tˈɑːp"),
        ("judge", ["d͡ʒ", "ˈʌ", "d͡ʒ"], "dʒˈʌdʒ"),
        ("and", ["ˈæ", "n", "d"], "ænd"),
    ],
)
def test_a_word_is_written_as_espeak_would(text: str, gruut: list[str], espeak: str) -> None:
    assert espeak_word(text, gruut) == espeak


def test_breaks_keep_their_sign_and_nothing_but_signs_is_silence() -> None:
    words = [("yes", ["j", "ˈɛ", "s"]), (",", ["|"]), ("no", ["n", "ˈoʊ"]), ("?", ["‖"])]
    assert phonemes_of(words) == "jˈɛs, nˈoʊ?"
    assert phonemes_of([("…", ["|"]), ("no", ["n", "ˈoʊ"]), ("…", ["|"])]) == "nˈoʊ,"
    assert phonemes_of([("(", []), ("no", ["n", "ˈoʊ"]), ("x", ["‖"]), ("!", ["‖"])]) == "nˈoʊ."
    assert phonemes_of([("...", ["|"]), (".", ["‖"])]) == ""


def test_ids_are_padded_and_unknown_symbols_left_out() -> None:
    table = {"_": [0], "^": [1], "$": [2], "a": [7], "b": [8, 9]}
    assert phoneme_ids("a?b", table) == [1, 0, 7, 0, 8, 9, 0, 2]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Ｈｅｌｌｏ café wörld", "Hello cafe world"),
        ("it’s -5°C", "it's minus 5 degrees Celsius"),
        ("3-4 well-known", "3-4 well-known"),
        ("1/2 & more", "1 over 2  and  more"),
        ("wait — what…", "wait ,  what, "),
    ],
)
def test_signs_that_the_lexicon_drops_are_written_out(text: str, plain: str) -> None:
    assert plain_english(text) == plain


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_becomes_something_without_accents(text: str) -> None:
    import unicodedata

    assert not any(unicodedata.combining(char) for char in plain_english(text))
