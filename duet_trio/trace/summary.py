"""``duet trace summary``: figures of trace files side by side, as a table, JSON or CSV.

Only layout happens here; every figure comes from `statistics`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from duet_trio.trace.reader import TraceFile
from duet_trio.trace.statistics import (
    BUFFER_S,
    AnswerStatistics,
    Collector,
    FigureSummary,
    Statistics,
)

#: What the table shows: heading, or (field of `AnswerStatistics`, label, unit).
ROWS: tuple[str | tuple[str, str, str], ...] = (
    "from the accepted question to",
    ("first_token_s", "first token", "s"),
    ("first_piece_s", "first piece of text", "s"),
    ("first_block_s", "first PCM block", "s"),
    ("first_audio_s", "first audio (packet written)", "s"),
    ("llm_end_s", "LLM finished", "s"),
    ("duration_s", "end of the answer", "s"),
    "latency for the user",
    ("response_s", "response (end of speech -> audio)", "s"),
    ("yield_s", "yield (interruption -> silence)", "s"),
    "voice",
    ("audio_s", "audio", "s"),
    ("pieces", "pieces", ""),
    ("first_rtf", "real-time factor, first piece", ""),
    ("median_rtf", "real-time factor, median", ""),
    ("retries", "pieces tried twice", ""),
    ("capped", "pieces cut at their cap", ""),
    "continuity",
    ("stalls", "stalls (PCM, player of {buffer})", ""),
    ("stall_s", "stalled", "s"),
    ("start_delay_s", "start delay without stalls", "s"),
    ("start_hold_s", "start held by the pacer", "s"),
    ("packet_stalls", "stalls (packets, no buffer)", ""),
    ("packet_stall_s", "stalled", "s"),
    ("underruns", "underruns seen by the pacer", ""),
    ("late_packets", "packets later than 65 ms", ""),
    ("largest_gap_s", "largest gap between packets", "ms"),
    "turns on the GPU",
    ("admission_s", "admission waited", "s"),
    ("llm_waited_s", "LLM waited", "s"),
    ("tts_waited_s", "TTS waited", "s"),
    ("longest_wait_s", "longest wait", "s"),
    ("reevaluated_tokens", "re-evaluated tokens", ""),
    "aborts",
    ("abort_to_stop_s", "abort -> tts stop", "ms"),
    ("packets_after_abort", "packets after the abort", ""),
    ("heard_after_abort_s", "heard after the abort, at most", "ms"),
)


class FileSummary(msgspec.Struct, kw_only=True):
    """The figures of one file and what reading it met."""

    file: str
    events: int
    bad_lines: int
    truncated: bool
    unknown_events: list[str]
    remarks: list[str]
    statistics: Statistics


def summarise(
    path: str | Path, *, buffer_s: float = BUFFER_S, board: str | None = None
) -> FileSummary:
    """Read one file in flat memory. Raises `UsageError` if it can't be read or is no trace."""
    file = TraceFile(path)
    collector = Collector(buffer_s=buffer_s, board=board)
    for event in file:
        collector.add(event)
    return FileSummary(
        file=str(path),
        events=file.events,
        bad_lines=file.bad_lines,
        truncated=file.truncated,
        unknown_events=sorted(file.unknown),
        remarks=file.remarks(),
        statistics=collector.finish(),
    )


def write_table(summaries: Sequence[FileSummary], out: TextIO) -> None:
    """Write one column per file: median, and smallest-largest where they differ."""
    buffer = f"{summaries[0].statistics.buffer_s * 1000:g} ms"
    table: list[list[str]] = [["", *(Path(one.file).name for one in summaries)]]
    table.append(["answers", *(_answers(one.statistics) for one in summaries)])
    for row in ROWS:
        if isinstance(row, str):
            table.append([row])
            continue
        name, label, unit = row
        cells = [_cell(one.statistics.figures.get(name), unit) for one in summaries]
        if any(cells):
            table.append([f"  {label.format(buffer=buffer)}", *(cell or "-" for cell in cells)])
    table.append(["totals"])
    table.append(["  stalled answers", *(_stalled(one.statistics) for one in summaries)])
    table.append(["  server lateness p50/p99/max", *(_late(one.statistics) for one in summaries)])
    table.append(["  stale packets", *(str(one.statistics.stale) for one in summaries)])
    memory = (figure(one.statistics.peak_rss_mb, "MB") for one in summaries)
    table.append(["  peak memory, server without its workers", *memory])
    table.append(["  not done because", *(_causes(one.statistics) for one in summaries)])
    table = [
        row
        for row, after in zip(table, [*table[1:], [""]], strict=True)
        if len(row) > 1 or len(after) > 1
    ]  # no heading without rows
    _align(table, out)
    write_remarks(summaries, out)


