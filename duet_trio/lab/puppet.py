"""A board that does what a scenario says, and complains about what no server may do.

Unlike `duet_trio.board`, which is a faithful board in front of a real connection, this one stands
directly on a session's transport, can send anything at any moment, and looks at every message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import trio

from duet_trio.errors import PeerError
from duet_trio.lab.wire import MemoryWire, Message
from duet_trio.opus import Encoder
from duet_trio.wire.encoding import encode
from duet_trio.wire.handshake import Handshake
from duet_trio.wire.messages import (
    Abort,
    Alert,
    AudioParams,
    BoardMessage,
    Detect,
    Hello,
    ListenMode,
    ListenStart,
    SentenceStart,
    TtsStart,
    TtsStop,
    parse_server_text,
)

FRAME_S = 0.06
#: Tones repeat after so many answers.
TONES = 40


class Ears(Protocol):
    """Tells whose sound a packet is."""

    def __call__(self, packet: bytes) -> int | None:
        """The generation (mod 40); None: silence."""


@dataclass(slots=True)
class Part:
    """What a board got between a ``tts start`` and its ``tts stop``."""

    started_at: float
    stopped_at: float | None = None
    packets: list[tuple[float, int | None]] = field(default_factory=list)  # arrival, whose
    plays_until: float = 0.0
    played_at: list[float] = field(default_factory=list)  # end of each packet's sound
    sentences: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    first_at: float | None = None

    @property
    def generation(self) -> int | None:
        """Whose sound it is (mod 40), from its first voiced packet."""
        return next((whose for _at, whose in self.packets if whose is not None), None)

    def played(self, at: float) -> int:
        """Packets whose sound has ended by then."""
        return sum(end <= at + 1e-6 for end in self.played_at)


@cache
def spoken_packets(pcm: bytes, silence_ms: int = 1200) -> tuple[bytes, ...]:
    """An utterance and the silence after it as a board would send them."""
    encoder = Encoder(16_000, 60, complexity=0, bitrate=None)
    return tuple(encoder.packets(pcm + bytes(32 * silence_ms)))


class Puppet:
    """One board. All but `speak` is synchronous."""

    def __init__(
        self,
        device_id: str,
        host: Callable[[MemoryWire, Handshake], None],
        ears: Ears,
        *,
        slow_s: float = 0.0,
        mode: ListenMode = "auto",
        memory: int = TONES // 2,
    ) -> None:
        """``memory``: so many earlier answers are known by their sound; few where many boards
        share the tones.
        """
        self._memory = memory
        self.device_id = device_id
        self.mode: ListenMode = mode
        self.slow_s = slow_s
        self.complaints: list[str] = []
        self.parts: list[Part] = []
        self.speaking = False
        self.worst_stop_s = 0.0
        self.alerts: list[tuple[float, str]] = []
        self.news = trio.Event()
        self._host = host
        self._ears = ears
        self._wire: MemoryWire | None = None
        self._aborted_at: float | None = None

    # --- the connection

    @property
    def connected(self) -> bool:
        """Is there a connection?"""
        return self._wire is not None and self._wire.open

    def connect(self) -> MemoryWire:
        """Dial (a second time: the server sees a duplicate of this board)."""
        wire: MemoryWire

        def take(message: Message) -> None:
            if wire is self._wire:
                self._take(message)

        wire = MemoryWire(take, self.complaints, slow_s=self.slow_s)
        self._wire = wire
        self._silence()
        self._host(wire, Handshake(self.device_id, version=1, path="/xiaozhi/v1/"))
        self.say(Hello(audio_params=AudioParams(), version=1))
        self.say(ListenStart(mode=self.mode))
        return wire

    def drop(self) -> None:
        """Lose the connection."""
        if self._wire is not None:
            self._wire.drop()
        self._silence()

    def vanish(self) -> None:
        """Forget the connection without the server noticing."""
        self._wire = None
        self._silence()

    def _silence(self) -> None:
        self.speaking = False
        self._aborted_at = None

    # --- what it says

    def say(self, message: BoardMessage) -> None:
        """Send a message."""
        if self._wire is not None:
            self._wire.say(encode(message, "s"))

    def raw(self, message: Message) -> None:
        """Send anything."""
        if self._wire is not None:
            self._wire.say(message)

    def ask(self, text: str) -> None:
        """A typed question."""
        self.say(Detect(text=text))

    def abort(self, reason: str = "") -> None:
        """The button, or (``wake_word_detected``) the wake word."""
        if self.speaking and self._aborted_at is None:
            self._aborted_at = trio.current_time()
        self.say(Abort(reason=reason))
        if reason:
            self.say(ListenStart(mode=self.mode))

    def press(self) -> None:
        """The talk key goes down."""
        self.say(ListenStart(mode="manual"))

    async def speak(self, pcm: bytes) -> None:
        """Say something (16 kHz s16le), then be silent for a moment."""
        for packet in spoken_packets(pcm):
            self.raw(packet)
            await trio.sleep(FRAME_S)

    # --- what it hears

    def _take(self, message: Message) -> None:
        now = trio.current_time()
        if isinstance(message, bytes):
            self._packet(message, now)
        else:
            self._text(message, now)
        self.news.set()
        self.news = trio.Event()

    def _packet(self, packet: bytes, now: float) -> None:
        if not self.speaking:
            self.complaints.append(f"a packet outside of an answer at {now:.3f}")
            return
        part = self.parts[-1]
        try:
            whose = self._ears(packet)
        except PeerError:
            self.complaints.append(f"a packet that cannot be decoded at {now:.3f}")
            return
        expected = part.generation
        if whose is not None and expected is not None and whose != expected:
            self.complaints.append(f"sound of answer {whose} in answer {expected} at {now:.3f}")
        if expected is None and whose is not None and self._heard_before(whose):
            self.complaints.append(f"sound of an earlier answer ({whose}) at {now:.3f}")
        if part.first_at is None:
            part.first_at = now
        part.packets.append((now, whose))
        part.plays_until = max(now, part.plays_until) + FRAME_S
        part.played_at.append(part.plays_until)

    def _heard_before(self, whose: int) -> bool:
        return any(part.generation == whose for part in self.parts[-1 - self._memory : -1])

    def _text(self, text: str, now: float) -> None:
        try:
            message = parse_server_text(text)
        except PeerError as error:
            self.complaints.append(f"a message that no board can read: {error}")
            return
        match message:
            case TtsStart():
                if self.speaking:
                    self.complaints.append(f"tts start inside an answer at {now:.3f}")
                self.speaking = True
                self.parts.append(Part(now, plays_until=now))
            case TtsStop():
                self._stop(now)
            case SentenceStart() if self.speaking:
                self.parts[-1].sentences.append(message.text)
            case SentenceStart():
                self.complaints.append(f"a sentence outside of an answer at {now:.3f}")
            case Alert():
                self.alerts.append((now, message.message))
                if self.speaking:
                    self.parts[-1].alerts.append(message.message)
            case _:
                pass

    def _stop(self, now: float) -> None:
        if self._aborted_at is not None:
            self.worst_stop_s = max(self.worst_stop_s, now - self._aborted_at)
            self._aborted_at = None
        if self.speaking:
            self.speaking = False
            self.parts[-1].stopped_at = now
            if self.mode == "auto":
                self.say(ListenStart(mode="auto"))
