"""The figures of a trace: per answer and in total. The one place where they are computed.

All tools (``duet trace``, ``duet bench``, the console, the tests) take their figures from
here. Pure: events in, figures out; no clock, no files.

Two figures carry names that voice-agent benchmarks use. *Response latency*: from the end
of the user's speech to the first sound of the agent. *Yield latency*: from the moment at
which the user begins to interrupt to the moment at which the agent is silent. Both are seen
from the server: the network and the board's own buffers come on top.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from duet_trio.trace.answers import PieceSpeech, RawAnswer
from duet_trio.trace.figures import AnswerStatistics, FigureSummary, Statistics
from duet_trio.trace.gather import Gatherer
from duet_trio.trace.records import Event
from duet_trio.trace.timing import (
    FRAME_S,
    Arrival,
    Distribution,
    Stall,
    gaps,
    playback,
    stalls,
    start_delay,
)

__all__ = [
    "BUFFER_S",
    "LATE_GAP_S",
    "AnswerStatistics",
    "Collector",
    "FigureSummary",
    "Stall",
    "Statistics",
    "evaluate",
    "evaluate_events",
    "lateness",
    "stalls",
    "start_delay",
]

#: Buffer of the simulated player: the 0.3 s against which the reference figures were taken.
BUFFER_S = 0.3
#: Packets leave every 60 ms; a gap of more than 65 ms between two is a late packet.
LATE_GAP_S = 0.065


def evaluate(
    answer: RawAnswer, *, buffer_s: float = BUFFER_S, frame_s: float = FRAME_S
) -> AnswerStatistics:
    """Compute the figures of one answer.

    Stalls and start delay count audio up to the abort, if there was one. *Heard after the
    abort* is the end of playback of everything sent, minus the time of the abort: stock
    firmware from 2.2 on plays out what it has, older ones and a flush are silent sooner, so
    it is an upper bound (about the lead). *Yield latency* runs from the onset of the user's
    voice (``speech.start`` during the answer; for a button the abort itself) to that same
    end of playback; None if nothing was sounding any more.
    """
    origin = answer.origin
    abort = answer.aborted_at
    arrivals = _until(answer.arrivals, abort)
    sent: list[Arrival] = [(packet.t, frame_s) for packet in answer.packets]
    dry = stalls(arrivals, buffer_s)
    board_dry = stalls(_until(sent, abort), 0.0)
    times = [packet.t for packet in answer.packets]
    distances = gaps(times)
    late = lateness(answer)
    rtfs = [rtf for piece in answer.speech if (rtf := piece_rtf(piece)) is not None]
    first_piece = min(answer.speech, key=lambda piece: piece.index, default=None)
    llm = [turn for turn in answer.turns if turn.who.startswith("llm")]
    tts = [turn for turn in answer.turns if turn.who.startswith("tts")]

    def since_start(t: float | None) -> float | None:
        return None if t is None or answer.start is None else _rounded(t - origin)

    first_sent = times[0] if times else None
    return AnswerStatistics(
        run=answer.run,
        generation=answer.generation,
        board=answer.board,
        client=answer.client,
        question=answer.question,
        started_at=_rounded(origin),
        outcome=answer.outcome or ("unfinished" if answer.end is None else "unknown"),
        cause=answer.cause or (answer.aborts[0][1] if answer.aborts else None),
        duration_s=since_start(answer.end),
        first_token_s=since_start(answer.llm_first),
        first_piece_s=since_start(answer.pieces[0][0] if answer.pieces else None),
        first_block_s=since_start(_first_time(arrivals)),
        first_audio_s=since_start(first_sent),
        llm_end_s=since_start(answer.llm_end),
        response_s=(
            None
            if first_sent is None or answer.user_end is None
            else _rounded(first_sent - answer.user_end)
        ),
        admission_s=answer.admission_s,
        start_hold_s=answer.start_hold_s,
        pieces=len(answer.pieces),
        spoken_pieces=sum(_audio(piece.blocks) > 0 for piece in answer.speech),
        retries=answer.retries,
        capped=sum(piece.capped for piece in answer.speech),
        audio_s=_rounded(_audio(answer.arrivals)),
        rtfs=[_rounded(rtf) for rtf in rtfs],
        first_rtf=_optional(piece_rtf(first_piece) if first_piece else None),
        median_rtf=_optional(statistics.median(rtfs) if rtfs else None),
        stalls=len(dry),
        stall_s=_rounded(sum(one.duration_s for one in dry)),
        stall_list=[Stall(_rounded(one.at - origin), _rounded(one.duration_s)) for one in dry],
        start_delay_s=_rounded(start_delay(arrivals)) if _audio(arrivals) else None,
        packets=len(times),
        packet_stalls=len(board_dry),
        packet_stall_s=_rounded(sum(one.duration_s for one in board_dry)),
        late_packets=sum(gap > LATE_GAP_S for gap in distances),
        largest_gap_s=_optional(max(distances, default=None)),
        underruns=len(answer.underruns),
        lateness_p50_s=_optional(late.quantile(0.5)),
        lateness_p99_s=_optional(late.quantile(0.99)),
        lateness_max_s=_optional(late.quantile(1)),
        llm_turns=len(llm),
        llm_waited_s=_rounded(sum(turn.waited_s for turn in llm)),
        llm_held_s=_rounded(sum(turn.held_s for turn in llm)),
        tts_turns=len(tts),
        tts_waited_s=_rounded(sum(turn.waited_s for turn in tts)),
        tts_held_s=_rounded(sum(turn.held_s for turn in tts)),
        longest_wait_s=_optional(max((turn.waited_s for turn in answer.turns), default=None)),
        reevaluated_tokens=sum(turn.reevaluated_tokens for turn in answer.turns),
        abort_to_stop_s=(
            None
            if abort is None or answer.stop_at is None or answer.stop_at < abort
            else _rounded(answer.stop_at - abort)
        ),
        packets_after_abort=None if abort is None else sum(t > abort for t in times),
        heard_after_abort_s=_heard_after(sent, abort),
        yield_s=_yield_latency(answer, sent),
        stale=answer.stale,
    )


def lateness(answer: RawAnswer) -> Distribution:
    """How late the server wrote its packets, against their due times (never below 0)."""
    return Distribution(
        max(0.0, packet.t - packet.due) for packet in answer.packets if packet.due is not None
    )


def piece_rtf(piece: PieceSpeech) -> float | None:
    """Real-time factor: TTS request to last block, divided by its audio.

    None for a piece that didn't finish: half a piece says nothing about the whole. The
    request is ``tts.start``, so a wait for the turn counts, as it does for the listener.
    """
    audio_s = _audio(piece.blocks)
    if piece.ended is None or audio_s <= 0:
        return None
    return (piece.blocks[-1][0] - piece.asked) / audio_s


class Collector:
    """Feeds on events one by one and keeps figures, not events."""

    def __init__(self, *, buffer_s: float = BUFFER_S, board: str | None = None) -> None:
        self._buffer_s = buffer_s
        self._gatherer = Gatherer(board)
        self._answers: list[AnswerStatistics] = []
        self._lateness = Distribution()

    def add(self, event: Event) -> list[AnswerStatistics]:
        """Take one event; returns the answers that became complete by it (mostly none)."""
        return self._evaluate(self._gatherer.add(event))

    def finish(self) -> Statistics:
        """End the run and return the figures of everything taken so far."""
        self._evaluate(self._gatherer.finish())
        answers = sorted(self._answers, key=lambda one: (one.run, one.generation))
        return Statistics(
            buffer_s=self._buffer_s,
            answers=answers,
            outcomes=dict(Counter(one.outcome for one in answers)),
            causes=dict(
                Counter(one.cause or "unknown" for one in answers if one.outcome != "done")
            ),
            figures=_summaries(answers),
            stale=sum(one.stale for one in answers) + self._gatherer.late_stale,
            peak_rss_mb=self._gatherer.peak_rss_mb,
            lateness_p50_s=_optional(self._lateness.quantile(0.5)),
            lateness_p99_s=_optional(self._lateness.quantile(0.99)),
            lateness_max_s=_optional(self._lateness.quantile(1)),
            dropped_events=self._gatherer.dropped,
            runs=list(self._gatherer.starts),
        )

    def _evaluate(self, complete: Iterable[RawAnswer]) -> list[AnswerStatistics]:
        found = []
        for answer in complete:
            found.append(evaluate(answer, buffer_s=self._buffer_s))
            self._lateness.merge(lateness(answer))
        self._answers += found
        return found


def evaluate_events(
    events: Iterable[Event], *, buffer_s: float = BUFFER_S, board: str | None = None
) -> Statistics:
    """Return the figures of ``events`` (a `TraceFile`, a `ListRecorder`, any of the kind)."""
    collector = Collector(buffer_s=buffer_s, board=board)
    for event in events:
        collector.add(event)
    return collector.finish()


def _summaries(answers: Sequence[AnswerStatistics]) -> dict[str, FigureSummary]:
    result = {}
    for name, kind in AnswerStatistics.__annotations__.items():
        if name in ("run", "generation") or not kind.startswith(("int", "float")):
            continue
        values = [value for one in answers if (value := getattr(one, name)) is not None]
        if values:
            result[name] = FigureSummary(
                len(values),
                _rounded(statistics.fmean(values)),
                min(values),
                _rounded(statistics.median(values)),
                max(values),
            )
    return result


def _until(arrivals: Sequence[Arrival], limit: float | None) -> list[Arrival]:
    return [one for one in arrivals if limit is None or one[0] <= limit]


def _audio(arrivals: Iterable[Arrival]) -> float:
    return sum(audio_s for _, audio_s in arrivals)


def _first_time(arrivals: Iterable[Arrival]) -> float | None:
    return next((t for t, audio_s in arrivals if audio_s > 0), None)


def _heard_after(sent: Sequence[Arrival], abort: float | None) -> float | None:
    spans = playback(sent)
    if abort is None or not spans:
        return None if abort is None else 0.0
    return _rounded(max(0.0, spans[-1].end - abort))


def _yield_latency(answer: RawAnswer, sent: Sequence[Arrival]) -> float | None:
    spans = playback(sent)
    if answer.aborted_at is None or not spans or spans[-1].end <= answer.aborted_at:
        return None
    onset = answer.aborted_at if answer.voice_onset is None else answer.voice_onset
    return _rounded(spans[-1].end - onset)


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def _optional(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
