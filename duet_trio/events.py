"""What is recorded while the system runs: the names and fields of trace events.

This module is the bottom layer: everybody may emit, nobody here knows where events go.
``trace/`` holds the recorders that keep, print or write them.
"""

from __future__ import annotations

from typing import Protocol

Field = str | int | float | bool | None | list[str] | dict[str, str]

#: Every event and the fields that it always carries besides ``t``, ``event``, ``board``
#: (or ``client``) and ``generation``. Times end in ``_s`` or ``_ms``. A test walks this
#: table: an event that nobody emits, or that is emitted and not listed, fails the build.
EVENTS: dict[str, tuple[str, ...]] = {
    "trace.start": ("format", "wall_clock", "machine", "version", "config_digest"),
    "trace.dropped": ("count",),  # events that the writer had no room or no disk for
    "board.open": ("address",),
    "board.close": ("reason",),
    "speech.start": (),
    "speech.end": ("audio_ms", "endpoint_ms"),
    "stt": ("text", "asr_ms"),
    "answer.start": ("question",),
    "answer.end": ("outcome", "cause", "heard"),  # outcome: done | aborted | failed
    "llm.first": (),
    "llm.end": ("tokens",),
    "piece": ("index", "text"),
    "tts.start": ("piece", "text"),
    "tts.end": ("piece", "audio_ms", "capped"),
    "tts.skipped": ("piece", "text", "whole"),  # text that the voice cannot read
    "pcm": ("piece", "audio_ms"),
    "frame": ("sequence", "due"),  # into the outbox
    "sent": ("what",),  # left the writer; a frame carries ``sequence`` and ``due`` as well
    "control": ("what",),  # into the outbox
    "abort": ("cause",),
    "turn": ("who", "waited_ms", "held_ms"),  # the LLM's also ``reevaluated_tokens``
    "engine": ("engine", "state"),
    "fault": ("seam", "effect"),
    "metrics": ("rss_mb", "boards", "queued"),
    "peer.error": ("error",),
    "underrun": ("sequence", "late_ms"),
    "admission": ("waited_ms",),
    "start.hold": ("held_ms",),
}


class Recorder(Protocol):
    """Takes events. ``emit`` is synchronous, never blocks and never raises."""

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Record ``event`` now; ``board`` is a Device-Id, ``generation`` an answer's number."""


class NullRecorder:
    """Drops everything."""

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Do nothing."""
