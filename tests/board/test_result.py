"""Figures of a conversation, and the pitch by which scripted answers are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from duet_trio import opus
from duet_trio.board.fingerprint import TONES, fingerprints, generation_of, tone_hz
from duet_trio.board.notebook import Notebook
from duet_trio.board.result import gaps
from duet_trio.wire.messages import (
    Alert,
    Emotion,
    SentenceStart,
    ServerMessage,
    Stt,
    TtsStart,
    TtsStop,
)


def tone(hz: float, seconds: float = 0.06) -> bytes:
    times = np.arange(round(24_000 * seconds)) / 24_000
    return (8000 * np.sin(2 * np.pi * hz * times)).astype("<i2").tobytes()


@pytest.mark.parametrize("hz", [300, 437.3, 1000, 2250])
def test_the_pitch_of_one_packet(hz: float) -> None:
    assert tone_hz(tone(hz)) == pytest.approx(hz, abs=1)


def test_silence_has_no_pitch() -> None:
    assert tone_hz(bytes(2880)) is None
    assert tone_hz(b"") is None
    assert generation_of(bytes(2880)) is None


@pytest.mark.parametrize("generation", range(TONES))
def test_every_generation_is_recognised_after_opus(generation: int) -> None:
    encoder, decoder = opus.Encoder(), opus.Decoder(24_000)
    sound = tone(300 + 50 * generation, 0.6)
    pcm = b"".join(decoder.decode(packet) for packet in encoder.packets(sound))
    assert set(fingerprints(pcm)[1:]) == {generation}


def test_other_pitches_are_no_generation() -> None:
    assert generation_of(tone(325)) is None
    assert generation_of(tone(150)) is None
    assert generation_of(tone(300 + 50 * TONES)) is None


def test_gaps() -> None:
    arrivals = [0.0, 0.06, 0.12, 0.20, 0.24]
    found = gaps(arrivals)
    assert found.count == 4
    assert found.mean_ms == pytest.approx(60)
    assert found.late_share == 0.25
    assert found.largest_ms == pytest.approx(80)
    assert found.p999_ms == pytest.approx(80, abs=0.1)
    assert gaps([1.0]).count == 0


def note(*messages: ServerMessage) -> Notebook:
    notebook = Notebook()
    notebook.asked("Hello", 1.0)
    for number, message in enumerate(messages):
        notebook.message(message, 2.0 + number)
    return notebook


def test_one_turn() -> None:
    notebook = note(
        Stt(text="hello"), Emotion(emotion="happy"), TtsStart(), SentenceStart(text="A.")
    )
    notebook.packet(6.0, played=True)
    notebook.packet(6.1, played=False)
    notebook.message(SentenceStart(text="B."), 6.2)
    notebook.message(Alert(status="Error", message="the voice failed", emotion="sad"), 6.3)
    notebook.message(TtsStop(), 7.0)
    [turn] = notebook.turns
    turn.question_end_s = 1.5
    assert (turn.transcript, turn.answer) == ("hello", "A. B.")
    assert (turn.stt_s, turn.tts_start_s, turn.first_packet_s, turn.tts_stop_s) == (2, 4, 6, 7)
    assert turn.first_audio_s == 4.5
    assert (turn.packets_played, len(turn.arrivals_s)) == (1, 2)
    assert (turn.alerts, turn.emotions) == (["the voice failed"], ["happy"])
    assert turn.over


def test_a_stop_that_ends_nothing_is_ignored() -> None:
    [turn] = note(TtsStop()).turns
    assert not turn.over


def test_an_abort_before_any_audio_is_ended_by_a_bare_stop() -> None:
    notebook = note(Stt(text="hello"))
    notebook.aborted(3.0)
    notebook.message(TtsStop(), 3.2)
    [turn] = notebook.turns
    assert turn.over
    assert turn.abort_to_stop_s == pytest.approx(0.2)


def test_the_stop_of_an_interrupted_answer_does_not_end_the_new_question() -> None:
    notebook = note(TtsStart())
    notebook.packet(2.5, played=True)
    notebook.aborted(3.0)
    asked = notebook.asked("New", 3.0)
    notebook.packet(3.05, played=False)
    notebook.message(TtsStop(), 3.1)
    notebook.packet(3.2, played=False)
    old = notebook.turns[0]
    assert old.over
    assert not asked.over
    assert (old.frames_after_abort, old.frames_after_stop) == (1, 1)
    notebook.message(TtsStart(), 4.0)
    notebook.packet(4.2, played=True)
    assert asked.first_packet_s == 4.2


def test_an_unasked_answer_is_a_turn_of_its_own() -> None:
    notebook = note(TtsStart(), TtsStop(), Stt(text="again"), TtsStart(), TtsStop())
    assert [turn.question for turn in notebook.turns] == ["Hello", ""]
    assert notebook.turns[1].transcript == "again"
