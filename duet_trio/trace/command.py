"""``duet trace …``: options and dispatch. `register` hooks it into the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from duet_trio.errors import UsageError
from duet_trio.trace import follow, replay, summary
from duet_trio.trace.answers import RawAnswer
from duet_trio.trace.gather import Gatherer
from duet_trio.trace.reader import TraceFile
from duet_trio.trace.statistics import BUFFER_S

if TYPE_CHECKING:
    # The class has no public name; argparse only hands it out.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def register(subparsers: Subparsers) -> None:
    """Add ``trace`` and its sub-commands; each sets ``func(args) -> int``.

    ``func`` returns the exit code and raises `UsageError` for what the user must mend.
    """
    trace = subparsers.add_parser("trace", help="look into trace files")
    commands = trace.add_subparsers(dest="trace_command", required=True, metavar="COMMAND")
    _add_summary(commands)
    _add_plot(commands)
    _add_follow(commands)
    _add_replay(commands)


def _add_summary(commands: Subparsers) -> None:
    parser = commands.add_parser("summary", help="figures of one or more traces, side by side")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="every figure of every answer")
    parser.add_argument("--csv", action="store_true", help="one line per answer")
    parser.add_argument("--answers", action="store_true", help="a short line per answer")
    _add_buffer(parser, BUFFER_S)
    _add_board(parser)
    parser.set_defaults(func=run_summary)


def _add_plot(commands: Subparsers) -> None:
    parser = commands.add_parser("plot", help="draw one trace, or two for comparison")
    parser.add_argument("files", nargs="+", metavar="FILE", help="one or two traces")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".png, .svg or .pdf")
    parser.add_argument("--generation", type=int, metavar="N", help="only this answer")
    parser.add_argument("--title", action="append", help="heading of a run (once per file)")
    _add_buffer(parser, 0.0)
    _add_board(parser)
    parser.set_defaults(func=run_plot)


def _add_follow(commands: Subparsers) -> None:
    parser = commands.add_parser("follow", help="watch the trace of a running server")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--all", action="store_true", help="packets and PCM blocks as well")
    parser.add_argument("--from-start", action="store_true", help="what is in the file first")
    _add_buffer(parser, BUFFER_S)
    _add_board(parser)
    parser.set_defaults(func=run_follow)


def _add_replay(commands: Subparsers) -> None:
    parser = commands.add_parser("replay", help="send recorded answers with other settings")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--lead", type=_lead, metavar="N", help="packets (default: as recorded)")
    parser.add_argument(
        "--hold-back-s",
        type=_not_negative,
        default=0.0,
        metavar="S",
        help="keep back the end of each piece (1.2: the flaw that the pacer avoids)",
    )
    parser.add_argument(
        "--start-hold-s", type=_not_negative, metavar="S", help="default: as recorded"
    )
    parser.add_argument("--generation", type=int, metavar="N", help="only this answer")
    parser.add_argument("--json", action="store_true")
    _add_buffer(parser, 0.0)
    _add_board(parser)
    parser.set_defaults(func=run_replay)


def run_summary(args: argparse.Namespace) -> int:
    """``duet trace summary``."""
    if args.json and args.csv:
        raise UsageError("--json and --csv: give one of them")
    found = [
        summary.summarise(path, buffer_s=args.buffer_ms / 1000, board=args.board)
        for path in args.files
    ]
    if args.json:
        summary.write_json(found, sys.stdout)
    elif args.csv:
        summary.write_csv(found, sys.stdout)
        summary.write_remarks(found, sys.stderr)  # JSON has them as a field
    else:
        if args.answers:
            summary.write_answers(found, sys.stdout)
            sys.stdout.write("\n")
        summary.write_table(found, sys.stdout)
    return 0


def run_plot(args: argparse.Namespace) -> int:
    """``duet trace plot``. Raises `MissingLibraryError` without matplotlib."""
    from duet_trio.trace import plot  # here: the other commands shall not load numpy

    if len(args.files) > 2:
        raise UsageError("plot: one or two files, not more")
    titles = args.title or [Path(path).name for path in args.files]
    if len(titles) != len(args.files):
        raise UsageError("--title: give it once per file, or not at all")
    runs = [
        plot.PlotRun(title, list(_answers(path, args.board, args.generation)))
        for title, path in zip(titles, args.files, strict=True)
    ]
    for path, one in zip(args.files, runs, strict=True):
        if not one.answers:
            raise UsageError(f"{path}: no answer to draw; see `duet trace summary --answers`")
    plot.draw(runs, Path(args.output), buffer_s=args.buffer_ms / 1000)
    return 0


def run_follow(args: argparse.Namespace) -> int:
    """``duet trace follow``; Ctrl-C is its usual end."""
    follow.follow(
        args.file,
        sys.stdout,
        from_start=args.from_start,
        everything=args.all,
        board=args.board,
        buffer_s=args.buffer_ms / 1000,
        colour=sys.stdout.isatty(),
    )
    return 0


def run_replay(args: argparse.Namespace) -> int:
    """``duet trace replay``."""
    settings = replay.SenderSettings(
        lead=args.lead, hold_back_s=args.hold_back_s, start_hold_s=args.start_hold_s
    )
    found = [
        one
        for answer in _answers(args.file, args.board, args.generation)
        if (one := replay.replay(answer, settings, buffer_s=args.buffer_ms / 1000)) is not None
    ]
    if not found:
        raise UsageError(f"{args.file}: no answer with audio; see `duet trace summary --answers`")
    if args.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        replay.write_replays(found, sys.stdout)
    return 0


def _answers(path: str, board: str | None, generation: int | None) -> Iterator[RawAnswer]:
    """All answers of a file; what was wrong with it is said on stderr at its end."""
    gatherer = Gatherer(board)
    file = TraceFile(path)
    for event in file:
        yield from _only(gatherer.add(event), generation)
    for remark in file.remarks():
        sys.stderr.write(f"{path}: {remark}\n")
    yield from _only(gatherer.finish(), generation)


def _only(answers: list[RawAnswer], generation: int | None) -> list[RawAnswer]:
    return [one for one in answers if generation in (None, one.generation)]


def _add_buffer(parser: argparse.ArgumentParser, default_s: float) -> None:
    parser.add_argument(
        "--buffer-ms",
        type=_not_negative,
        default=default_s * 1000,
        metavar="N",
        help=f"buffer of the simulated player (default {default_s * 1000:g})",
    )


def _add_board(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--board", metavar="ID", help="only this board (its Device-Id)")


def _number_type(check: Callable[[float], bool], what: str) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not check(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return convert


_not_negative = _number_type(lambda value: 0 <= value < 1e6, "a number from 0 up")
_whole_lead = _number_type(lambda value: value in range(1, 11), "a whole number from 1 to 10")


def _lead(text: str) -> int:
    return int(_whole_lead(text))
