"""Reading and writing the JSON messages of the board protocol.

`parse_board_text` is the server's reader and lenient: fields that clients leave out get the
firmware's defaults. `parse_server_text` is the board's reader and refuses what would crash
or mislead the firmware, so that a simulated board finds a server's mistakes. `encode` writes
either kind. Everything is sent with a string ``type`` and, except in a board's hello, a
string ``session_id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from duet_trio.errors import PeerError
from duet_trio.wire.encoding import encode
from duet_trio.wire.fields import MAX_TEXT_LENGTH, Fields, decode_object
from duet_trio.wire.vocabulary import (
    BOARD_MESSAGES,
    FRAME_DURATIONS_MS,
    LISTEN_MODES,
    OPUS_RATES_HZ,
    SERVER_MESSAGES,
    Abort,
    Alert,
    AudioParams,
    BoardMessage,
    Detect,
    Emotion,
    Goodbye,
    Hello,
    ListenMode,
    ListenStart,
    ListenStop,
    Mcp,
    McpRequest,
    Message,
    Other,
    Ping,
    Pong,
    SentenceStart,
    ServerHello,
    ServerMessage,
    Stt,
    System,
    TtsStart,
    TtsStop,
)

__all__ = [
    "BOARD_MESSAGES",
    "FRAME_DURATIONS_MS",
    "LISTEN_MODES",
    "MAX_TEXT_LENGTH",
    "OPUS_RATES_HZ",
    "SERVER_MESSAGES",
    "Abort",
    "Alert",
    "AudioParams",
    "BoardMessage",
    "Detect",
    "Emotion",
    "Goodbye",
    "Hello",
    "ListenMode",
    "ListenStart",
    "ListenStop",
    "Mcp",
    "McpRequest",
    "Message",
    "Other",
    "Ping",
    "Pong",
    "SentenceStart",
    "ServerHello",
    "ServerMessage",
    "Stt",
    "System",
    "TtsStart",
    "TtsStop",
    "encode",
    "parse_board_text",
    "parse_server_text",
]


def parse_board_text(text: str) -> BoardMessage:
    """Read what a board sent. `PeerError`: not a JSON object with a string ``type``, too long
    (`MAX_TEXT_LENGTH`), a ``listen`` without a known ``state``, ``mcp`` without a payload.
    """
    fields = Fields(decode_object(text))
    kind = fields.need_text("type")
    fields.owner = kind
    reader = _FROM_BOARD.get(kind)
    return Other(type=kind) if reader is None else reader(fields)


def parse_server_text(text: str) -> ServerMessage:
    """Read what a server sent, as a board would. `PeerError`: unusable, or harmful to it."""
    fields = Fields(decode_object(text))
    kind = fields.need_text("type")
    fields.owner = kind
    reader = _FROM_SERVER.get(kind)
    return Other(type=kind) if reader is None else reader(fields)


# --- from a board ---------------------------------------------------------------------------


def _hello(fields: Fields) -> Hello:
    audio = fields.object("audio_params")
    stock = AudioParams()
    rate = audio.whole("sample_rate", stock.sample_rate, min(OPUS_RATES_HZ), max(OPUS_RATES_HZ))
    return Hello(
        version=fields.whole("version", 0, 1, 3),
        features=fields.flags("features"),
        transport=fields.text("transport", "websocket"),
        audio_params=AudioParams(
            format=audio.text("format", stock.format),
            sample_rate=rate if rate in OPUS_RATES_HZ else stock.sample_rate,
            channels=audio.whole("channels", stock.channels, 1, 2),
            frame_duration=audio.whole("frame_duration", stock.frame_duration, 1, 120),
        ),
    )


def _listen(fields: Fields) -> BoardMessage:
    state = fields.text("state").lower()
    if state == "start":
        mode = fields.text("mode").lower()
        return ListenStart(mode=mode if mode in LISTEN_MODES else "auto")
    if state == "stop":
        return ListenStop()
    if state == "detect":
        return Detect(text=fields.text("text"))
    raise PeerError(f"listen: unknown state {state[:40]!r}")


_FROM_BOARD: Mapping[str, Callable[[Fields], BoardMessage]] = MappingProxyType(
    {
        "hello": _hello,
        "listen": _listen,
        "abort": lambda fields: Abort(reason=fields.text("reason")),
        "mcp": lambda fields: Mcp(payload=fields.need_object("payload")),
        "ping": lambda fields: Ping(),
        "goodbye": lambda fields: Goodbye(),
    }
)


# --- from a server --------------------------------------------------------------------------


def _server_hello(fields: Fields) -> ServerHello:
    # Without the key the firmware dereferences a null pointer; with another value it goes on
    # waiting until its ten seconds are over.
    if fields.need_text("transport") != "websocket":
        raise PeerError(f"hello: transport {fields.text('transport')[:40]!r}, not 'websocket'")
    audio = fields.object("audio_params")
    rate = audio.whole("sample_rate", 24_000, 1, 1_000_000)
    duration = audio.whole("frame_duration", 60, 1, 1_000_000)
    if rate not in OPUS_RATES_HZ or duration not in FRAME_DURATIONS_MS:
        raise PeerError(f"hello: no board can play {rate} Hz in frames of {duration} ms")
    return ServerHello(
        session_id=fields.text("session_id"), sample_rate=rate, frame_duration=duration
    )


def _tts(fields: Fields) -> ServerMessage:
    state = fields.need_text("state")
    if state == "start":
        return TtsStart()
    if state == "stop":
        return TtsStop()
    if state == "sentence_start":
        return SentenceStart(text=fields.need_text("text"))
    return Other(type="tts")  # sentence_end and the like: read by no board


_FROM_SERVER: Mapping[str, Callable[[Fields], ServerMessage]] = MappingProxyType(
    {
        "hello": _server_hello,
        "tts": _tts,
        "stt": lambda fields: Stt(text=fields.need_text("text")),
        "llm": lambda fields: Emotion(
            emotion=fields.need_text("emotion"), text=fields.text("text")
        ),
        "alert": lambda fields: Alert(
            status=fields.need_text("status"),
            message=fields.need_text("message"),
            emotion=fields.need_text("emotion"),
        ),
        "mcp": lambda fields: McpRequest(payload=fields.need_object("payload")),
        "system": lambda fields: System(command=fields.need_text("command")),
        "pong": lambda fields: Pong(),
    }
)
