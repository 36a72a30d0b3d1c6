"""One board, as the server sees it: what it said, what that means, where it stands.

`BoardProtocol` turns frames into events and never raises on what a peer sends. The states and
their transitions stand in `duet_trio.wire.transitions`; the rest is bookkeeping around them.

The state is what a stock board would be in, judged by both sides' messages. It never keeps
audio out: boards stream before ``listen start`` (the wake word), for some packets after
``listen stop``, and other clients whenever they like.
"""

from __future__ import annotations

import unicodedata
from functools import singledispatchmethod
from typing import Any

from duet_trio.errors import PeerError
from duet_trio.wire.board_events import (
    AbortRequested,
    Audio,
    BadInput,
    BoardEvent,
    Greeted,
    Ignored,
    ListeningStarted,
    ListeningStopped,
    McpReply,
    Pinged,
    Question,
    WakeWord,
)
from duet_trio.wire.framing import Packet, unpack
from duet_trio.wire.messages import (
    Abort,
    AudioParams,
    Detect,
    Goodbye,
    Hello,
    ListenMode,
    ListenStart,
    ListenStop,
    Mcp,
    Other,
    Ping,
    ServerMessage,
    TtsStart,
    TtsStop,
    parse_board_text,
)
from duet_trio.wire.transitions import TRANSITIONS, Signal, State

__all__ = [
    "TRANSITIONS",
    "AbortRequested",
    "Audio",
    "BadInput",
    "BoardEvent",
    "BoardProtocol",
    "Greeted",
    "Ignored",
    "ListeningStarted",
    "ListeningStopped",
    "McpReply",
    "Pinged",
    "Question",
    "Signal",
    "State",
    "WakeWord",
]


_MICROPHONE_OPEN = frozenset({State.LISTENING, State.STREAMING, State.OVERLAP, State.DUPLEX})
_ANSWERING = frozenset({State.SPEAKING, State.OVERLAP, State.DUPLEX})

#: Packets that may come after the microphone has closed without being a wake word: boards
#: send up to three after ``listen stop``.
LATE_PACKETS = 3

#: Longest burst that can be a wake word's; the firmware sends about 2 s. More is a client that
#: streams all the time without saying so.
MAX_BURST_MS = 5000


