"""Endpoints in audio time. A letter stands for 32 ms: v voice, s silence, h half sure."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.config import VadSection
from duet_trio.speech.endpoint import (
    CHUNK_BYTES,
    CHUNK_MS,
    Discarded,
    Endpointer,
    Event,
    Speculate,
    SpeechResumed,
    SpeechStarted,
    Utterance,
)

PROBABILITY = {"v": 0.9, "s": 0.05, "h": 0.4}
SETTINGS = VadSection()


def chunk(number: int) -> bytes:
    """A chunk that can be told from the others."""
    return number.to_bytes(2, "little") * (CHUNK_BYTES // 2)


def numbers(pcm: bytes) -> list[int]:
    """The chunks that some PCM is made of."""
    assert len(pcm) % CHUNK_BYTES == 0
    return [int.from_bytes(pcm[i : i + 2], "little") for i in range(0, len(pcm), CHUNK_BYTES)]


def feed(endpointer: Endpointer, pattern: str) -> list[Event]:
    events: list[Event] = []
    for number, letter in enumerate(pattern):
        events += endpointer.feed(chunk(number), PROBABILITY[letter])
    return events


def run(pattern: str, settings: VadSection = SETTINGS, *, hold: bool = False) -> list[Event]:
    return feed(Endpointer(settings, hold=hold), pattern)


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_300_ms_word_is_an_utterance_with_its_pre_roll() -> None:
    events = run("s" * 40 + "v" * 9 + "s" * 30)
    assert kinds(events) == ["SpeechStarted", "Speculate", "Utterance"]
    utterance = events[2]
    assert isinstance(utterance, Utterance)
    assert utterance.speech_ms == 9 * CHUNK_MS
    assert utterance.endpoint_ms == pytest.approx(SETTINGS.endpoint_ms, abs=CHUNK_MS)
    assert not utterance.capped
    assert utterance.speculation_valid
    got = numbers(utterance.pcm)
    assert got == list(range(got[0], 40 + 9 + 19))
    assert (40 - got[0]) * CHUNK_MS == pytest.approx(SETTINGS.pre_roll_ms, abs=CHUNK_MS)


def test_speech_from_the_first_chunk_on_is_whole() -> None:
    utterance = run("v" * 20 + "s" * 20)[-1]
    assert isinstance(utterance, Utterance)
    assert numbers(utterance.pcm)[0] == 0


def test_pauses_shorter_than_the_endpoint_do_not_cut() -> None:
    events = run("v" * 10 + "s" * 17 + "v" * 10 + "s" * 17 + "v" * 5 + "s" * 25)
    pause = ["Speculate", "SpeechResumed"]
    assert kinds(events) == ["SpeechStarted", *pause, *pause, "Speculate", "Utterance"]
    utterance = events[-1]
    assert isinstance(utterance, Utterance)
    assert utterance.speech_ms == 25 * CHUNK_MS
    assert utterance.speculation_valid


def test_the_recogniser_is_asked_at_most_three_times_before_the_end() -> None:
    events = run(("v" * 10 + "s" * 10) * 5 + "s" * 20)
    assert kinds(events).count("Speculate") == 3
    utterance = events[-1]
    assert isinstance(utterance, Utterance)
    assert not utterance.speculation_valid


def test_speculation_has_the_audio_up_to_its_silence() -> None:
    events = run("v" * 10 + "s" * 25)
    speculate, utterance = events[1], events[2]
    assert isinstance(speculate, Speculate)
    assert isinstance(utterance, Utterance)
    assert numbers(speculate.pcm) == list(range(17))  # 10 + 200 ms
    assert utterance.pcm.startswith(speculate.pcm)


def test_no_speculation_when_it_is_switched_off() -> None:
    assert kinds(run("v" * 10 + "s" * 25, VadSection(speculate_ms=0))) == [
        *("SpeechStarted", "Utterance")
    ]


def test_a_click_is_discarded_and_does_not_delay_the_next_word() -> None:
    assert run("sss" + "v" * 2 + "s" * 12) == [Discarded("click")]
    events = run("sss" + "v" * 2 + "s" * 10 + "v" * 9 + "s" * 20)
    assert kinds(events) == ["Discarded", "SpeechStarted", "Speculate", "Utterance"]
    utterance = events[-1]
    assert isinstance(utterance, Utterance)
    assert utterance.speech_ms == 9 * CHUNK_MS
    assert numbers(utterance.pcm)[0] == 0  # the click is its pre-roll


def test_clicks_far_apart_never_add_up_to_speech() -> None:
    assert set(kinds(run(("v" * 2 + "s" * 15) * 10))) == {"Discarded"}


def test_hysteresis_keeps_a_weak_syllable_but_starts_nothing() -> None:
    assert run("h" * 100) == []
    utterance = run("v" * 5 + "h" * 30 + "s" * 20)[-1]
    assert isinstance(utterance, Utterance)
    assert utterance.speech_ms == 35 * CHUNK_MS


def test_babble_is_cut_at_the_cap_again_and_again() -> None:
    events = run("v" * 1900)  # a minute
    utterances = [event for event in events if isinstance(event, Utterance)]
    assert len(utterances) == 3
    assert all(u.capped and not u.speculation_valid for u in utterances)
    joined = numbers(b"".join(u.pcm for u in utterances))
    assert joined == list(range(len(joined)))  # nothing lost between them


def test_silence_says_nothing() -> None:
    assert run("s" * 1000) == []


def test_while_the_button_is_held_nothing_ends_but_by_flush() -> None:
    endpointer = Endpointer(SETTINGS, hold=True)
    assert kinds(feed(endpointer, "s" * 5 + "v" * 10 + "s" * 100 + "v" * 4 + "s" * 3)) == [
        "SpeechStarted"
    ]
    (utterance,) = endpointer.flush()
    assert isinstance(utterance, Utterance)
    assert numbers(utterance.pcm) == list(range(122))
    assert utterance.speech_ms == 14 * CHUNK_MS
    assert endpointer.flush() == [Discarded("no speech")]


def test_the_cap_ends_a_held_button_too() -> None:
    events = run("v" * 10 + "s" * 700, hold=True)
    assert kinds(events) == ["SpeechStarted", "Utterance"]
    assert isinstance(events[1], Utterance)
    assert events[1].capped


def test_flush_ends_what_there_is() -> None:
    endpointer = Endpointer(SETTINGS)
    feed(endpointer, "v" * 10 + "s" * 8)
    state = [endpointer.in_speech]
    (utterance,) = endpointer.flush()
    assert isinstance(utterance, Utterance)
    assert utterance.endpoint_ms == 8 * CHUNK_MS
    assert utterance.speculation_valid
    state.append(endpointer.in_speech)
    assert state == [True, False]
    feed(endpointer, "v")
    assert endpointer.speech_ms == CHUNK_MS
    assert endpointer.flush() == [Discarded("click")]


def test_reset_forgets_everything_and_changes_the_mode() -> None:
    endpointer = Endpointer(SETTINGS)
    feed(endpointer, "s" * 5 + "v" * 10)
    endpointer.reset(hold=True)
    assert endpointer.speech_ms == 0
    assert endpointer.flush() == [Discarded("no speech")]
    assert kinds(feed(endpointer, "v" * 10 + "s" * 60)) == ["SpeechStarted"]
    (utterance,) = endpointer.flush()
    assert isinstance(utterance, Utterance)
    assert numbers(utterance.pcm) == list(range(70))


def test_a_board_may_have_its_own_endpoint() -> None:
    endpointer = Endpointer(SETTINGS, endpoint_ms=1500)
    assert "Utterance" not in kinds(feed(endpointer, "v" * 10 + "s" * 40))
    assert "Utterance" in kinds(feed(endpointer, "s" * 10))


@settings(max_examples=200, deadline=None)
@given(st.text("vvvsssh", max_size=40).map(lambda p: "".join(c * 4 for c in p)), st.booleans())
def test_events_are_well_ordered_for_any_audio(pattern: str, hold: bool) -> None:
    endpointer = Endpointer(VadSection(max_utterance_s=2), hold=hold)
    events = feed(endpointer, pattern)
    events += endpointer.flush()
    started = speculated = False
    ends: list[int] = []
    for event in events:
        if isinstance(event, SpeechStarted):
            assert not started
            started = True
        elif isinstance(event, Speculate):
            assert started
            assert not speculated
            speculated = True
        elif isinstance(event, SpeechResumed):
            assert speculated
            speculated = False
        elif isinstance(event, Utterance):
            assert started
            assert event.speech_ms >= VadSection().min_speech_ms
            got = numbers(event.pcm)
            assert got == list(range(got[0], got[-1] + 1))
            ends.append(got[-1])
            started = speculated = False
        else:
            assert not started
    assert ends == sorted(set(ends))
    voiced = max((len(list(run)) for key, run in groupby(pattern) if key == "v"), default=0)
    if voiced * CHUNK_MS >= VadSection().min_speech_ms:
        assert any(isinstance(event, Utterance) for event in events)
