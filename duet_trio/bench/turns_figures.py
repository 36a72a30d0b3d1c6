"""The figures of ``bench turns``: one entry per answer, and how they are put side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from duet_trio.bench.turns_stage import Schedule
from duet_trio.trace.records import Event
from duet_trio.trace.statistics import AnswerStatistics, evaluate_events

#: Figures of the JSON object, each a list with one entry per answer.
NAMES = ("first_audio_s", "stalls", "stall_s", "start_delay_s", "llm_end_s", "median_rtf")
LABELS = {
    "first_audio_s": "first audio (packet written)",
    "stalls": "stalls",
    "stall_s": "stalled, in all",
    "start_delay_s": "start delay without stalls",
    "llm_end_s": "LLM finished",
    "median_rtf": "real-time factor, median",
    "first_rtf": "real-time factor, first piece",
    "last_stall_s": "last stall, since the question",
    "audio_s": "audio",
    "pieces": "pieces",
}


@dataclass(slots=True)
class Answers:
    """The answers of one schedule."""

    each: list[AnswerStatistics] = field(default_factory=list)

    def add(self, events: Sequence[Event], buffer_s: float) -> AnswerStatistics:
        """Take the events of one answer."""
        one = evaluate_events(events, buffer_s=buffer_s).answers[0]
        self.each.append(one)
        return one

    def values(self, name: str) -> list[float]:
        """A figure of all answers, in their order."""
        if name == "last_stall_s":
            return [one.stall_list[-1].at if one.stall_list else 0.0 for one in self.each]
        found = [getattr(one, name) for one in self.each]
        return [float("nan") if value is None else value for value in found]

    def lists(self) -> dict[str, list[float]]:
        """What ``--json`` prints of this schedule."""
        return {name: self.values(name) for name in NAMES}


Sitting = dict[Schedule, Answers]


def as_json(sitting: Sitting) -> dict[str, dict[str, list[float]]]:
    """The object of ``--json``."""
    return {schedule: answers.lists() for schedule, answers in sitting.items()}


def spread(values: Sequence[float]) -> str:
    """Mean and range, as the reference figures are given."""
    low, high, mean = min(values), max(values), statistics.fmean(values)
    if low == high:
        return f"{low:.2f}"
    return f"{mean:.2f} ({low:.2f}–{high:.2f})"


def table(columns: dict[str, Answers], *, names: Sequence[str] = ()) -> list[str]:
    """Figures side by side, mean and range."""
    rows = [["", *columns]]
    chosen = names or (*NAMES, "first_rtf", "last_stall_s", "audio_s", "pieces")
    for name in chosen:
        rows.append([LABELS[name], *(spread(column.values(name)) for column in columns.values())])
    rows.append(["stalled answers", *(_stalled(column) for column in columns.values())])
    return align(rows)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _stalled(answers: Answers) -> str:
    return f"{sum(one.stalls > 0 for one in answers.each)} of {len(answers.each)}"
