"""Writing the JSON messages of both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from duet_trio.wire.fields import encode_object
from duet_trio.wire.vocabulary import (
    Abort,
    Alert,
    BoardMessage,
    Detect,
    Emotion,
    Goodbye,
    Hello,
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


def encode(message: BoardMessage | ServerMessage, session_id: str) -> str:
    """Write one message. A `ServerHello` carries its own session id, a `Hello` none."""
    body = _BODIES[type(message)](message)
    if not isinstance(message, Hello | ServerHello):
        body["session_id"] = session_id
    return encode_object(body)


def _hello_body(hello: Hello) -> dict[str, Any]:
    audio = hello.audio_params
    body: dict[str, Any] = {
        "type": "hello",
        "version": hello.version,
        "features": dict.fromkeys(sorted(hello.features), True),
        "transport": hello.transport,
        "audio_params": {
            "format": audio.format,
            "sample_rate": audio.sample_rate,
            "channels": audio.channels,
            "frame_duration": audio.frame_duration,
        },
    }
    if not hello.version:
        del body["version"]
    return body


def _server_hello_body(hello: ServerHello) -> dict[str, Any]:
    return {
        "type": "hello",
        "transport": "websocket",
        "session_id": hello.session_id,
        "audio_params": {
            "format": "opus",
            "sample_rate": hello.sample_rate,
            "channels": 1,
            "frame_duration": hello.frame_duration,
        },
    }


def _abort_body(abort: Abort) -> dict[str, Any]:
    return {"type": "abort"} | ({"reason": abort.reason} if abort.reason else {})


def _emotion_body(emotion: Emotion) -> dict[str, Any]:
    body = {"type": "llm", "emotion": emotion.emotion}
    return body | ({"text": emotion.text} if emotion.text else {})


_BODIES: Mapping[type[Message], Callable[[Any], dict[str, Any]]] = MappingProxyType(
    {
        Hello: _hello_body,
        ListenStart: lambda m: {"type": "listen", "state": "start", "mode": m.mode},
        ListenStop: lambda m: {"type": "listen", "state": "stop"},
        Detect: lambda m: {"type": "listen", "state": "detect", "text": m.text},
        Abort: _abort_body,
        Mcp: lambda m: {"type": "mcp", "payload": m.payload},
        Ping: lambda m: {"type": "ping"},
        Goodbye: lambda m: {"type": "goodbye"},
        Other: lambda m: {"type": m.type},
        ServerHello: _server_hello_body,
        Stt: lambda m: {"type": "stt", "text": m.text},
        TtsStart: lambda m: {"type": "tts", "state": "start"},
        SentenceStart: lambda m: {"type": "tts", "state": "sentence_start", "text": m.text},
        TtsStop: lambda m: {"type": "tts", "state": "stop"},
        Emotion: _emotion_body,
        Alert: lambda m: {
            "type": "alert",
            "status": m.status,
            "message": m.message,
            "emotion": m.emotion,
        },
        McpRequest: lambda m: {"type": "mcp", "payload": m.payload},
        System: lambda m: {"type": "system", "command": m.command},
        Pong: lambda m: {"type": "pong"},
    }
)
