"""What happened to a simulated board: the record of a conversation and its figures.

Times are seconds on the board's own axis, which begins when the client starts; None means
that it never came.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from duet_trio.board.fingerprint import fingerprints, generation_of, tone_hz
from duet_trio.board.playback import Heard, Stall, render

__all__ = [
    "BoardResult",
    "Gaps",
    "Turn",
    "fingerprints",
    "gaps",
    "generation_of",
    "tone_hz",
]

#: A gap between two 60 ms packets that is longer than this counts as late.
LATE_GAP_MS = 65.0


@dataclass(frozen=True, slots=True)
class Gaps:
    """The spaces between the packets of an answer, in ms (0 where there are none)."""

    count: int
    mean_ms: float
    late_share: float  # longer than `LATE_GAP_MS`
    p999_ms: float
    largest_ms: float


def gaps(arrivals_s: Sequence[float]) -> Gaps:
    """Measure the spaces between successive arrivals."""
    spaces = [1000 * (after - before) for before, after in itertools.pairwise(arrivals_s)]
    if not spaces:
        return Gaps(0, 0.0, 0.0, 0.0, 0.0)
    return Gaps(
        count=len(spaces),
        mean_ms=float(np.mean(spaces)),
        late_share=sum(space > LATE_GAP_MS for space in spaces) / len(spaces),
        p999_ms=float(np.quantile(spaces, 0.999)),
        largest_ms=max(spaces),
    )


@dataclass(slots=True)
class Turn:
    """One question and its answer; ``question`` is empty where the server began by itself.

    ``question_end_s``: the last spoken packet, the released key, or the typed text was sent.
    ``frames_after_abort``: packets that arrived after our abort and before any new
    ``tts start``; those already under way when it was sent are among them.
    ``frames_after_stop``: packets between a ``tts stop`` and the next start. Should be 0.
    """

    question: str
    asked_s: float
    question_end_s: float | None = None
    stt_s: float | None = None
    transcript: str = ""
    tts_start_s: float | None = None
    first_packet_s: float | None = None
    tts_stop_s: float | None = None
    abort_s: float | None = None
    sentences: list[tuple[float, str]] = field(default_factory=list)
    arrivals_s: list[float] = field(default_factory=list)
    packets_played: int = 0  # accepted by the board
    frames_after_abort: int = 0
    frames_after_stop: int = 0
    starts: int = 0
    stops: int = 0
    alerts: list[str] = field(default_factory=list)
    emotions: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the server has ended an answer to it."""
        return self.stops > 0

    @property
    def answer(self) -> str:
        """The sentences that were shown, as one text."""
        return " ".join(text for _at, text in self.sentences)

    @property
    def first_audio_s(self) -> float | None:
        """From the end of the question to the first packet of its answer."""
        if self.question_end_s is None or self.first_packet_s is None:
            return None
        return self.first_packet_s - self.question_end_s

    @property
    def abort_to_stop_s(self) -> float | None:
        """From our abort to the ``tts stop`` that answers it."""
        if self.abort_s is None or self.tts_stop_s is None or self.tts_stop_s < self.abort_s:
            return None
        return self.tts_stop_s - self.abort_s

    @property
    def gaps(self) -> Gaps:
        """The spaces between its packets."""
        return gaps(self.arrivals_s)


@dataclass(slots=True)
class BoardResult:
    """All that one simulated board lived through. ``failure`` is empty if nothing broke."""

    device_id: str
    firmware: str
    mode: str
    origin_s: float  # the clock's time at which this axis begins
    sample_rate_hz: int
    session_id: str = ""
    failure: str = ""
    turns: list[Turn] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)  # on the clock's axis
    stalls: list[Stall] = field(default_factory=list)  # on the board's axis
    packets_sent: int = 0
    packets_refused: int = 0  # came while the board was not speaking
    packets_dropped: int = 0  # its queue was full
    packets_damaged: int = 0
    bad_messages: list[str] = field(default_factory=list)  # what a board could not read

    @property
    def answered(self) -> bool:
        """Whether any answer was heard."""
        return any(turn.packets_played for turn in self.turns)

    @property
    def stall_s(self) -> float:
        """All stalls together."""
        return sum(stall.duration_s for stall in self.stalls)

    def heard_pcm(self, start_s: float = 0.0, end_s: float | None = None) -> bytes:
        """Return what was heard from ``start_s`` on, silence included; s16le mono PCM."""
        end = None if end_s is None else self.origin_s + end_s
        return render(self.heard, self.sample_rate_hz, self.origin_s + start_s, end)

    def heard_fingerprints(self) -> list[tuple[float, int | None]]:
        """Return for each packet heard its start and the scripted generation in its sound."""
        return [
            (sound.start_s - self.origin_s, generation_of(sound.pcm, self.sample_rate_hz))
            for sound in self.heard
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the sound, ready for JSON."""
        return {
            "device_id": self.device_id,
            "firmware": self.firmware,
            "mode": self.mode,
            "session_id": self.session_id,
            "failure": self.failure,
            "answered": self.answered,
            "turns": [_turn_dict(turn) for turn in self.turns],
            "stalls": [[_ms(s.start_s), _ms(s.duration_s)] for s in self.stalls],
            "stall_s": _ms(self.stall_s),
            "heard_s": _ms(sum(sound.duration_s for sound in self.heard)),
            "packets_sent": self.packets_sent,
            "packets_refused": self.packets_refused,
            "packets_dropped": self.packets_dropped,
            "packets_damaged": self.packets_damaged,
            "bad_messages": self.bad_messages,
        }


def _turn_dict(turn: Turn) -> dict[str, Any]:
    spaces = turn.gaps
    return {
        "question": turn.question,
        "transcript": turn.transcript,
        "sentences": [[_ms(at), text] for at, text in turn.sentences],
        "asked_s": _ms(turn.asked_s),
        "question_end_s": _ms(turn.question_end_s),
        "stt_s": _ms(turn.stt_s),
        "tts_start_s": _ms(turn.tts_start_s),
        "first_packet_s": _ms(turn.first_packet_s),
        "tts_stop_s": _ms(turn.tts_stop_s),
        "abort_s": _ms(turn.abort_s),
        "first_audio_s": _ms(turn.first_audio_s),
        "abort_to_stop_s": _ms(turn.abort_to_stop_s),
        "packets": len(turn.arrivals_s),
        "packets_played": turn.packets_played,
        "gaps": {
            "mean_ms": round(spaces.mean_ms, 2),
            "late_share": round(spaces.late_share, 5),
            "p999_ms": round(spaces.p999_ms, 2),
            "largest_ms": round(spaces.largest_ms, 2),
        },
        "frames_after_abort": turn.frames_after_abort,
        "frames_after_stop": turn.frames_after_stop,
        "starts": turn.starts,
        "stops": turn.stops,
        "alerts": turn.alerts,
        "emotions": turn.emotions,
    }


def _ms(value: float | None) -> float | None:
    """Round to a millisecond."""
    return None if value is None else round(value, 3)
