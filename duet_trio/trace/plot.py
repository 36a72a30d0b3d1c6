"""``duet trace plot``: what LLM, voice, sender and player did, on one time axis.

One panel per run and board, five lanes each. Answers over HTTP have no player and come in any
number at once: beside boards they are counted, not drawn; a run without boards shows them in one
panel.

Where the player ran dry the playback lane is vermilion *and* hatched *and* marked from above, so it
can be told without colours and at any width. Colours are Okabe and Ito's, which colour-blind people
can tell apart.

matplotlib is an optional extra (``plot``); it is imported when something is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.trace.answers import RawAnswer
from duet_trio.trace.lanes import (
    BLUE,
    DRY_FILL,
    DRY_HATCH,
    GREEN,
    GREY,
    HEIGHT,
    LANES,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    draw_llm,
    draw_marks,
    draw_packets,
    draw_playback,
    draw_voice,
    player,
)
from duet_trio.trace.statistics import evaluate
from duet_trio.trace.summary import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 6


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
    boards = list(dict.fromkeys(one.board for one in run.answers if one.board is not None))
    others = sum(one.board is None for one in run.answers)
    if not boards:
        return [run]
    title = run.title
    if others:
        title += f" (and {others} answer{'s' * (others > 1)} over HTTP, not drawn)"
    return [
        PlotRun(
            title if len(boards) == 1 else f"{title}, {name}",
            [one for one in run.answers if one.board == name],
        )
        for name in boards
    ]


def _draw_panel(ax: Axes, run: PlotRun, buffer_s: float) -> None:
    origin = min(answer.origin for answer in run.answers)
    for answer in run.answers:
        draw_llm(ax, answer, origin)
        draw_voice(ax, answer, origin)
        draw_packets(ax, answer, origin)
        draw_playback(ax, answer, origin, buffer_s)
        draw_marks(ax, answer, origin)
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


def _caption(run: PlotRun, buffer_s: float) -> str:
    figures = [evaluate(answer) for answer in run.answers]
    spans = [player(answer, buffer_s) for answer in run.answers]
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

    whose = f"a player with {buffer_s * 1000:g} ms buffer" if buffer_s else "the player"
    picture.legend(
        handles=[
            Patch(color=BLUE, label="LLM writes"),
            Patch(color=ORANGE, label="TTS speaks (pale: asked, waits)"),
            Patch(color=SKY, label="PCM block (height: audio)"),
            Line2D([], [], color=GREY, linewidth=1, label="packet"),
            Line2D([], [], color=VERMILION, linewidth=1.6, label="packet after > 65 ms"),
            Patch(color=GREEN, label="playing"),
            Patch(
                facecolor=DRY_FILL, edgecolor=VERMILION, hatch=DRY_HATCH, label=f"{whose} ran dry"
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
