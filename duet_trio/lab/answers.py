"""The answers in a trace, and where a board's latest one stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duet_trio.lab.puppet import FRAME_S

Event = Mapping[str, Any]
FRAME_MS = 1000 * FRAME_S


class Answer:
    """One answer in the trace."""

    def __init__(self, generation: int, board: str) -> None:
        self.generation = generation
        self.ready: list[float] = []  # when the PCM of each packet was there
        self._piece = -1
        self._rest_ms = 0.0
        self.board = board
        self.question = ""
        self.session = 0
        self.sent: list[Event] = []
        self.pieces: list[str] = []
        self.effects: set[str] = set()
        self.ends: list[Event] = []
        self.aborted_at: float | None = None
        self.connection_lost = False

    def pcm(self, event: Event) -> None:
        """Note a block of speech: which packets it completes."""
        if event["piece"] != self._piece:
            self._end_piece(event["t"])
            self._piece = event["piece"]
        self._rest_ms += event["audio_ms"]
        while self._rest_ms >= FRAME_MS:
            self._rest_ms -= FRAME_MS
            self.ready.append(event["t"])

    def _end_piece(self, at: float) -> None:
        if self._rest_ms > FRAME_MS / 100:
            self.ready.append(at)
        self._rest_ms = 0.0

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(self.pieces)

    @property
    def heard(self) -> str:
        """What the trace says was heard."""
        return str(self.ends[0]["heard"]) if self.ends else ""

    @property
    def outcome(self) -> str:
        """How it ended."""
        return str(self.ends[0]["outcome"]) if self.ends else ""


def answers_of(events: Iterable[Event]) -> dict[int, Answer]:
    """The answers in a trace, by generation."""
    found: dict[int, Answer] = {}
    sessions: dict[str, int] = defaultdict(int)
    for event in events:
        name = str(event["event"])
        board = str(event.get("board"))
        generation = int(event.get("generation") or 0)
        if name == "board.open":
            sessions[board] += 1
        if name == "board.close":
            for one in found.values():
                one.connection_lost |= one.board == board and not _stopped(one)
        if name == "answer.start":
            found[generation] = Answer(generation, board)
            found[generation].session = sessions[board]
            found[generation].question = event["question"]
        if generation not in found:
            continue
        _note(found[generation], name, event)
    return found


def _note(answer: Answer, name: str, event: Event) -> None:
    match name:
        case "sent":
            answer.sent.append(event)
        case "pcm":
            answer.pcm(event)
        case "piece":
            answer.pieces.append(event["text"])
        case "fault":
            answer.effects.add(event["effect"])
        case "answer.end":
            answer.ends.append(event)
        case "abort":
            answer.aborted_at = event["t"]
        case _:
            pass


def _stopped(answer: Answer) -> bool:
    return any(event["what"] == "tts.stop" for event in answer.sent)


def phase(events: Sequence[Event], board: str) -> str:
    """Where the board's latest answer stands."""
    seen: dict[str, int] = defaultdict(int)
    for event in reversed(events):
        if event.get("board") != board:
            continue
        name = event["event"]
        if name in ("answer.end", "board.open"):
            return "idle"
        seen[name] += 1
        if name == "answer.start":
            return _phase(seen)
    return "idle"


def _phase(seen: Mapping[str, int]) -> str:
    if not seen["llm.first"]:
        return "prefill"
    if not seen["piece"]:
        return "first piece"
    if not seen["pcm"]:
        return "before the first block"
    speaking = seen["tts.start"] > seen["tts.end"]
    if seen["llm.end"] and not speaking and seen["tts.end"] >= seen["piece"]:
        return "draining"
    if speaking:
        return "mid-piece" if seen["llm.end"] else "mid-piece, LLM paused"
    return "between pieces"
