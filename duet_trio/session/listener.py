"""The ears of one board: Opus → VAD → endpoint → recognition → a question.

The reader puts packets in synchronously and never waits; the listener's own task decodes them.
A client that sends faster than we listen loses its *oldest* audio: a backlog would become lasting
delay. All decisions about an utterance are `Endpointer`'s, in audio time; here are the engine
calls, the microphone gate, and the one decision in wall time: a stream that stops in mid-speech.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import msgspec
import trio

from duet_trio.config import Config, VadSection
from duet_trio.engines.contracts import LISTEN_RATE_HZ
from duet_trio.errors import PeerError
from duet_trio.events import Recorder
from duet_trio.opus import Decoder
from duet_trio.session.recognition import Recognition
from duet_trio.session.services import VoiceActivity
from duet_trio.speech.echo_gate import HalfDuplex
from duet_trio.speech.endpoint import (
    CHUNK_BYTES,
    Endpointer,
    Event,
    Speculate,
    SpeechResumed,
    SpeechStarted,
    Utterance,
)
from duet_trio.wire.messages import FRAME_DURATIONS_MS, ListenMode

#: Two minutes of 60 ms packets would be a backlog; two seconds are a slow moment.
MAX_BACKLOG = 34


class _Mark(Enum):
    """What stands between packets in the backlog."""

    STOP = "listen stop"


@dataclass(slots=True)
class ListenerStatistics:
    """Counts since the connection opened."""

    packets: int = 0
    dropped: int = 0
    bad: int = 0
    gated: int = 0


class Listener:
    """One board's ears; ``run`` is its task, everything else is synchronous.

    ``is_answering``: an answer is on its way; ``on_barge_in``: the person talks over it.
    """

    def __init__(
        self,
        config: Config,
        activity: VoiceActivity,
        recognition: Recognition,
        recorder: Recorder,
        *,
        board: str,
        endpoint_ms: int,
        is_answering: Callable[[], bool],
        on_barge_in: Callable[[], None],
    ) -> None:
        self._vad = config.vad
        self._barge_in = config.voice.barge_in
        self._activity = activity
        self._recognition = recognition
        self._recorder = recorder
        self._board = board
        self._is_answering = is_answering
        self._on_barge_in = on_barge_in
        self._backlog: deque[bytes | _Mark] = deque()
        self._arrived = trio.Event()
        self._decoder = Decoder()
        self._chunk = bytearray()
        self._endpointer = Endpointer(config.vad, endpoint_ms=endpoint_ms)
        self._over_answer = Endpointer(_over_answer(config), endpoint_ms=endpoint_ms)
        self._mode: ListenMode = "auto"
        self._was_gated = False
        self._last_voice_at = 0.0
        self.gate = HalfDuplex()
        self.statistics = ListenerStatistics()

    # --- from the reader: synchronous ---------------------------------------------------

    def tune(self, frame_ms: int) -> None:
        """The board's hello has said what its packets hold (Opus decodes to any rate)."""
        if frame_ms in FRAME_DURATIONS_MS:
            self._decoder = Decoder(LISTEN_RATE_HZ, frame_ms)

    def packet(self, opus: bytes) -> None:
        """One uplink packet, of any kind."""
        self.statistics.packets += 1
        if len(self._backlog) >= MAX_BACKLOG:
            self._backlog.popleft()
            self.statistics.dropped += 1
        self._backlog.append(opus)
        self._arrived.set()

    def start(self, mode: ListenMode) -> None:
        """``listen start``: a new utterance; what was before it (a wake word) is no part of it."""
        self._mode = mode
        self.forget()
        if mode == "manual":
            # The key is down: the board has flushed its player and records the person.
            self.gate.open_after(-math.inf)

    def stop(self) -> None:
        """``listen stop``: the talk key is up; the utterance ends with what has arrived."""
        self._backlog.append(_Mark.STOP)
        self._arrived.set()

    def forget(self) -> None:
        """Drop the utterance being heard and the recognition being made of the last one."""
        self._backlog.clear()
        self._recognition.drop()
        self._fresh()

    def _fresh(self) -> None:
        self._chunk.clear()
        self._endpointer.reset(hold=self._mode == "manual")
        self._over_answer.reset()
        self._activity.reset()

    # --- the task ------------------------------------------------------------------------

    async def run(self) -> None:
        """Listen until cancelled. A bad packet is counted and skipped."""
        while True:
            if not self._backlog:
                await self._wait()
                continue
            item = self._backlog.popleft()
            if isinstance(item, _Mark):
                self._handle(self._endpointer.flush())
            else:
                self._hear_packet(item)
            await trio.lowlevel.checkpoint()

    async def _wait(self) -> None:
        """For the next packet; a stream that stops in mid-speech ends its utterance."""
        self._arrived = trio.Event()
        with trio.move_on_after(self._vad.stall_s) as scope:
            await self._arrived.wait()
        if scope.cancelled_caught and self._endpointer.in_speech and self._mode != "manual":
            self._handle(self._endpointer.flush())

    def _hear_packet(self, opus: bytes) -> None:
        try:
            pcm = self._decoder.decode(opus)
        except PeerError as error:
            self.statistics.bad += 1
            if self.statistics.bad == 1:
                self._recorder.emit("peer.error", board=self._board, error=str(error))
            return
        self._chunk += pcm
        while len(self._chunk) >= CHUNK_BYTES:
            chunk = bytes(self._chunk[:CHUNK_BYTES])
            del self._chunk[:CHUNK_BYTES]
            self._hear(chunk)

    def _hear(self, chunk: bytes) -> None:
        now = trio.current_time()
        if self.gate.is_open(now):
            if self._was_gated:
                self._was_gated = False
                self._fresh()
            probability = self._activity.probability(chunk)
            self._note_voice(probability, now)
            self._handle(self._endpointer.feed(chunk, probability))
        elif self._barge_in and self._mode == "realtime" and self._is_answering():
            self._was_gated = True
            self._hear_over_answer(chunk, now)
        else:
            self._was_gated = True
            self.statistics.gated += 1

    def _hear_over_answer(self, chunk: bytes, now: float) -> None:
        """Barge-in: enough speech ends the answer, and is the beginning of the next question."""
        probability = self._activity.probability(chunk)
        self._note_voice(probability, now)
        for event in self._over_answer.feed(chunk, probability):
            if isinstance(event, SpeechStarted):
                # The pre-roll and the speech so far go on in the same endpointer.
                self._endpointer, self._over_answer = self._over_answer, self._endpointer
                self._was_gated = False
                self._on_barge_in()
                self.gate.open_after(-math.inf)
                self._handle([event])

    def _note_voice(self, probability: float, now: float) -> None:
        if probability >= self._vad.threshold:
            self._last_voice_at = now

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case SpeechStarted():
                    self._recorder.emit("speech.start", board=self._board)
                case Speculate():
                    self._recognition.speculate(event.pcm)
                case SpeechResumed():
                    self._recognition.resume()
                case Utterance():
                    self._end(event)
                case _:
                    pass

    def _end(self, utterance: Utterance) -> None:
        self._recorder.emit(
            "speech.end",
            board=self._board,
            audio_ms=round(len(utterance.pcm) / 32),
            endpoint_ms=round(utterance.endpoint_ms),
        )
        self._recognition.utterance(
            utterance.pcm,
            speech_ms=round(utterance.speech_ms),
            ended_at=self._last_voice_at,
            speculation_valid=utterance.speculation_valid,
        )


def _over_answer(config: Config) -> VadSection:
    """As the usual settings, but it takes ``voice.barge_in_ms`` of speech: a cough is shorter."""
    return msgspec.structs.replace(config.vad, min_speech_ms=config.voice.barge_in_ms)
