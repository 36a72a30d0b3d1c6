"""What a trace says about one answer, event by event, before anything is computed.

Everything is tolerated that a cut-off trace lacks: an answer without a start or an end, a
field that is missing or of a wrong type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from duet_trio.trace.records import Event
from duet_trio.trace.timing import Arrival

#: No voice delivers more at once; a larger number is damage, and replays count packets by it.
LONGEST_BLOCK_S = 600.0


@dataclass(slots=True)
class PieceSpeech:
    """One piece's TTS call. A piece that was tried twice has its last try here."""

    index: int
    text: str
    asked: float
    blocks: list[Arrival] = field(default_factory=list)
    ended: float | None = None
    capped: bool = False


@dataclass(slots=True)
class Packet:
    """One packet that left the writer."""

    t: float
    sequence: int
    due: float | None
    piece: int | None


@dataclass(slots=True)
class TurnUse:
    """One turn on the GPU: released at ``t``."""

    t: float
    who: str
    waited_s: float
    held_s: float
    reevaluated_tokens: int


@dataclass(slots=True)
class RawAnswer:
    """What the trace says about one answer; times in trace time."""

    run: int
    generation: int
    board: str | None = None
    client: str | None = None
    question: str = ""
    start: float | None = None
    end: float | None = None
    outcome: str | None = None
    cause: str | None = None
    first_seen: float = 0.0
    last_seen: float = 0.0
    user_end: float | None = None  # the user's speech ended (silence before the endpoint left out)
    voice_onset: float | None = None  # the user began to speak into this answer
    llm_first: float | None = None
    llm_end: float | None = None
    llm_tokens: int | None = None
    pieces: list[tuple[float, int, str]] = field(default_factory=list)
    speech: list[PieceSpeech] = field(default_factory=list)
    retries: int = 0
    queued: list[float] = field(default_factory=list)  # packets put into the outbox
    packets: list[Packet] = field(default_factory=list)
    controls: list[tuple[float, str]] = field(default_factory=list)
    stop_at: float | None = None
    stale: int = 0
    aborts: list[tuple[float, str]] = field(default_factory=list)
    turns: list[TurnUse] = field(default_factory=list)
    underruns: list[tuple[float, float]] = field(default_factory=list)
    start_hold_s: float | None = None
    admission_s: float | None = None
    faults: list[tuple[float, str]] = field(default_factory=list)

    @property
    def origin(self) -> float:
        """The question was accepted; if the trace doesn't tell, the first event."""
        return self.first_seen if self.start is None else self.start

    @property
    def arrivals(self) -> list[Arrival]:
        """All PCM in playing order."""
        return [block for piece in self.speech for block in piece.blocks]

    @property
    def aborted_at(self) -> float | None:
        """The first abort."""
        return self.aborts[0][0] if self.aborts else None

    def take(self, event: Event) -> None:
        """Add one event of this generation."""
        t = event["t"]
        self.last_seen = max(self.last_seen, t)
        if self.board is None:
            self.board = event.get("board")
        if self.client is None:
            self.client = text(event, "client") or None
        match event["event"]:
            case "answer.start":
                self.start = t
                self.question = text(event, "question")
            case "answer.end":
                self.end = t
                self.outcome = text(event, "outcome") or None
                self.cause = text(event, "cause") or None
            case "llm.first":
                self.llm_first = t if self.llm_first is None else self.llm_first
            case "llm.end":
                self.llm_end = t
                tokens = number(event, "tokens")
                self.llm_tokens = None if tokens is None else int(tokens)
            case "piece":
                self.pieces.append((t, whole(event, "index"), text(event, "text")))
            case "tts.start" | "tts.end" | "tts.skipped" | "pcm":
                self._take_speech(event)
            case "frame":
                self.queued.append(t)
            case "sent":
                self._take_sent(event)
            case "abort":
                self.aborts.append((t, text(event, "cause")))
            case "turn":
                self._take_turn(event)
            case "underrun":
                self.underruns.append((t, (number(event, "late_ms") or 0.0) / 1e3))
            case "start.hold":
                self.start_hold_s = (number(event, "held_ms") or 0.0) / 1e3
            case "admission":
                self.admission_s = (number(event, "waited_ms") or 0.0) / 1e3
            case "fault":
                self.faults.append((t, f"{text(event, 'seam')} {text(event, 'effect')}".strip()))

    def _take_speech(self, event: Event) -> None:
        t, index = event["t"], whole(event, "piece")
        piece = next((one for one in reversed(self.speech) if one.index == index), None)
        if event["event"] == "tts.start" or piece is None:
            if piece is not None:
                # A piece is tried again only if nothing of it went out.
                self.speech.remove(piece)
                self.retries += 1
            piece = PieceSpeech(index, text(event, "text"), t)
            self.speech.append(piece)
        if event["event"] == "pcm":
            audio_s = (number(event, "audio_ms") or 0.0) / 1e3
            piece.blocks.append((t, min(max(audio_s, 0.0), LONGEST_BLOCK_S)))
        elif event["event"] == "tts.skipped":
            piece.ended = t  # of a piece spoken in part, `tts.end` follows
        elif event["event"] == "tts.end":
            piece.ended = t
            piece.capped = event.get("capped") is True

    def _take_sent(self, event: Event) -> None:
        t, what = event["t"], text(event, "what")
        if self.stop_at is not None:
            self.stale += 1
        if what == "frame":
            self.packets.append(
                Packet(
                    t,
                    whole(event, "sequence"),
                    number(event, "due"),
                    whole(event, "piece") if "piece" in event else None,
                )
            )
        else:
            self.controls.append((t, what))
            if what == "tts.stop" and self.stop_at is None:
                self.stop_at = t

    def _take_turn(self, event: Event) -> None:
        self.turns.append(
            TurnUse(
                event["t"],
                text(event, "who"),
                (number(event, "waited_ms") or 0.0) / 1e3,
                (number(event, "held_ms") or 0.0) / 1e3,
                whole(event, "reevaluated_tokens"),
            )
        )


def number(event: Event, key: str) -> float | None:
    """Return a finite number, or None if the event has none under ``key``."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(event: Event, key: str) -> int:
    """Return a whole number; 0 if the event has none under ``key``."""
    return int(number(event, key) or 0)


def text(event: Event, key: str) -> str:
    """Return a string; empty if the event has none under ``key``."""
    value = event.get(key)
    return value if isinstance(value, str) else ""