class BoardProtocol:
    """The server's side of one connection.

    ``wake_words``: texts of ``detect`` that are never a question. ``version``: of the binary
    framing, from the upgrade request (`Handshake.version`); ``None``: as the hello says, and
    1 if it does not say either.
    """

    def __init__(self, wake_words: frozenset[str], version: int | None = None) -> None:
        self._wake_words = frozenset(_plain(word) for word in wake_words) - {""}
        self._version = version
        self._hello: Hello | None = None
        self._mode: ListenMode = "auto"
        self._state = State.IDLE
        self._may_speak = False
        self._burst = 0  # packets since the last `listen` while the microphone was closed

    @property
    def state(self) -> State:
        """Where the board stands."""
        return self._state

    @property
    def version(self) -> int:
        """Binary framing, for both directions: 1, 2 or 3."""
        if self._version is not None:
            return self._version
        return (self._hello.version if self._hello else 0) or 1

    @property
    def mode(self) -> ListenMode:
        """Of the last ``listen start``; before it, the most common one, auto."""
        return self._mode

    @property
    def uplink_rate_hz(self) -> int:
        """Sample rate that the board announced."""
        return self._audio.sample_rate

    @property
    def uplink_frame_ms(self) -> int:
        """Packet duration that the board announced; single packets may differ."""
        return self._audio.frame_duration

    @property
    def features(self) -> frozenset[str]:
        """Names of the features that the hello says are there (``mcp``, ``aec``)."""
        return self._hello.features if self._hello else frozenset()

    @property
    def greeted(self) -> bool:
        """A hello has come."""
        return self._hello is not None

    @property
    def listening(self) -> bool:
        """The board's microphone is open."""
        return self._state in _MICROPHONE_OPEN

    @property
    def speaking(self) -> bool:
        """`TtsStart` was sent, and no `TtsStop` since."""
        return self._state in _ANSWERING

    @property
    def may_speak(self) -> bool:
        """The board has asked for something, so that it will obey a `TtsStart`.

        Until its first ``listen`` message it is still connecting: it would ignore the start
        and drop the audio after it.
        """
        return self._may_speak

    @property
    def _audio(self) -> AudioParams:
        return self._hello.audio_params if self._hello else AudioParams()

    def receive_text(self, text: str) -> list[BoardEvent]:
        """Take one text message. What is wrong with it comes back as `BadInput`."""
        try:
            message = parse_board_text(text)
        except PeerError as error:
            return [BadInput(str(error))]
        return [self._on(message)]

    def receive_bytes(self, data: bytes) -> list[BoardEvent]:
        """Take one binary message, in any state."""
        try:
            packet: Packet = unpack(self.version, data)
        except PeerError as error:
            return [BadInput(str(error))]
        if self._state is State.IDLE:
            self._burst += 1
        return [Audio(packet.opus, packet.timestamp_ms)]

    def sent(self, message: ServerMessage) -> None:
        """Follow what goes out; call it in the order of sending."""
        if isinstance(message, TtsStart):
            self._move(Signal.ANSWER)
        elif isinstance(message, TtsStop):
            self._move(Signal.ANSWER_OVER)

    def _move(self, signal: Signal) -> None:
        was_open = self.listening
        self._state = TRANSITIONS[self._state, signal]
        if was_open and not self.listening:
            self._burst = -LATE_PACKETS

    @singledispatchmethod
    def _on(self, message: Any) -> BoardEvent:
        raise TypeError(f"no rule for {type(message).__name__}")

    @_on.register
    def _(self, hello: Hello) -> BoardEvent:
        if self._hello is not None:
            # A second answer would leave a stale flag on the board for its next connection.
            return Ignored("a second hello")
        self._hello = hello
        return Greeted(hello)

    @_on.register
    def _(self, start: ListenStart) -> BoardEvent:
        self._mode = start.mode
        self._may_speak = True
        self._burst = 0
        self._move(Signal.OPEN_REALTIME if start.mode == "realtime" else Signal.OPEN)
        return ListeningStarted(start.mode)

    @_on.register
    def _(self, stop: ListenStop) -> BoardEvent:
        was_speaking_only = self._state is State.SPEAKING
        self._burst = -LATE_PACKETS
        self._move(Signal.CLOSE)
        if was_speaking_only:
            return Ignored("listen stop during an answer")
        # Also from IDLE: a client that never sent `listen start` still means "I have finished".
        return ListeningStopped()

    @_on.register
    def _(self, detect: Detect) -> BoardEvent:
        # Stock boards send the wake word's audio first, with the microphone not yet open to us,
        # then this. Audio of an open microphone proves nothing: whoever types beside it asks.
        burst = 0 < self._burst * self.uplink_frame_ms <= MAX_BURST_MS
        self._may_speak = True
        self._burst = 0
        text = detect.text.strip()
        if burst or not text or _plain(text) in self._wake_words:
            return WakeWord(text)
        return Question(text)

    @_on.register
    def _(self, abort: Abort) -> BoardEvent:
        return AbortRequested(abort.reason)

    @_on.register
    def _(self, reply: Mcp) -> BoardEvent:
        return McpReply(reply.payload)

    @_on.register
    def _(self, ping: Ping) -> BoardEvent:
        return Pinged()

    @_on.register
    def _(self, goodbye: Goodbye) -> BoardEvent:
        return Ignored("goodbye")

    @_on.register
    def _(self, other: Other) -> BoardEvent:
        return Ignored(f"a message of type {other.type[:40]!r}")


def _plain(text: str) -> str:
    """For comparison: no case, width, punctuation or spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c.isalnum())
