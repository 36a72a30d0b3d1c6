"""The figures that `statistics` computes: names, units and meanings."""

from __future__ import annotations

import msgspec

from duet_trio.trace.records import Event
from duet_trio.trace.timing import Stall


class AnswerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one answer. None: the trace doesn't tell, or it didn't happen.

    Times ending in ``_s`` are seconds; those of events count from ``answer.start``, that is
    from the accepted question.
    """

    run: int  # which ``trace.start`` of the file, from 1 (0: events before the first)
    generation: int
    board: str | None
    client: str | None
    question: str
    started_at: float  # trace time
    outcome: str  # done, aborted, failed; "unfinished" if the trace ends before the answer
    cause: str | None
    duration_s: float | None  # to answer.end

    first_token_s: float | None
    first_piece_s: float | None
    first_block_s: float | None  # the first PCM of the voice
    first_audio_s: float | None  # the first packet written to the board
    llm_end_s: float | None  # the LLM has written its last token
    response_s: float | None  # response latency: end of the user's speech -> first packet
    admission_s: float | None  # wait until enough of the machine was free
    start_hold_s: float | None  # deliberate wait of the pacer before the first packet

    pieces: int  # pieces of text
    spoken_pieces: int  # pieces with audio
    retries: int  # pieces that were tried a second time
    capped: int  # pieces cut at their longest allowed audio
    audio_s: float  # audio that the voice delivered
    rtfs: list[float]  # per finished piece: (TTS request -> last block) / its audio
    first_rtf: float | None
    median_rtf: float | None

    stalls: int  # a player with a buffer of N ms, fed with PCM as it arrived, runs dry
    stall_s: float
    stall_list: list[Stall]  # ``at`` counted from answer.start
    start_delay_s: float | None  # the wait after the first block that avoids every stall
    packets: int
    packet_stalls: int  # a player without a buffer, fed with the packets as they were sent
    packet_stall_s: float
    late_packets: int  # gaps of more than 65 ms between two packets
    largest_gap_s: float | None
    underruns: int  # noticed by the pacer
    lateness_p50_s: float | None  # packet written - packet due
    lateness_p99_s: float | None
    lateness_max_s: float | None

    llm_turns: int
    llm_waited_s: float  # for the GPU turn, all turns together
    llm_held_s: float
    tts_turns: int
    tts_waited_s: float
    tts_held_s: float
    longest_wait_s: float | None
    reevaluated_tokens: int  # prompt tokens that the LLM computed again

    abort_to_stop_s: float | None  # abort -> ``tts stop`` written
    packets_after_abort: int | None
    heard_after_abort_s: float | None  # what a board goes on playing if it plays out its queue
    yield_s: float | None  # yield latency: see `evaluate`
    stale: int  # anything of this answer written after its ``tts stop``; must be 0


class FigureSummary(msgspec.Struct, frozen=True):
    """One figure over several answers; those that lack it are left out."""

    count: int
    mean: float
    minimum: float
    median: float
    maximum: float


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a whole trace."""

    buffer_s: float
    answers: list[AnswerStatistics]
    outcomes: dict[str, int]
    causes: dict[str, int]  # of answers that weren't done
    figures: dict[str, FigureSummary]  # by field name of `AnswerStatistics`
    stale: int
    peak_rss_mb: float | None  # of the server process, from ``metrics``
    lateness_p50_s: float | None  # over all packets of all answers
    lateness_p99_s: float | None
    lateness_max_s: float | None
    dropped_events: int  # the recorder itself reports them as lost
    runs: list[Event]  # the ``trace.start`` events
