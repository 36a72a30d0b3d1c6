"""The ears of one board: Opus → VAD → endpoint → recognition → a question.

The reader puts packets in synchronously and never waits; the listener's own task decodes them.
A client that sends faster than we listen loses its *oldest* audio: a backlog would become lasting
delay. All decisions about an utterance are `Endpointer`'s, in audio time; here are the engine
calls, the microphone gate, and the one decision in wall time: a stream that stops in mid-speech.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import trio

from duet_trio.config import Config
from duet_trio.engines.contracts import LISTEN_RATE_HZ
from duet_trio.errors import PeerError
from duet_trio.events import Recorder
from duet_trio.opus import Decoder
from duet_trio.session.backlog import Backlog, HeardPacket, KeyUp
from duet_trio.session.interruption import Interruption
from duet_trio.session.loop_turns import LoopTurns
from duet_trio.session.recognition import Recognition
from duet_trio.session.services import VoiceActivity
from duet_trio.session.utterances import Utterances
from duet_trio.speech.echo_gate import HalfDuplex
from duet_trio.speech.endpoint import CHUNK_BYTES, Endpointer, Event, SpeechStarted
from duet_trio.wire.messages import FRAME_DURATIONS_MS, ListenMode

#: Packets that a board may still send after the talk key went up, and how long they are awaited.
LATE_PACKETS = 3
LATE_S = 0.2


@dataclass(slots=True)
class ListenerStatistics:
    """Counts since the connection opened.

    ``loop_ms``: from our sending of a packet until what was recorded while it played was here,
    where the board stamps its packets (0: it does not).
    """

    packets: int = 0
    dropped: int = 0
    bad: int = 0
    gated: int = 0
    loop_ms: int = 0


class Listener:
    """One board's ears; ``run`` is its task, everything else is synchronous."""

    def __init__(
        self,
        config: Config,
        activity: VoiceActivity,
        recognition: Recognition,
        recorder: Recorder,
        interruption: Interruption,
        *,
        board: str,
        endpoint_ms: int,
        turns: LoopTurns | None = None,
    ) -> None:
        """``turns`` are those of all boards' ears; without any this one is alone."""
        self._vad = config.vad
        self._turns = turns if turns is not None else LoopTurns()
        self._activity = activity
        self._utterances = Utterances(recognition, recorder, board=board)
        self._recorder = recorder
        self._interruption = interruption
        self._board = board
        self._backlog = Backlog(frame_ms=60)
        self._decoder = Decoder()
        self._chunk = bytearray()
        self._endpointer = Endpointer(config.vad, endpoint_ms=endpoint_ms)
        self._mode: ListenMode = "auto"
        self._key_down = False
        self._starts = 0  # `listen start` so far
        self._was_gated = False
        self.gate = HalfDuplex()
        self.statistics = ListenerStatistics()
        recognition.still_speaking = lambda: self.in_speech

    @property
    def in_speech(self) -> bool:
        """Is somebody speaking to us, or holding the talk key?"""
        return self._key_down or self._endpointer.in_speech

    # --- from the reader: synchronous ---------------------------------------------------

    def tune(self, frame_ms: int) -> None:
        """The board's hello has said what its packets hold (Opus decodes to any rate)."""
        if frame_ms in FRAME_DURATIONS_MS:
            self._backlog.frame_ms = frame_ms
            self._decoder = Decoder(LISTEN_RATE_HZ, frame_ms)

    def packet(self, opus: bytes, timestamp_ms: int = 0) -> None:
        """One uplink packet, of any kind. ``timestamp_ms``: of ours that played meanwhile."""
        self.statistics.packets += 1
        if timestamp_ms:
            now_ms = int(trio.current_time() * 1000) & 0xFFFF_FFFF
            self.statistics.loop_ms = (now_ms - timestamp_ms) & 0xFFFF_FFFF
        self._backlog.put(HeardPacket(opus, trio.current_time()))
        if self._backlog.dropped and not self.statistics.dropped:
            self._blame("audio comes faster than real time; the oldest is dropped")
        self.statistics.dropped = self._backlog.dropped

    def start(self, mode: ListenMode) -> None:
        """``listen start``: a new utterance; what was before it (a wake word) is no part of it."""
        self._mode = mode
        self._starts += 1
        self._key_down = mode == "manual"
        self._interruption.mode_is(mode)
        self.forget()
        if mode == "manual":
            # The key is down: the board has flushed its player and records the person.
            self.gate.open_after(-math.inf)

    def stop(self) -> None:
        """``listen stop``: the talk key is up; the utterance ends with what has arrived."""
        self._backlog.put(KeyUp())

    def forget(self) -> None:
        """Drop the utterance being heard and the recognition being made of the last one."""
        self._backlog.clear()
        self._utterances.drop()
        self._fresh()

    def mute(self) -> None:
        """An answer begins: what is half heard is no question any more. Synchronous."""
        self.gate.close()
        self._was_gated = True
        self._key_down = False
        self._endpointer.reset()

    def sent(self, opus: bytes) -> None:
        """A packet of ours has left for the board: it may come back as an echo."""
        self._interruption.sent(opus)

    def _fresh(self) -> None:
        self._chunk.clear()
        self._endpointer.reset(hold=self._mode == "manual")
        self._interruption.reset()
        self._activity.reset()
        self._utterances.forget()

    def _blame(self, error: str) -> None:
        """Into the trace, once per kind and session: such things come in floods."""
        self._recorder.emit("peer.error", board=self._board, error=error)

    # --- the task ------------------------------------------------------------------------

    async def run(self) -> None:
        """Listen until cancelled. A bad packet is counted and skipped."""
        while True:
            if not self._backlog:
                await self._wait()
                continue
            async with self._turns.turn(lambda: 0):  # among ears first come, first served
                # Taken only now: what is forgotten while waiting must not be heard.
                item = self._backlog.take() if self._backlog else None
                if isinstance(item, HeardPacket):
                    self._hear_packet(item)
            if item is not None and not isinstance(item, HeardPacket):
                await self._end_of_key()

    async def _wait(self) -> None:
        """For the next packet; a stream that stops in mid-speech ends its utterance."""
        with trio.move_on_after(self._vad.stall_s) as scope:
            await self._backlog.arrived()
        if scope.cancelled_caught and self._endpointer.in_speech and self._mode != "manual":
            self._handle(self._endpointer.flush())

    async def _end_of_key(self) -> None:
        """Take the packets that were under way when the key went up, then end the utterance."""
        starts = self._starts
        if self._mode == "manual" and self._endpointer.voiced:
            with trio.move_on_after(LATE_S):
                await self._hear_late_packets()
        if self._starts != starts:
            return  # the key is down again: that utterance was dropped, and this one has begun
        self._key_down = False
        self._handle(self._endpointer.flush())

    async def _hear_late_packets(self) -> None:
        for _ in range(LATE_PACKETS):
            await self._backlog.arrived()
            packet = self._backlog.first()
            if not isinstance(packet, HeardPacket):
                return
            self._backlog.take()
            self._hear_packet(packet)

    def _hear_packet(self, packet: HeardPacket) -> None:
        try:
            pcm = self._decoder.decode(packet.opus)
        except PeerError as error:
            self.statistics.bad += 1
            if self.statistics.bad == 1:
                self._blame(str(error))
            return
        if self._mode == "manual" and not self._key_down:
            return  # clients that stream all the time: only the key says when we are meant
        self._chunk += pcm
        while len(self._chunk) >= CHUNK_BYTES:
            chunk = bytes(self._chunk[:CHUNK_BYTES])
            del self._chunk[:CHUNK_BYTES]
            self._hear(chunk, packet.arrived_at)

    def _hear(self, chunk: bytes, arrived_at: float) -> None:
        if self.gate.is_open(arrived_at):
            if self._was_gated:
                self._was_gated = False
                self._over_answer_ended()
            probability = self._probability(chunk)
            self._handle(self._endpointer.feed(chunk, probability))
        elif self._interruption.possible:
            self._was_gated = True
            if self._interruption.hear(chunk, self._probability(chunk), arrived_at):
                self._interrupted()
        else:
            self._was_gated = True
            self.statistics.gated += 1

    def _interrupted(self) -> None:
        """The answer has been ended; the pre-roll and the speech so far are the next question's."""
        self._was_gated = False
        self._utterances.interrupt()
        self._endpointer = self._interruption.take(self._endpointer)
        self.gate.open_after(-math.inf)
        self._handle([SpeechStarted()])

    def _over_answer_ended(self) -> None:
        """The gate has opened again: what was heard meanwhile is not ours to answer."""
        backlog_chunk = bytes(self._chunk)
        self._fresh()
        self._chunk += backlog_chunk

    def _probability(self, chunk: bytes) -> float:
        probability = self._activity.probability(chunk)
        if probability >= self._vad.threshold:
            self._utterances.voiced()
        return probability

    def _handle(self, events: list[Event]) -> None:
        self._utterances.handle(events, mode=self._mode, key_down=self._key_down)
