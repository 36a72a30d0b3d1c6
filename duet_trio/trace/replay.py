"""``duet trace replay``: send a recorded answer again, with other settings of the sender.

What the voice delivered, and when, is taken from the trace; the packets' times are computed
anew by the pacer's own arithmetic (`PaceSchedule`), on an ideal machine that sends at the due
time. So the effect of a lead, of a start hold or of a sender that holds back audio can be
seen without a GPU.

What a replay can't know: the level of the audio. The pacer keeps the quiet tail of a piece
until it knows whether more follows, so recorded packets near quiet passages can be up to
that tail (200 ms) later than replayed ones; in continuous speech they agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TextIO

import msgspec

from duet_trio.speech.pace import PaceSchedule
from duet_trio.trace.answers import PieceSpeech, RawAnswer
from duet_trio.trace.summary import figure
from duet_trio.trace.timing import FRAME_S, Stall, gaps, stalls

#: `PacerSection.first_packet_after_s`: boards flush late after ``tts start``.
FIRST_PACKET_AFTER_S = 0.12
_TINY_S = 1e-9


class SenderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to send. None: as it was recorded."""

    lead: int | None = None  # packets ahead of the board
    hold_back_s: float = 0.0  # audio kept at the end of each piece until the piece is complete
    start_hold_s: float | None = None  # wait before the first packet
    first_packet_after_s: float = FIRST_PACKET_AFTER_S
    frame_s: float = FRAME_S


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer's packets left (or would leave), against a player."""

    packets: int
    first_packet_s: float | None  # from the first PCM block
    stalls: list[Stall]  # ``at`` from the first PCM block
    stall_s: float
    largest_gap_s: float | None
    underruns: int


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as recorded and as replayed."""

    run: int
    generation: int
    lead: int
    start_hold_s: float
    recorded: Sending
    replayed: Sending
    difference_s: float | None  # largest distance of a replayed send from the recorded due time


def packets_ready(
    pieces: Sequence[PieceSpeech], *, hold_back_s: float = 0.0, frame_s: float = FRAME_S
) -> list[float]:
    """Return when each packet of an answer could be sent at the earliest.

    Pieces and packets coincide: a piece's last packet is filled with silence and complete
    when the voice has finished the piece. A piece without an end gives its whole packets.
    """
    ready: list[float] = []
    for piece in pieces:
        received = 0.0
        count = 0
        for t, audio_s in piece.blocks:
            received += audio_s
            whole = math.floor(max(0.0, received - hold_back_s) / frame_s + _TINY_S)
            ready += [t] * (whole - count)
            count = max(count, whole)
        if piece.ended is not None:
            total = math.ceil(received / frame_s - _TINY_S)
            ready += [piece.ended] * (total - count)
    return ready


def send_times(
    ready: Sequence[float],
    *,
    lead: int,
    earliest: float = -math.inf,
    start_hold_s: float = 0.0,
    frame_s: float = FRAME_S,
) -> tuple[list[float], int]:
    """Run the pacer's schedule over the packets; returns send times and underruns."""
    schedule = PaceSchedule(frame_s, lead=lead)
    times: list[float] = []
    previous = -math.inf
    for ready_at in ready:
        at = max(ready_at, previous)
        if not times:
            at = max(at, earliest) + start_hold_s
        due = schedule.due(at)
        schedule.sent(due)
        times.append(due)
        previous = due
    return times, schedule.underruns.count


def recorded_lead(answer: RawAnswer, *, frame_s: float = FRAME_S) -> int:
    """Return the lead that the recorded sender kept: the most packets it was ahead, 1 to 10.

    An answer whose audio was always late shows less than its setting.
    """
    if not answer.packets:
        return 1
    anchor = answer.packets[0].t
    ahead = [
        number + 1 - ((packet.t if packet.due is None else packet.due) - anchor) / frame_s
        for number, packet in enumerate(answer.packets)
    ]
    return min(10, max(1, *(round(one) for one in ahead))) if len(ahead) > 1 else 1


