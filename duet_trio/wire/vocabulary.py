"""The kinds of JSON messages, both directions, as frozen structs.

Each class has a ``name``, short and unique within its direction: what the trace shows.
`duet_trio.wire.messages` reads and writes them and offers all these names as well.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from msgspec import Struct, field

ListenMode = Literal["auto", "manual", "realtime"]
LISTEN_MODES: tuple[ListenMode, ...] = get_args(ListenMode)

#: The only rates at which Opus decodes.
OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
#: Frame durations that boards since v2.2.2 can play; any other one is silence.
FRAME_DURATIONS_MS = (5, 10, 20, 40, 60, 80, 100, 120)


class Message(Struct, frozen=True):
    """Base of all messages."""

    name: ClassVar[str] = ""


# --- board to server ------------------------------------------------------------------------


class AudioParams(Struct, frozen=True):
    """What a hello says of its sender's audio. Defaults: the stock firmware's uplink."""

    format: str = "opus"
    sample_rate: int = 16_000
    channels: int = 1
    frame_duration: int = 60


class Hello(Message, frozen=True):
    """First message of a board. ``version`` 0: not said; ``features``: the true ones."""

    name: ClassVar[str] = "hello"
    version: int = 0
    features: frozenset[str] = frozenset()
    transport: str = "websocket"
    audio_params: AudioParams = field(default_factory=AudioParams)


class ListenStart(Message, frozen=True):
    """The microphone opens. ``manual``: the talk key is down; it ends with `ListenStop`."""

    name: ClassVar[str] = "listen.start"
    mode: ListenMode = "auto"


class ListenStop(Message, frozen=True):
    """The talk key is released."""

    name: ClassVar[str] = "listen.stop"


class Detect(Message, frozen=True):
    """A wake word was heard (stock boards), or a person typed ``text`` (test clients)."""

    name: ClassVar[str] = "detect"
    text: str = ""


class Abort(Message, frozen=True):
    """The user interrupts. The firmware's only reason is ``wake_word_detected``; a button
    gives none.
    """

    name: ClassVar[str] = "abort"
    reason: str = ""


class Mcp(Message, frozen=True):
    """A JSON-RPC reply to one of our `McpRequest`."""

    name: ClassVar[str] = "mcp"
    payload: dict[str, Any]


class Ping(Message, frozen=True):
    """Not in stock firmware; answered with `Pong`."""

    name: ClassVar[str] = "ping"


class Goodbye(Message, frozen=True):
    """MQTT only in stock firmware; other clients send it before they close."""

    name: ClassVar[str] = "goodbye"


class Other(Message, frozen=True):
    """A message of a type that has no meaning here (``iot``, ``custom``, tomorrow's)."""

    name: ClassVar[str] = "other"
    type: str


# --- server to board ------------------------------------------------------------------------


class ServerHello(Message, frozen=True):
    """Answer to the first `Hello`, once. Announces what is really sent, never an echo."""

    name: ClassVar[str] = "hello"
    session_id: str
    sample_rate: int = 24_000
    frame_duration: int = 60


class Stt(Message, frozen=True):
    """What was understood; shown as the user's words."""

    name: ClassVar[str] = "stt"
    text: str


class TtsStart(Message, frozen=True):
    """An answer begins: the board flushes its player and closes its microphone."""

    name: ClassVar[str] = "tts.start"


class SentenceStart(Message, frozen=True):
    """Text to show while it is spoken."""

    name: ClassVar[str] = "sentence_start"
    text: str


class TtsStop(Message, frozen=True):
    """The answer is over. The only way out of the board's speaking state."""

    name: ClassVar[str] = "tts.stop"


class Emotion(Message, frozen=True):
    """A face, one of `duet_trio.wire.emotions.EMOTIONS`; boards do not read ``text``."""

    name: ClassVar[str] = "emotion"
    emotion: str
    text: str = ""


class Alert(Message, frozen=True):
    """A notice with a sound; the board drops it unless all three are strings."""

    name: ClassVar[str] = "alert"
    status: str
    message: str
    emotion: str = "sad"


class McpRequest(Message, frozen=True):
    """A JSON-RPC request to the board's tools."""

    name: ClassVar[str] = "mcp.request"
    payload: dict[str, Any]


class System(Message, frozen=True):
    """The firmware knows one command: ``reboot``."""

    name: ClassVar[str] = "system"
    command: str


class Pong(Message, frozen=True):
    """Answer to `Ping`."""

    name: ClassVar[str] = "pong"


BoardMessage = Hello | ListenStart | ListenStop | Detect | Abort | Mcp | Ping | Goodbye | Other
ServerMessage = (
    ServerHello | Stt | TtsStart | SentenceStart | TtsStop | Emotion | Alert | McpRequest
    | System | Pong | Other
)  # fmt: skip
BOARD_MESSAGES: tuple[type[Message], ...] = get_args(BoardMessage)
SERVER_MESSAGES: tuple[type[Message], ...] = get_args(ServerMessage)
