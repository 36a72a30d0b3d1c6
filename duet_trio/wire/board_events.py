"""What a board did, as `duet_trio.wire.board_state.BoardProtocol` reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duet_trio.wire.vocabulary import Hello, ListenMode


@dataclass(frozen=True, slots=True)
class Greeted:
    """The first hello: answer it at once, with nothing slow before it."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Audio:
    """One Opus packet of the uplink; ``opus`` may be empty or a byte or two (silence)."""

    opus: bytes
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class ListeningStarted:
    """The microphone has opened: a new utterance, whatever came before."""

    mode: ListenMode


@dataclass(frozen=True, slots=True)
class ListeningStopped:
    """The talk key was released: in manual mode the utterance is complete.

    A few packets may still follow.
    """


@dataclass(frozen=True, slots=True)
class WakeWord:
    """The board was called; not a question. ``text`` may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """Somebody typed this; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class AbortRequested:
    """The user interrupts: `TtsStop` must go out at once, even if nothing is playing."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class McpReply:
    """A JSON-RPC object from the board, unchecked: for `duet_trio.wire.mcp.McpClient`."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pinged:
    """Answer with `Pong`."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Understood, and of no consequence."""

    why: str


@dataclass(frozen=True, slots=True)
class BadInput:
    """One unusable frame; the session goes on."""

    error: str


BoardEvent = (
    Greeted
    | Audio
    | ListeningStarted
    | ListeningStopped
    | WakeWord
    | Question
    | AbortRequested
    | McpReply
    | Pinged
    | Ignored
    | BadInput
)
