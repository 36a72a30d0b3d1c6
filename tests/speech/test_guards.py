"""Which transcripts are turns; the half-duplex gate."""

from __future__ import annotations

import pytest

from duet_trio.speech.echo_gate import GUARD_S, HalfDuplex
from duet_trio.speech.guards import is_echo, why_no_turn


@pytest.mark.parametrize(
    "text",
    [
        *("Thank you.", "Yes", "no no no no", "你好", "What is 2+2?", "Bye!", "Turn it off", "5"),
        "ha ha ha ha",
        "Tell me (briefly) what a fox is.",
    ],
)
def test_what_people_say_is_a_turn(text: str) -> None:
    assert why_no_turn(text, speech_ms=900, level_dbfs=-25) is None


def test_a_short_yes_is_a_turn() -> None:
    assert why_no_turn("Yes.", speech_ms=160, level_dbfs=-35, no_speech_probability=0.2) is None


@pytest.mark.parametrize(
    ("text", "figures", "reason"),
    [
        ("", {}, "nothing"),
        (" . … ", {}, "nothing"),
        ("[Music]", {}, "sound"),
        ("(coughs) (laughs)", {}, "sound"),
        ("♪ la la la ♪", {}, "sound"),
        ("（音楽）", {}, "sound"),
        ("Hello", {"level_dbfs": -90}, "silence"),
        ("Hello", {"no_speech_probability": 0.9, "mean_log_probability": -1.3}, "doubts"),
        ("so so so", {"compression_ratio": 3.1}, "over and over"),
        ("you " * 12, {"speech_ms": 4000}, "over and over"),
        ("I am going to " * 8, {"speech_ms": 20000}, "over and over"),
        ("谢谢" * 10, {"speech_ms": 9000}, "over and over"),
        ("Do not forget to like this video and subscribe", {"speech_ms": 130}, "more text"),
        ("Thanks for watching!", {"speech_ms": 200}, "invent"),
        ("MBC 뉴스", {"speech_ms": 100, "level_dbfs": -90}, "silence"),
        ("MBC news.", {"no_speech_probability": 0.5}, "invent"),
        ("Thank you.", {"level_dbfs": -50}, "invent"),
        ("ご視聴ありがとうございました", {"mean_log_probability": -0.9}, "invent"),
    ],
)
def test_what_recognisers_make_of_nothing_is_not(
    text: str, figures: dict[str, float], reason: str
) -> None:
    why = why_no_turn(text, **{"speech_ms": 1500.0, "level_dbfs": -25.0, **figures})
    assert why is not None
    assert reason in why


OWN = "There was a small fox. It lived by the sea, and it liked the winter best."


@pytest.mark.parametrize(
    ("heard", "echo"),
    [
        ("It lived by the sea", True),
        ("it lived by a sea and liked the winter best", True),
        ("there was a small box it lived by the sea", True),
        ("Where did the fox live?", False),
        ("the fox", False),
        ("stop", False),
        ("Tell me about the sea in winter please", False),
        ("", False),
    ],
)
def test_echo_of_own_speech(heard: str, echo: bool) -> None:
    assert is_echo(heard, OWN) is echo


def test_echo_in_a_script_without_spaces() -> None:
    own = "从前有一只小狐狸住在海边，它最喜欢冬天。"
    assert is_echo("一只小狐狸住在海边", own)
    assert not is_echo("小狐狸", own)
    assert not is_echo("请给我讲一个新的故事", own)
    assert not is_echo("hello there friend", "")


def test_half_duplex_opens_after_playback_and_a_guard() -> None:
    gate = HalfDuplex()
    assert gate.is_open(0.0)
    gate.close()
    assert not gate.is_open(1e9)
    gate.open_after(10.0)
    assert not gate.is_open(10.0 + GUARD_S - 0.001)
    assert gate.opens_at == 10.0 + GUARD_S
    assert gate.is_open(10.0 + GUARD_S)