def replay(
    answer: RawAnswer, settings: SenderSettings | None = None, *, buffer_s: float = 0.0
) -> Replay | None:
    """Send an answer again; None if it has no audio. An aborted one is replayed to its abort.

    ``buffer_s`` is the buffer of the player that both are judged by (stock boards: none).
    """
    settings = settings or SenderSettings()
    first_block = next((t for t, audio_s in answer.arrivals if audio_s > 0), None)
    if first_block is None:
        return None
    limit = math.inf if answer.aborted_at is None else answer.aborted_at
    lead = recorded_lead(answer) if settings.lead is None else settings.lead
    hold = answer.start_hold_s or 0.0
    if settings.start_hold_s is not None:
        hold = settings.start_hold_s
    earliest = -math.inf if answer.start is None else answer.start + settings.first_packet_after_s
    frame_s = settings.frame_s
    times, underruns = send_times(
        packets_ready(answer.speech, hold_back_s=settings.hold_back_s, frame_s=frame_s),
        lead=lead,
        earliest=earliest,
        start_hold_s=hold,
        frame_s=frame_s,
    )
    times = [t for t in times if t <= limit]
    packets = [packet for packet in answer.packets if packet.t <= limit]
    sent = [packet.t for packet in packets]
    differences = [
        abs(t - packet.due)
        for t, packet in zip(times, packets, strict=False)
        if packet.due is not None
    ]
    return Replay(
        run=answer.run,
        generation=answer.generation,
        lead=lead,
        start_hold_s=hold,
        recorded=_judge(sent, first_block, buffer_s, frame_s, len(answer.underruns)),
        replayed=_judge(times, first_block, buffer_s, frame_s, underruns),
        difference_s=max(differences, default=None),
    )


def write_replays(replays: Sequence[Replay], out: TextIO) -> None:
    """Write recorded and replayed figures, two lines per answer, and a total."""
    for one in replays:
        out.write(
            f"answer {one.run}.{one.generation}, lead {one.lead} packets, "
            f"start hold {figure(one.start_hold_s)}\n"
        )
        for name, sending in (("recorded", one.recorded), ("replayed", one.replayed)):
            out.write(f"  {name}: {_describe(sending)}\n")
    total = [sum(len(side.stalls) for side in sides) for sides in _sides(replays)]
    seconds = [sum(side.stall_s for side in sides) for sides in _sides(replays)]
    differences = [one.difference_s for one in replays if one.difference_s is not None]
    out.write(
        f"total: recorded {total[0]} stalls ({figure(seconds[0])}), "
        f"replayed {total[1]} stalls ({figure(seconds[1])}); "
        f"packets moved by at most {figure(max(differences, default=None), 'ms')}\n"
    )


def _sides(replays: Sequence[Replay]) -> tuple[list[Sending], list[Sending]]:
    return [one.recorded for one in replays], [one.replayed for one in replays]


def _judge(
    times: Sequence[float], origin: float, buffer_s: float, frame_s: float, underruns: int
) -> Sending:
    found = stalls([(t, frame_s) for t in times], buffer_s)
    return Sending(
        packets=len(times),
        first_packet_s=round(times[0] - origin, 6) if times else None,
        stalls=[Stall(round(one.at - origin, 6), round(one.duration_s, 6)) for one in found],
        stall_s=round(sum(one.duration_s for one in found), 6),
        largest_gap_s=max((round(gap, 6) for gap in gaps(times)), default=None),
        underruns=underruns,
    )


def _describe(sending: Sending) -> str:
    if not sending.packets:
        return "no packets"
    text = (
        f"{sending.packets} packets, first {figure(sending.first_packet_s, 'ms')} after the "
        f"first PCM, largest gap {figure(sending.largest_gap_s, 'ms')}, "
        f"stalls {len(sending.stalls)}"
    )
    shown = [f"{figure(one.duration_s, 'ms')} at {figure(one.at)}" for one in sending.stalls[:4]]
    more = ", …" if len(sending.stalls) > len(shown) else ""
    return text + (f" ({', '.join(shown)}{more})" if shown else "")
