"""``duet bench turns``: taking turns beside running at once, the same texts, one sitting.

Three things to measure on: real engines where the configuration puts them, real engines that
share one CPU core (``--share-core``), and a modelled card in virtual time (``--model``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from duet_trio.bench import card_run, turns_real, turns_report
from duet_trio.bench.card import load_card
from duet_trio.bench.processes import CONFIG_FOLDER
from duet_trio.bench.turns_figures import Sitting, as_json, table
from duet_trio.bench.turns_stage import Schedule
from duet_trio.errors import UsageError
from duet_trio.trace.records import Event
from duet_trio.trace.statistics import BUFFER_S

#: Answers of each schedule: minutes of real time, or seconds of virtual time.
REAL_ANSWERS, MODEL_ANSWERS = 6, 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``duet bench turns``, and its ``func``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--model", metavar="FILE", help="a modelled card, in virtual time")
    where.add_argument(
        "--share-core", action="store_true", help="pin both engines to one core (Linux)"
    )
    parser.add_argument("--config", metavar="FILE", help="real engines; default config/demo.toml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="settings"
    )
    parser.add_argument(
        "--answers", type=_count, metavar="N", help="of each schedule (6; with --model 30)"
    )
    parser.add_argument(
        "--rtf", type=float, default=0.0, help="--model: each piece takes this times its audio"
    )
    parser.add_argument("--seed", type=int, default=1, help="--model: of the drawn speeds")
    parser.add_argument(
        "--buffer-ms", type=float, default=BUFFER_S * 1000, help="of the judging player (300)"
    )
    parser.add_argument("--json", action="store_true", help="one object, a list entry per answer")
    parser.add_argument("--report", metavar="DIR", help="write figures, traces and pictures there")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Measure, print, and write the report."""
    if args.rtf < 0 or (args.rtf and not args.model):
        raise UsageError("--rtf: a number above 0, together with --model")
    if args.model:
        sitting, events, lines = _modelled(args)
        subject = f"modelled card, {Path(args.model).stem}"
    else:
        sitting, events, lines = _real(args)
        subject = "LLM and voice on one CPU core" if args.share_core else "real engines"
    text = [*table({"in turns": sitting["turns"], "at once": sitting["overlap"]}), "", *lines]
    if args.report:
        folder = Path(args.report)
        turns_report.write(
            folder, sitting, events, text, buffer_s=args.buffer_ms / 1000, subject=subject
        )
        text.append(f"report: {folder}")
    sys.stdout.write(json.dumps(as_json(sitting)) if args.json else "\n".join(text))
    sys.stdout.write("\n")
    return 0


Found = tuple[Sitting, dict[Schedule, list[list[Event]]], Sequence[str]]


def _modelled(args: argparse.Namespace) -> Found:
    found = card_run.measure(
        load_card(Path(args.model)),
        answers=args.answers or MODEL_ANSWERS,
        seed=args.seed,
        rtf=args.rtf,
        buffer_s=args.buffer_ms / 1000,
    )
    return found.sitting, found.events, card_run.report(found)


def _real(args: argparse.Namespace) -> Found:
    found = trio.run(
        lambda: turns_real.measure(
            Path(args.config) if args.config else CONFIG_FOLDER / "demo.toml",
            args.settings,
            answers=args.answers or REAL_ANSWERS,
            share_core=args.share_core,
            buffer_s=args.buffer_ms / 1000,
            tell=_tell,
        )
    )
    return found.sitting, found.events, turns_real.report(found)


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number
