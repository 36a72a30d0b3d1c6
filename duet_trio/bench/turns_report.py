"""A folder to post: figures, text, machine and versions, the first two traces, a picture.

``report.json`` holds everything that the text says. ``turns.jsonl`` and ``overlap.jsonl`` are
traces for ``duet trace``: one question's two answers, that with the median start delay at once.
``turns.png`` shows the two on one time axis, ``answers.png`` all answers (needs matplotlib).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from duet_trio.bench.figures import machine
from duet_trio.bench.turns_figures import Sitting, as_json
from duet_trio.bench.turns_picture import draw_answers
from duet_trio.bench.turns_stage import Schedule
from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.trace.gather import Gatherer
from duet_trio.trace.plot import PlotRun, draw
from duet_trio.trace.records import Event, start_fields

TITLES: dict[Schedule, str] = {"turns": "in turns", "overlap": "at once"}
PACKAGES = ("duet-trio", "trio", "llama-cpp-python", "onnxruntime", "opuslib-next", "numpy")


def write(
    folder: Path,
    sitting: Sitting,
    events: Mapping[Schedule, Sequence[Sequence[Event]]],
    text: Sequence[str],
    *,
    buffer_s: float,
    subject: str,
) -> None:
    """Write the folder; files of an earlier report in it are replaced.

    ``subject``: what was measured, for the pictures' headings.

    Raises `UsageError` if it cannot be written. Without matplotlib the picture is left out,
    and ``report.txt`` says so.
    """
    lines = list(text)
    number = typical(sitting)
    chosen = {schedule: runs[number] for schedule, runs in events.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for schedule, of_one in chosen.items():
            _write_trace(folder / f"{schedule}.jsonl", of_one)
        try:
            draw(_runs(chosen, subject), folder / "turns.png", buffer_s=buffer_s)
            draw_answers(sitting, folder / "answers.png", buffer_s=buffer_s)
        except MissingLibraryError as error:
            lines.append(f"no picture: {error}")
        (folder / "report.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        report = {
            **as_json(sitting),
            "machine": machine(),
            "versions": versions(),
            "player_buffer_s": buffer_s,
            "traced_answer": number + 1,
            "text": lines,
        }
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--report {folder}: cannot be written ({error.strerror})") from None


def typical(sitting: Sitting) -> int:
    """Which answer to show: the one with the median start delay at once (the upper of two)."""
    delays = sitting["overlap"].values("start_delay_s")
    return sorted(range(len(delays)), key=delays.__getitem__)[len(delays) // 2]


def versions() -> dict[str, str]:
    """Of what the figures depend on; what is not installed is left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _runs(events: Mapping[Schedule, Sequence[Event]], subject: str) -> list[PlotRun]:
    runs = []
    for schedule in ("overlap", "turns"):
        gatherer = Gatherer()
        answers = [one for event in events.get(schedule, ()) for one in gatherer.add(event)]
        answers += gatherer.finish()
        runs.append(PlotRun(f"{TITLES[schedule]}: {subject}", answers))
    return [run for run in runs if run.answers]


def _write_trace(path: Path, events: Sequence[Event]) -> None:
    origin = events[0]["t"] if events else 0.0
    start: Event = {"t": 0.0, "event": "trace.start", "board": None, "generation": None}
    lines = [msgspec.json.encode({**start, **start_fields()})]
    lines += [msgspec.json.encode(_moved(event, origin)) for event in events]
    path.write_bytes(b"\n".join(lines) + b"\n")


def _moved(event: Event, origin: float) -> Event:
    """Let the trace begin at 0, whatever the clock said."""
    moved = {**event, "t": round(event["t"] - origin, 6)}
    if "due" in moved:
        moved["due"] = round(moved["due"] - origin, 6)
    return moved
