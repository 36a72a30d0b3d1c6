"""All answers of a sitting in one picture: a dot each, in turns beside at once.

Told apart by place and by shape, not by colour alone (Okabe and Ito's blue and vermilion).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from duet_trio.bench.turns_figures import Answers, Sitting
from duet_trio.bench.turns_stage import Schedule
from duet_trio.errors import MissingLibraryError
from duet_trio.trace.lanes import BLUE, GREY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (
    ("first_audio_s", "first audio, s"),
    ("start_delay_s", "start delay\nwithout stalls, s"),
    ("stalls", "stalls, player\nwith {buffer}"),
    ("stall_s", "stalled, s"),
    ("llm_end_s", "LLM finished, s"),
    ("median_rtf", "median real-time\nfactor of the voice"),
)
ROWS: tuple[tuple[Schedule, str, str, str, float], ...] = (
    ("overlap", "at once", VERMILION, "^", 1.0),
    ("turns", "in turns", BLUE, "o", 0.0),
)


def draw_answers(sitting: Sitting, output: Path, *, buffer_s: float) -> None:
    """Write the picture. Raises `MissingLibraryError` without matplotlib, `OSError` as files do."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingLibraryError(
            "plot: matplotlib is not installed; pip install 'duet-trio[plot]'"
        ) from None
    picture = Figure(figsize=(12, 2.4), layout="constrained")
    axes = picture.subplots(1, len(PANELS), sharey=True)
    for ax, (name, label) in zip(axes, PANELS, strict=True):
        _draw(ax, name, sitting)
        ax.set_title(label.format(buffer=f"{buffer_s * 1000:g} ms"), fontsize=9)
    axes[0].set_yticks([row[4] for row in ROWS], [row[1] for row in ROWS])
    axes[0].set_ylim(-0.6, 1.6)
    picture.savefig(output, dpi=150)


def _draw(ax: Axes, name: str, sitting: Sitting) -> None:
    most = 0.0
    for schedule, _, colour, marker, height in ROWS:
        answers: Answers = sitting[schedule]
        values = answers.values(name)
        most = max(most, *values)
        # Spread in height by number, so that equal values are not one dot.
        heights = [height + 0.28 * ((7 * n) % 11 / 5 - 1) for n in range(len(values))]
        ax.scatter(values, heights, s=18, marker=marker, color=colour, alpha=0.6, linewidths=0)
        middle = statistics.median(values)
        ax.plot([middle, middle], [height - 0.4, height + 0.4], color=GREY, linewidth=1.2)
    ax.set_xlim(-0.03 * most, 1.08 * most or 1.0)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
