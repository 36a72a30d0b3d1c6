"""Errors of engines in words: for the log, and short ones for people at a board."""

from __future__ import annotations

from duet_trio.engines.contracts import EngineKind
from duet_trio.errors import (
    UNREADABLE,
    EngineCrashedError,
    EngineFailedError,
    EngineHungError,
    EngineUnavailableError,
    UnreadableError,
)

NAMES: dict[EngineKind, str] = {
    "asr": "speech recognition",
    "llm": "the language model",
    "tts": "the voice",
}


def hung(kind: EngineKind, detail: str) -> EngineHungError:
    """A deadline passed."""
    return EngineHungError(
        f"{kind}: {detail}", engine=kind, reason=f"{NAMES[kind]} stopped responding"
    )


def crashed(kind: EngineKind, detail: str) -> EngineCrashedError:
    """The process is gone or mad."""
    return EngineCrashedError(f"{kind}: {detail}", engine=kind, reason=f"{NAMES[kind]} crashed")


def failed(kind: EngineKind, detail: str, reason: str = "") -> EngineFailedError:
    """The engine said so itself, maybe with words for people."""
    if reason == UNREADABLE:
        return UnreadableError(detail)
    return EngineFailedError(
        f"{kind}: {detail.removeprefix(f'{kind}: ')}",
        engine=kind,
        reason=reason or f"{NAMES[kind]} reported an error",
    )


def unavailable(kind: EngineKind, detail: str) -> EngineUnavailableError:
    """Not ready, and not soon."""
    return EngineUnavailableError(
        f"{kind}: {detail}", engine=kind, reason=f"{NAMES[kind]} is not ready"
    )
