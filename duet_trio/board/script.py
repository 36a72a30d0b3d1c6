"""Which board, and what its user says and does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from duet_trio.board.link import Identity
from duet_trio.board.state import LATE_FLUSH_S
from duet_trio.wire.messages import BoardMessage, ListenMode, ServerMessage

ActionKind = Literal["button", "abort", "press", "wake_word", "say", "disconnect", "stop_reading"]
Moment = Literal["asked", "question", "stt", "start", "audio"]


@dataclass(frozen=True, slots=True)
class Action:
    """One deed, ``after_s`` after a moment of the question that it belongs to.

    Moments: ``asked`` (it begins), ``question`` (it has been put), ``stt``, ``start`` (``tts
    start``), ``audio`` (first packet). An action whose moment never comes is never done.

    Kinds: ``button`` (the chat button: interrupts, or hangs up while listening), ``press`` (the
    talk key; it is held while ``pcm`` is spoken), ``wake_word``, ``say`` (just speak, over the
    answer if the board's microphone is open), ``abort`` (the bare message in any state, as
    other clients send it), ``disconnect`` (drop the connection), ``stop_reading`` (take nothing
    from the socket for ``hold_s``, then drop it).
    ``pcm`` (16 kHz s16le mono) is what the user says then; it becomes a turn of its own.
    """

    kind: ActionKind
    after_s: float = 0.0
    after: Moment = "audio"
    pcm: bytes = b""
    hold_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """Either ``text``, typed, or ``pcm``, spoken (16 kHz s16le mono), and what is done meanwhile.

    Text is sent as ``listen detect`` and the microphone stays mute, since a server would take
    a text after audio for a wake word. ``label`` is what reports call a spoken question.
    """

    text: str = ""
    pcm: bytes = b""
    label: str = ""
    actions: tuple[Action, ...] = ()


#: Told what happens: seconds on the board's axis, and the message sent or received.
Watcher = Callable[[float, BoardMessage | ServerMessage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """One simulated board. ``patience_s``: how long it waits with no message from the server.

    ``wake_word``: told as ``listen detect`` when it connects; empty: connected by its button.
    ``wake_pcm``: its sound (16 kHz s16le mono, at most 2 s), sent as a burst of packets before.
    ``decode`` false: packets are counted and timed, but heard as silence (for many boards).
    """

    url: str
    identity: Identity = field(default_factory=Identity)
    firmware: str = "2.4"
    mode: ListenMode = "auto"
    features: frozenset[str] = frozenset()
    uplink_frame_ms: int = 60
    patience_s: float = 60.0
    wake_word: str = ""
    wake_pcm: bytes = b""
    wake_word_always: bool = False
    late_flush_s: float = LATE_FLUSH_S
    decode: bool = True
