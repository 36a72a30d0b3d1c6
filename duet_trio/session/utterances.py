"""From the endpointer's decisions to the recogniser: what becomes of an utterance."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from duet_trio.events import Recorder
from duet_trio.session.recognition import Recognition, Speech
from duet_trio.speech.endpoint import (
    Discarded,
    Event,
    Speculate,
    SpeechResumed,
    SpeechStarted,
    Utterance,
)
from duet_trio.wire.messages import ListenMode


class Utterances:
    """One board's utterances. Synchronous; recognition runs beside."""

    def __init__(self, recognition: Recognition, recorder: Recorder, *, board: str) -> None:
        self._recognition = recognition
        self._recorder = recorder
        self._board = board
        self._last_voice_at = 0.0  # trio time
        self._over_answer = False  # the utterance under way began as an interruption

    def voiced(self) -> None:
        """There was voice just now."""
        self._last_voice_at = trio.current_time()

    def interrupt(self) -> None:
        """The utterance under way began over an answer."""
        self._over_answer = True

    def forget(self) -> None:
        """No utterance is under way any more."""
        self._over_answer = False

    def handle(self, events: Iterable[Event], *, mode: ListenMode, key_down: bool) -> None:
        """Do what the endpointer has decided. ``key_down``: the talk key is held."""
        for event in events:
            match event:
                case SpeechStarted():
                    self._recorder.emit("speech.start", board=self._board)
                case Speculate():
                    self._recognition.speculate(event.pcm)
                case SpeechResumed():
                    self._recognition.resume()
                case Utterance():
                    self._end(event, whole=mode == "manual" and not key_down, key_down=key_down)
                case Discarded():
                    self._recognition.settle()

    def drop(self) -> None:
        """Drop the recognition being made of the last one."""
        self._recognition.drop()

    def _end(self, utterance: Utterance, *, whole: bool, key_down: bool) -> None:
        self._recorder.emit(
            "speech.end",
            board=self._board,
            audio_ms=round(len(utterance.pcm) / 32),
            endpoint_ms=round(utterance.endpoint_ms),
        )
        speech = Speech(
            utterance.pcm,
            round(utterance.speech_ms),
            self._last_voice_at,
            self._over_answer,
            whole=whole,
        )
        self._over_answer = False
        self._recognition.utterance(
            speech,
            speculation_valid=utterance.speculation_valid,
            # With the key down the cap only cuts what is recognised in one go.
            cut_short=utterance.capped and not key_down,
        )