def write_remarks(summaries: Sequence[FileSummary], out: TextIO) -> None:
    """Write what `remarks` says of each file."""
    for one in summaries:
        for remark in remarks(one):
            out.write(f"{one.file}: {remark}\n")


def write_answers(summaries: Sequence[FileSummary], out: TextIO) -> None:
    """Write one line per answer."""
    heads = ["answer", "board", "outcome", "first audio", "LLM end", "audio", "median RTF"]
    table = [[*heads, "stalls", "start delay", "late", "stale"]]
    for summary in summaries:
        if len(summaries) > 1:
            table.append([Path(summary.file).name])
        table += [_answer_row(one) for one in summary.statistics.answers]
    _align(table, out)


def write_json(summaries: Sequence[FileSummary], out: TextIO) -> None:
    """Write ``{"files": […]}`` with every figure of every answer."""
    data = msgspec.json.encode({"files": list(summaries)})
    out.write(msgspec.json.format(data, indent=2).decode() + "\n")


def write_csv(summaries: Sequence[FileSummary], out: TextIO) -> None:
    """Write one line per answer with every figure; lists are joined by semicolons."""
    names = list(AnswerStatistics.__struct_fields__)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["file", *names])
    for summary in summaries:
        for answer in summary.statistics.answers:
            row = [_csv_value(getattr(answer, name)) for name in names]
            writer.writerow([summary.file, *row])


def remarks(summary: FileSummary) -> list[str]:
    """Return what a reader of the figures must know about the file, a line each."""
    found = list(summary.remarks)
    if summary.statistics.dropped_events:
        found.append(f"the recorder lost {summary.statistics.dropped_events} events")
    if len(summary.statistics.runs) > 1:
        found.append(f"holds {len(summary.statistics.runs)} runs of the server")
    return found


def figure(value: float | None, unit: str = "s") -> str:
    """Return a figure for people: three digits are what these measurements carry."""
    if value is None:
        return "-"
    if unit == "ms":
        return f"{value * 1000:.1f} ms" if abs(value) < 0.1 else f"{value * 1000:.0f} ms"
    number = f"{value:g}" if float(value).is_integer() and not unit else f"{value:.2f}"
    return f"{number} {unit}".rstrip()


def _cell(found: FigureSummary | None, unit: str) -> str:
    if found is None:
        return ""
    median = figure(found.median, unit)
    low, high = (
        figure(value, unit).removesuffix(f" {unit}") for value in (found.minimum, found.maximum)
    )
    return median if low == high else f"{median} ({low}–{high})"


def _answers(found: Statistics) -> str:
    parts = ", ".join(f"{count} {name}" for name, count in sorted(found.outcomes.items()))
    return f"{len(found.answers)} ({parts})" if parts else "0"


def _stalled(found: Statistics) -> str:
    spoken = [one for one in found.answers if one.audio_s > 0]
    return f"{sum(one.stalls > 0 for one in spoken)} of {len(spoken)}"


def _late(found: Statistics) -> str:
    values = (found.lateness_p50_s, found.lateness_p99_s, found.lateness_max_s)
    if values[0] is None:
        return "-"
    return " / ".join(f"{1000 * (value or 0):.1f}" for value in values) + " ms"


def _causes(found: Statistics) -> str:
    return ", ".join(f"{cause} ({count})" for cause, count in found.causes.items()) or "-"


def _answer_row(one: AnswerStatistics) -> list[str]:
    return [
        f"{one.run}.{one.generation}",
        one.board or one.client or "-",
        f"{one.outcome}: {one.cause}" if one.cause and one.outcome != "done" else one.outcome,
        figure(one.first_audio_s),
        figure(one.llm_end_s),
        figure(one.audio_s),
        figure(one.median_rtf, ""),
        f"{one.stalls} ({figure(one.stall_s)})" if one.stalls else "0",
        figure(one.start_delay_s),
        str(one.late_packets),
        str(one.stale),
    ]


def _csv_value(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return ";".join(
        f"{one:g}" if isinstance(one, float) else f"{one.at:g}+{one.duration_s:g}" for one in value
    )


def _align(table: Sequence[Sequence[str]], out: TextIO) -> None:
    """Write columns; a row with a single cell is a heading and sets no width."""
    columns = max(len(row) for row in table)
    widths = [
        max((len(row[i]) for row in table if i < len(row) > 1), default=0) for i in range(columns)
    ]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        out.write("  ".join(cells).rstrip() + "\n")
