"""``duet bench …``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from duet_trio.bench import abort, answer, boards, ears, hello, http, pace, soak, tts, turns
from duet_trio.cli import count

TERMINATED = 128 + signal.SIGTERM


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bench`` and its benches."""
    parser = subparsers.add_parser("bench", help="measure")
    benches = parser.add_subparsers(dest="bench", required=True, metavar="BENCH")

    one = benches.add_parser("abort", help="button to silence, beside a do-nothing echo")
    one.add_argument("--aborts", type=count, default=500)
    one.add_argument("--boards", type=count, default=5)
    one.add_argument("--hang", action="store_true", help="while the voice hangs")
    one.add_argument("--seed", type=int, default=1)
    _finish(one, lambda args: abort.measure(_abort_options(args)), abort.report)

    one = benches.add_parser("answer", help="end of speech to first packet, on real models")
    one.add_argument("--questions", type=count, default=10)
    one.add_argument(
        "--config", default="demo.toml", help="a configuration, also by its name in config/"
    )
    _finish(
        one,
        lambda args: answer.measure(answer.AnswerOptions(args.questions, args.config)),
        answer.report,
    )

    one = benches.add_parser("ears", help="how well it listens, and how soon it answers")
    one.add_argument("--questions", type=int, default=12, help="on a real server; 0: none")
    one.add_argument("--boards", type=count, default=100)
    one.add_argument(
        "--config", default="demo.toml", help="a configuration, also by its name in config/"
    )
    _finish(
        one,
        lambda args: ears.measure(ears.EarsOptions(args.questions, args.boards, args.config)),
        ears.report,
    )

    one = benches.add_parser("pace", help="how soon audio leaves, and how evenly")
    one.add_argument("--answers", type=count, default=100)
    _finish(one, lambda args: pace.measure(pace.PaceOptions(args.answers)), pace.report)

    one = benches.add_parser("hello", help="hello at rest, while loading, and 80 at once")
    one.add_argument("--boards", type=count, default=80)
    one.add_argument(
        "--config", default="demo.toml", help="a configuration, also by its name in config/"
    )
    _finish(
        one, lambda args: hello.measure(hello.HelloOptions(args.boards, args.config)), hello.report
    )

    one = benches.add_parser("http", help="how soon /speak sounds; programs beside boards")
    one.add_argument("--requests", type=count, default=50)
    one.add_argument("--clients", type=count, default=50)
    one.add_argument("--boards", type=count, default=10)
    _finish(
        one,
        lambda args: http.measure(http.HttpOptions(args.requests, args.clients, args.boards)),
        http.report,
    )

    one = benches.add_parser("boards", help="how many boards a server keeps in step")
    one.add_argument("--boards", type=count, nargs="+", default=[1, 8, 20, 50, 100], metavar="N")
    one.add_argument(
        "--within", type=float, nargs="+", default=[1.0, 20.0], metavar="S",
        help="first questions of all boards fall within so many seconds",
    )  # fmt: skip
    one.add_argument("--seconds", type=_duration, default=60.0, help="of each run")
    one.add_argument("--complexity", type=int, default=5, help="of the Opus encoder")
    _finish(
        one,
        lambda args: boards.measure(
            boards.BoardsOptions(args.boards, args.within, args.seconds, args.complexity)
        ),
        boards.report,
    )

    one = benches.add_parser("tts", help="what our way to a voice adds to the voice's own time")
    one.add_argument("--voice", choices=["native", "demo"], default="native")
    one.add_argument(
        "--library", default="", help="libqwen (default: duet models pull libqwen-cpu)"
    )
    one.add_argument("--pieces", type=count, default=25)
    one.add_argument("--cancels", type=count, default=12)
    one.add_argument("--kills", type=count, default=3)
    _finish(one, lambda args: tts.measure(_tts_options(args)), tts.report)

    one = benches.add_parser("soak", help="aborts, reconnects and kills for minutes; what grows?")
    usual = soak.SoakOptions()
    one.add_argument(
        "--aborts", type=int, default=usual.aborts, help="questions; one in nine is heard whole"
    )
    one.add_argument("--reconnects", type=int, default=usual.reconnects)
    one.add_argument("--chaos", type=float, default=usual.chaos_s, metavar="S")
    one.add_argument("--boards", type=count, default=usual.boards)
    one.add_argument("--seed", type=int, default=usual.seed)
    one.add_argument(
        "--config", default=usual.config, help="a configuration, also by its name in config/"
    )
    _finish(one, lambda args: soak.measure(_soak_options(args)), soak.report)

    turns.add_arguments(benches.add_parser("turns", help="turns beside overlap, the same texts"))


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 up")
    return seconds


def _abort_options(args: argparse.Namespace) -> abort.AbortOptions:
    return abort.AbortOptions(args.aborts, args.boards, args.hang, args.seed)


def _soak_options(args: argparse.Namespace) -> soak.SoakOptions:
    return soak.SoakOptions(
        args.aborts, args.reconnects, args.chaos, args.boards, args.seed, args.config
    )


def _tts_options(args: argparse.Namespace) -> tts.TtsOptions:
    return tts.TtsOptions(args.voice, args.pieces, args.cancels, args.kills, args.library)


async def _unless_ended(measure: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any] | None:
    """The figures; None after SIGTERM or SIGHUP, which must not leave our servers behind."""
    signals = [signal.SIGTERM] if sys.platform == "win32" else [signal.SIGTERM, signal.SIGHUP]
    figures = None
    with trio.open_signal_receiver(*signals) as received:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _signal in received:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            figures = await measure()
            nursery.cancel_scope.cancel()
    return figures


def _finish(
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], Awaitable[dict[str, Any]]],
    report: Callable[[dict[str, Any]], str],
) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")

    def run(args: argparse.Namespace) -> int:
        figures = trio.run(_unless_ended, partial(measure, args))
        if figures is None:
            return TERMINATED
        print(json.dumps(figures) if args.json else report(figures))
        return 0

    parser.set_defaults(func=run)
