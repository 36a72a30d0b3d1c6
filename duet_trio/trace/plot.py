"""``duet trace plot``: what LLM, voice, sender and player did, on one time axis.

One panel per run and board, five lanes each. Where the player ran dry the playback lane is
vermilion *and* hatched *and* marked from above, so it can be told without colours and at
any width. Colours are Okabe and Ito's, which colour-blind people can tell apart.

matplotlib is an optional extra (``plot``); it is imported when something is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.trace.gather import PieceSpeech, RawAnswer
from duet_trio.trace.statistics import LATE_GAP_S, evaluate
from duet_trio.trace.summary import figure
from duet_trio.trace.timing import FRAME_S, Span, playback

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, SKY, GREEN = "#0072B2", "#E69F00", "#56B4E9", "#009E73"
VERMILION, PURPLE, GREY = "#D55E00", "#CC79A7", "#555555"
DRY_HATCH = "////"
MAX_PANELS = 6

#: Lanes from top to bottom: name and the height at which its bars begin.
LANES = {"LLM": 4.0, "TTS": 3.0, "PCM": 2.0, "packets": 1.0, "playback": 0.0}
HEIGHT = 0.7


@dataclass(frozen=True, slots=True)
class PlotRun:
    """One trace to draw: its heading and its answers."""

    title: str
    answers: list[RawAnswer]


def draw(runs: Sequence[PlotRun], output: Path, *, buffer_s: float = 0.0) -> None:
    """Write the picture; its kind follows from the suffix of ``output``.

    ``buffer_s`` is the buffer of the player that is fed with the packets (an answer without
    packets, over HTTP: with the PCM). Raises `MissingLibraryError` without matplotlib and
    `UsageError` if the file can't be written or there are too many boards.
    """
    panels = [panel for run in runs for panel in _split_by_board(run)]
    if len(panels) > MAX_PANELS:
        raise UsageError(f"plot: {len(panels)} boards are too many; choose one with --board")
    picture = _new_figure(len(panels))
    axes = picture.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, panel, buffer_s)
    axes[-1].set_xlabel("seconds since the first question was accepted")
    _legend(picture, buffer_s)
    try:
        picture.savefig(output, dpi=150)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror or error})") from None
    except ValueError as error:
        kind = output.suffix or "no suffix"
        raise UsageError(f"{output}: cannot write {kind}; use .png, .svg or .pdf") from error


def _new_figure(panels: int) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingLibraryError(
            "plot: matplotlib is not installed; pip install 'duet-trio[plot]'"
        ) from None
    return Figure(figsize=(12, 2.5 * panels + 1.0), layout="constrained")


def _split_by_board(run: PlotRun) -> list[PlotRun]:
    names = list(dict.fromkeys(_who(answer) for answer in run.answers))
    if len(names) < 2:
        return [run]
    return [
        PlotRun(f"{run.title}, {name}", [one for one in run.answers if _who(one) == name])
        for name in names
    ]


def _who(answer: RawAnswer) -> str:
    return answer.board or answer.client or "no board"


def _draw_panel(ax: Axes, run: PlotRun, buffer_s: float) -> None:
    origin = min(answer.origin for answer in run.answers)
    for answer in run.answers:
        _draw_llm(ax, answer, origin)
        _draw_voice(ax, answer, origin)
        _draw_packets(ax, answer, origin)
        _draw_playback(ax, answer, origin, buffer_s)
        _draw_marks(ax, answer, origin)
    ax.set_yticks([y + HEIGHT / 2 for y in LANES.values()], list(LANES))
    ax.set_ylim(-0.25, 5.25)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.margins(x=0.01)
    ax.set_title(run.title, loc="left", fontsize=11, fontweight="bold")
    ax.set_title(_caption(run, buffer_s), loc="right", fontsize=9, color=GREY)


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


def _draw_llm(ax: Axes, answer: RawAnswer, origin: float) -> None:
    spans = _holds(answer, "llm")
    if not spans and answer.llm_first is not None:  # an engine that needs no turn
        spans = [Span(answer.origin, answer.llm_end or answer.last_seen)]
    _bars(ax, "LLM", spans, origin, BLUE)


def _draw_voice(ax: Axes, answer: RawAnswer, origin: float) -> None:
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


def _draw_packets(ax: Axes, answer: RawAnswer, origin: float) -> None:
    times = [packet.t for packet in answer.packets]
    late = {after for before, after in itertools.pairwise(times) if after - before > LATE_GAP_S}
    low, high = LANES["packets"], LANES["packets"] + HEIGHT
    on_time = [t - origin for t in times if t not in late]
    ax.vlines(on_time, low, high - 0.15, color=GREY, linewidth=0.5)
    ax.vlines([t - origin for t in late], low, high, color=VERMILION, linewidth=1.4)


def _draw_playback(ax: Axes, answer: RawAnswer, origin: float, buffer_s: float) -> None:
    spans = _player(answer, buffer_s)
    _bars(ax, "playback", spans, origin, GREEN)
    for before, after in itertools.pairwise(spans):
        ax.broken_barh(
            [(before.end - origin, after.start - before.end)],
            (LANES["playback"], HEIGHT),
            facecolors="#FBE3D6",
            edgecolors=VERMILION,
            hatch=DRY_HATCH,
            linewidth=1.2,
            zorder=3,
        )
        middle = (before.end + after.start) / 2 - origin
        ax.plot([middle], [LANES["playback"] + HEIGHT + 0.1], "v", color=VERMILION, markersize=5)


def _draw_marks(ax: Axes, answer: RawAnswer, origin: float) -> None:
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


def _player(answer: RawAnswer, buffer_s: float) -> list[Span]:
    if not answer.packets:
        return playback(answer.arrivals, buffer_s)
    return playback([(packet.t, FRAME_S) for packet in answer.packets], buffer_s)


def _caption(run: PlotRun, buffer_s: float) -> str:
    figures = [evaluate(answer) for answer in run.answers]
    spans = [_player(answer, buffer_s) for answer in run.answers]
    dry = [after.start - before.end for one in spans for before, after in itertools.pairwise(one)]
    first = [one.first_audio_s for one in figures if one.first_audio_s is not None]
    delays = [one.start_delay_s for one in figures if one.start_delay_s is not None]
    parts = [
        f"first audio {figure(first[0])}" if first else "no audio sent",
        f"ran dry {len(dry)}x, {figure(sum(dry))}" if dry else "never ran dry",
    ]
    if delays:
        parts.append(f"start delay {figure(max(delays))}")
    return "   ".join(parts)


def _legend(picture: Figure, buffer_s: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    player = f"a player with {buffer_s * 1000:g} ms buffer" if buffer_s else "the player"
    picture.legend(
        handles=[
            Patch(color=BLUE, label="LLM writes"),
            Patch(color=ORANGE, label="TTS speaks (pale: asked, waits)"),
            Patch(color=SKY, label="PCM block (height: audio)"),
            Line2D([], [], color=GREY, linewidth=1, label="packet"),
            Line2D([], [], color=VERMILION, linewidth=1.6, label="packet after > 65 ms"),
            Patch(color=GREEN, label="playing"),
            Patch(
                facecolor="#FBE3D6", edgecolor=VERMILION, hatch=DRY_HATCH, label=f"{player} ran dry"
            ),
            Line2D([], [], color=PURPLE, linewidth=1.6, linestyle="--", label="abort"),
        ],
        loc="outside lower center",
        ncols=8,
        fontsize=8,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.2,
    )
