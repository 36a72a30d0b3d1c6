"""From a stream of events to one `RawAnswer` per answer, in memory bounded by live answers.

An answer is handed out some seconds of trace time after its ``answer.end``, so that what is
still written for it (``tts.stop``, or packets that should not exist) belongs to it.
Everything is tolerated that a cut-off trace lacks: an answer without a start or an end, a
field that is missing or of a wrong type.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from duet_trio.trace.recorder import Event
from duet_trio.trace.timing import Arrival

#: Trace time for which a finished answer still takes events.
GRACE_S = 5.0
#: A spoken question and the answer to it are at most this far apart (recognition's deadline
#: is 10 s, waiting for admission comes on top); an older end of speech belongs to something else.
QUESTION_S = 30.0


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
            case "tts.start" | "tts.end" | "pcm":
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
            piece.blocks.append((t, (number(event, "audio_ms") or 0.0) / 1e3))
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


class Gatherer:
    """Sorts events into answers. ``board``: only this Device-Id (upper or lower case)."""

    def __init__(self, board: str | None = None) -> None:
        self._board = board.lower() if board else None
        self._open: dict[int, RawAnswer] = {}
        self._closing: deque[tuple[float, int]] = deque()
        self._over: set[int] = set()
        self._speech_end: dict[str, float] = {}
        self._speech_start: dict[str, float] = {}
        self.run = 0
        self.starts: list[Event] = []  # the ``trace.start`` events
        self.dropped = 0  # events that the recorder reports as lost
        self.late_stale = 0  # packets of answers that were over for longer than `GRACE_S`

    def add(self, event: Event) -> list[RawAnswer]:
        """Take one event; returns the answers that are complete now (mostly none)."""
        name, t = event["event"], event["t"]
        if name == "trace.start":
            complete = self.finish()
            self.starts.append(event)
            self.run += 1
            self._over.clear()
            self._speech_end.clear()
            self._speech_start.clear()
            return complete
        if name == "trace.dropped":
            self.dropped += whole(event, "count")
        board, generation = event.get("board"), event.get("generation")
        if self._board is None or (board or "").lower() == self._board:
            if generation is not None:
                self._add_to_answer(event, generation)
            elif board is not None and name == "speech.start":
                self._speech_start[board] = t
            elif board is not None and name == "speech.end":
                self._speech_end[board] = t - (number(event, "endpoint_ms") or 0.0) / 1e3
        return self._due(t)

    def finish(self) -> list[RawAnswer]:
        """Return all answers that are still open: the run is over."""
        complete = list(self._open.values())
        self._open.clear()
        self._closing.clear()
        return complete

    def _add_to_answer(self, event: Event, generation: int) -> None:
        if generation in self._over:
            self.late_stale += event["event"] == "sent"
            return
        name, t, board = event["event"], event["t"], event.get("board")
        answer = self._open.get(generation)
        if answer is None:
            answer = RawAnswer(self.run, generation, first_seen=t)
            self._open[generation] = answer
        answer.take(event)
        if name == "answer.start" and board is not None:
            ended = self._speech_end.pop(board, None)
            if ended is not None and t - ended <= QUESTION_S:
                answer.user_end = ended
            # An answer whose end got lost must not stay open for ever.
            for other in self._open.values():
                if other.board == board and other is not answer:
                    self._closing.append((t + GRACE_S, other.generation))
        elif name == "answer.end":
            self._closing.append((t + GRACE_S, generation))
        elif name == "abort" and answer.packets and answer.voice_onset is None:
            onset = self._speech_start.get(board or "")
            if onset is not None and answer.packets[0].t < onset <= t:
                answer.voice_onset = onset

    def _due(self, now: float) -> list[RawAnswer]:
        complete: list[RawAnswer] = []
        while self._closing and self._closing[0][0] <= now:
            _, generation = self._closing.popleft()
            answer = self._open.pop(generation, None)
            if answer is not None:
                self._over.add(generation)
                complete.append(answer)
        return complete


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
