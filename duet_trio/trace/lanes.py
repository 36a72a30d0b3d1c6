"""The lanes of a trace plot: LLM, TTS, PCM, packets, playback, and the marks across them.

All times are drawn relative to ``origin`` (trace time of the panel's first question).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from duet_trio.trace.answers import PieceSpeech, RawAnswer
from duet_trio.trace.statistics import LATE_GAP_S
from duet_trio.trace.timing import FRAME_S, Span, playback

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, SKY, GREEN = "#0072B2", "#E69F00", "#56B4E9", "#009E73"
VERMILION, PURPLE, GREY = "#D55E00", "#CC79A7", "#555555"
DRY_FILL, DRY_HATCH = "#FBE3D6", "////"

#: Lanes from top to bottom: name and the height at which its bars begin.
LANES = {"LLM": 4.0, "TTS": 3.0, "PCM": 2.0, "packets": 1.0, "playback": 0.0}
HEIGHT = 0.7


def _bars(
    ax: Axes, lane: str, spans: Iterable[Span], origin: float, colour: str, alpha: float = 1.0
) -> None:
    ax.broken_barh(
        [(span.start - origin, span.end - span.start) for span in spans],
        (LANES[lane], HEIGHT),
        facecolors=colour,
        edgecolors="white",
        linewidth=0.4,
        alpha=alpha,
    )


def draw_llm(ax: Axes, answer: RawAnswer, origin: float) -> None:
    """Bars where the LLM held the turn; without turns, from start to end."""
    spans = _holds(answer, "llm")
    if not spans and answer.llm_first is not None:  # an engine that needs no turn
        spans = [Span(answer.origin, answer.llm_end or answer.last_seen)]
    _bars(ax, "LLM", spans, origin, BLUE)


def draw_voice(ax: Axes, answer: RawAnswer, origin: float) -> None:
    """Pale: asked, and waiting for the turn or without a sound; full: at work."""
    spans = [Span(piece.asked, _speech_end(answer, piece)) for piece in answer.speech]
    holds = _holds(answer, "tts")
    silent = [
        span for piece, span in zip(answer.speech, spans, strict=True) if holds or not piece.blocks
    ]
    _bars(ax, "TTS", silent, origin, ORANGE, alpha=0.35)
    _bars(ax, "TTS", [span for span in spans if span not in silent], origin, ORANGE)
    _bars(ax, "TTS", holds, origin, ORANGE)
    for piece, span in zip(answer.speech, spans, strict=True):
        ax.text(
            span.start - origin + 0.03,
            LANES["TTS"] + HEIGHT / 2,
            str(piece.index),
            fontsize=7,
            va="center",
            clip_on=True,
        )
    # A block's height is its audio: a burst of a second fills the lane.
    blocks = answer.arrivals
    ax.bar(
        [t - origin for t, _ in blocks],
        [HEIGHT * min(1.0, max(0.08, audio_s)) for _, audio_s in blocks],
        width=0.03,
        bottom=LANES["PCM"],
        color=SKY,
        edgecolor=BLUE,
        linewidth=0.4,
        align="edge",
    )


def draw_packets(ax: Axes, answer: RawAnswer, origin: float) -> None:
    """A tick per packet; a late one is thicker, longer and vermilion."""
    times = [packet.t for packet in answer.packets]
    late = {after for before, after in itertools.pairwise(times) if after - before > LATE_GAP_S}
    low, high = LANES["packets"], LANES["packets"] + HEIGHT
    on_time = [t - origin for t in times if t not in late]
    ax.vlines(on_time, low, high - 0.15, color=GREY, linewidth=0.5)
    ax.vlines([t - origin for t in late], low, high, color=VERMILION, linewidth=1.4)


def draw_playback(ax: Axes, answer: RawAnswer, origin: float, buffer_s: float) -> None:
    """What the player did: sounding, or dry."""
    spans = player(answer, buffer_s)
    _bars(ax, "playback", spans, origin, GREEN)
    for before, after in itertools.pairwise(spans):
        ax.broken_barh(
            [(before.end - origin, after.start - before.end)],
            (LANES["playback"], HEIGHT),
            facecolors=DRY_FILL,
            edgecolors=VERMILION,
            hatch=DRY_HATCH,
            linewidth=1.2,
            zorder=3,
        )
        middle = (before.end + after.start) / 2 - origin
        ax.plot([middle], [LANES["playback"] + HEIGHT + 0.1], "v", color=VERMILION, markersize=5)


def draw_marks(ax: Axes, answer: RawAnswer, origin: float) -> None:
    """Vertical lines: question, abort, fault, failure."""
    ax.axvline(answer.origin - origin, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    if answer.start is not None:
        ax.text(
            answer.start - origin,
            5.2,
            f" question {answer.generation}",
            fontsize=7,
            color=GREY,
            va="top",
        )
    for t, cause in answer.aborts[:1]:
        ax.axvline(t - origin, color=PURPLE, linewidth=1.6, linestyle="--", zorder=4)
        ax.text(
            t - origin,
            4.95,
            f" abort: {cause}" if cause else " abort",
            fontsize=8,
            color="#8A3D6B",
            va="top",
            fontweight="bold",
        )
    if answer.outcome == "failed" and answer.end is not None:
        ax.axvline(answer.end - origin, color=VERMILION, linewidth=1.2, zorder=4)
        ax.text(
            answer.end - origin,
            4.95,
            f" failed: {answer.cause}" if answer.cause else " failed",
            fontsize=8,
            color=VERMILION,
            va="top",
            fontweight="bold",
        )
    for t, what in answer.faults:
        ax.axvline(t - origin, color=VERMILION, linewidth=1.2, linestyle=":", zorder=4)
        ax.text(t - origin, 4.95, f" {what}", fontsize=8, color=VERMILION, va="top")


def _speech_end(answer: RawAnswer, piece: PieceSpeech) -> float:
    """When the voice ended a piece; a piece without an end was given up with the answer."""
    if piece.ended is not None:
        return piece.ended
    given_up = answer.end if answer.aborted_at is None else answer.aborted_at
    return max(piece.asked, answer.last_seen if given_up is None else given_up)


def _holds(answer: RawAnswer, who: str) -> list[Span]:
    return [Span(turn.t - turn.held_s, turn.t) for turn in answer.turns if turn.who.startswith(who)]


def player(answer: RawAnswer, buffer_s: float) -> list[Span]:
    """When the player sounded: fed with packets, or with PCM if none were sent."""
    if not answer.packets:
        return playback(answer.arrivals, buffer_s)
    return playback([(packet.t, FRAME_S) for packet in answer.packets], buffer_s)
