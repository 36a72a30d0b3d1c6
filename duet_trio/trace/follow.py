"""``duet trace follow``: the trace of a running server, live in the terminal.

The file is asked for more several times a second (no inotify: the same on every system and
on network drives). What happens for every packet is left out unless ``everything`` is
wanted; a finished answer gets a line with its figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from duet_trio.errors import UsageError
from duet_trio.trace.reader import LONGEST_LINE, TraceFile, open_trace, parse_line
from duet_trio.trace.records import Event
from duet_trio.trace.statistics import AnswerStatistics, Collector
from duet_trio.trace.summary import figure

POLL_S = 0.2
#: What stands in the file already must hold an event within so many bytes.
LOOK_AT = 64 * 1024
_COMMON = ("t", "event", "board", "generation", "format")
_WARM = {"abort", "fault", "underrun", "peer.error", "trace.dropped"}


def tail(
    path: str | Path,
    *,
    from_start: bool = False,
    wait: Callable[[], bool] | None = None,
) -> Iterator[Event]:
    """Yield events as they are written, for ever; reading begins at the present end.

    A file that shrinks was started anew and is read from its start. ``wait`` is called when
    there is nothing more; it returns False to end (default: sleep `POLL_S`, go on).
    Errors as `TraceFile`, but a file may be empty still: its server has just begun.
    """
    file = TraceFile(path)
    wait = wait or _sleep
    with open_trace(file.path) as stream:
        _check_beginning(file.path, stream)
        if not from_start:
            stream.seek(0, 2)
        rest = b""
        while True:
            line = stream.readline(LONGEST_LINE)
            if line:
                rest += line
                if rest.endswith(b"\n"):
                    event = file.parse(rest)
                    rest = b""
                    if event is not None:
                        yield event
                elif len(rest) >= LONGEST_LINE:
                    rest = b""  # damage, not an event; its end will be a bad line
                continue
            if not wait():
                return
            try:
                shrunk = file.path.stat().st_size < stream.tell()
            except OSError as error:
                raise UsageError(f"{path}: is gone ({error.strerror or error})") from None
            if shrunk:
                stream.seek(0)
                rest = b""


def follow(
    path: str | Path,
    out: TextIO,
    *,
    from_start: bool = False,
    everything: bool = False,
    board: str | None = None,
    buffer_s: float = 0.3,
    colour: bool = False,
    wait: Callable[[], bool] | None = None,
) -> None:
    """Print events until ``wait`` ends it or Ctrl-C, which is its usual end."""
    collector = Collector(buffer_s=buffer_s, board=board)
    try:
        for event in tail(path, from_start=from_start, wait=wait):
            if _is_wanted(event, board) and (everything or not _is_flood(event)):
                out.write(_coloured(describe(event), event, colour) + "\n")
            for answer in collector.add(event):
                out.write(verdict(answer) + "\n")
            out.flush()
    except KeyboardInterrupt:
        return


def _check_beginning(path: Path, stream: BinaryIO) -> None:
    """Raise `UsageError` if whole lines stand there and none is an event."""
    lines = [line for line in stream.read(LOOK_AT).split(b"\n")[:-1] if line.strip()]
    stream.seek(0)
    if lines and all(parse_line(line) is None for line in lines):
        raise UsageError(f"{path}: no trace (none of its lines is an event of a trace)")


def describe(event: Event) -> str:
    """Return one line for one event: time, board, generation, name, fields."""
    board, generation = event["board"], event["generation"]
    who = f"{(board or event.get('client') or '')[-8:]:>8} {generation or '':>4}"
    fields = " ".join(
        f"{key}={_value(value)}" for key, value in event.items() if key not in _COMMON
    )
    return f"{event['t']:10.3f} {who}  {event['event']:<12} {fields}".rstrip()


def verdict(answer: AnswerStatistics) -> str:
    """Return one line with the figures of a finished answer."""
    parts = [
        f"first audio {figure(answer.first_audio_s)}",
        f"audio {figure(answer.audio_s)}",
        f"RTF {figure(answer.median_rtf, '')}",
        f"stalls {answer.stalls} ({figure(answer.stall_s)})",
        f"start delay {figure(answer.start_delay_s)}",
    ]
    if answer.abort_to_stop_s is not None:
        parts.append(f"stop after {figure(answer.abort_to_stop_s, 'ms')}")
    if answer.stale:
        parts.append(f"STALE {answer.stale}")
    return f"{'':10} = answer {answer.generation}: {answer.outcome}; {', '.join(parts)}"


def _sleep() -> bool:
    time.sleep(POLL_S)
    return True


def _is_wanted(event: Event, board: str | None) -> bool:
    return board is None or (event["board"] or "").lower() == board.lower()


def _is_flood(event: Event) -> bool:
    name = event["event"]
    return name in ("frame", "pcm", "metrics", "control") or (
        name == "sent" and event.get("what") == "frame"
    )


def _value(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else f"{value:g}"
        if isinstance(value, float)
        else (str(value))
    )
    # A transcript may hold anything; a terminal must not act on it.
    text = "".join(char if char.isprintable() else "·" for char in text)
    text = text if len(text) <= 60 else text[:59] + "…"
    return f'"{text}"' if " " in text or not text else text


def _coloured(line: str, event: Event, colour: bool) -> str:
    if not colour:
        return line
    code = "33" if event["event"] in _WARM else "1" if event["event"].startswith("answer") else "0"
    return f"\x1b[{code}m{line}\x1b[0m"
