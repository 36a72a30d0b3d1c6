"""``duet faults run`` and ``duet faults search``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from duet_trio.cli import count
from duet_trio.errors import ConfigError, UsageError
from duet_trio.faults.plan import load_plan
from duet_trio.lab.cases import run_case, trace_lines
from duet_trio.lab.matrix import MatrixReport, run_matrix
from duet_trio.lab.real import run_real_cells
from duet_trio.lab.run import run_scenario
from duet_trio.lab.scenario import Scenario, draw
from duet_trio.lab.search import Report, be_quiet, coverage_table, run_seeds, search
from duet_trio.lab.shrink import shrink

#: Of this checkout, whatever folder we are called from.
CASES = Path(__file__).parents[2] / "config" / "faults"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``faults``."""
    parser = subparsers.add_parser("faults", help="run the fault plans and report each outcome")
    kinds = parser.add_subparsers(dest="faults_command", metavar="WHAT", required=True)
    run = kinds.add_parser("run", help="run named cases, or the whole matrix")
    run.add_argument("plans", nargs="*", type=Path, help="plans (TOML); none: all in config/faults")
    run.add_argument("--matrix", action="store_true", help="engines x effects x phases x triggers")
    run.add_argument("--real", action="store_true", help="chosen cells, real workers and sockets")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    run.add_argument("--quiet", action="store_true", help="no traces, only the outcome")
    run.set_defaults(func=_run)
    seek = kinds.add_parser("search", help="drawn scenarios, judged by invariants")
    seek.add_argument("--seeds", default="0:1500", metavar="FROM:TO", help="default 0:1500")
    seek.add_argument("--seed", type=int, help="only this one; a failure is shrunk and shown")
    seek.add_argument("--scenario", type=Path, help="replay a scenario (JSON), as shown")
    seek.add_argument("--processes", type=count, default=0, help="default: one per CPU, at most 4")
    seek.add_argument("--first", action="store_true", help="stop at the first failure")
    seek.add_argument("--coverage", action="store_true", help="phases x triggers that were met")
    seek.add_argument("--json", action="store_true", help="print one JSON object")
    seek.set_defaults(func=_search)


def _run(args: argparse.Namespace) -> int:
    if args.matrix:
        return _matrix(args, run_matrix())
    if args.real:
        return _matrix(args, MatrixReport(run_real_cells()))
    plans = args.plans or sorted(CASES.glob("*.toml"))
    if not plans:
        raise UsageError(f"{CASES}: no plans there; give the path of one")
    failed = 0
    outcomes = {}
    for path in plans:
        result = run_case(load_plan(path))
        failed += bool(result.complaints)
        outcomes[path.name] = result.complaints
        if args.json:
            continue
        print(f"{path.name}: {result.plan.about}")
        if not args.quiet:
            print("   t (s)  answer  event")
            print("\n".join(trace_lines(result)))
        print(f"{path.name}: {'; '.join(result.complaints) or 'passed'}\n")
    if args.json:
        print(msgspec.json.encode({"cases": outcomes, "failed": failed}).decode())
    return int(failed > 0)


def _matrix(args: argparse.Namespace, report: MatrixReport) -> int:
    figures = report.to_dict()
    if args.json:
        print(msgspec.json.encode(figures).decode())
    else:
        failures = figures.pop("failures")
        for name, complaints in failures.items():
            print(f"FAILED {name}: {'; '.join(complaints)}")
        for name, value in figures.items():
            print(f"{name:24} {value}")
    return int(bool(report.failed))


def _search(args: argparse.Namespace) -> int:
    be_quiet()
    if args.scenario is not None:
        return _replay(_read(args.scenario))
    if args.seed is not None:
        return _replay(draw(args.seed))
    first, colon, last = args.seeds.partition(":")
    if not (colon and first.isdigit() and last.isdigit() and int(first) < int(last)):
        raise UsageError(f"--seeds {args.seeds}: write FROM:TO, for example 0:1500")
    seeds = range(int(first), int(last))
    if args.first:
        report = run_seeds(seeds, first_failure=True)
    else:
        report = search(seeds, processes=args.processes, tell=_tell)
    return _report(args, report)


def _read(path: Path) -> Scenario:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Scenario)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: no scenario: {error}") from None


def _replay(scenario: Scenario) -> int:
    outcome = run_scenario(scenario)
    if not outcome.complaints:
        print(f"seed {scenario.seed}: passed")
        return 0
    print(f"seed {scenario.seed}: {'; '.join(outcome.complaints)}")
    small = shrink(scenario)
    print("shrunk to (save it, and replay it with --scenario FILE):")
    print(msgspec.json.format(msgspec.json.encode(small).decode(), indent=1))
    print("; ".join(run_scenario(small).complaints))
    return 1


def _tell(report: Report) -> None:
    if sys.stderr.isatty():
        print(f"\r{report.scenarios} scenarios …", end="", file=sys.stderr, flush=True)


def _report(args: argparse.Namespace, report: Report) -> int:
    figures = {
        "scenarios": report.scenarios,
        "seconds": round(report.seconds, 1),
        "scenarios_per_s": round(report.scenarios / max(report.seconds, 1e-9), 1),
        "answers": report.answers,
        "pieces_per_scenario": round(report.pieces / report.scenarios, 1),
        "packets_per_scenario": round(report.packets / report.scenarios, 1),
        "worst_abort_to_stop_s": round(report.worst_stop_s, 3),
        "covered": len(report.coverage),
        "failed": len(report.failures),
    }
    if args.json:
        failures = {str(one.seed): one.complaints for one in report.failures}
        print(msgspec.json.encode(figures | {"failures": failures}).decode())
    else:
        if sys.stderr.isatty():
            print("\r", end="", file=sys.stderr)
        for name, value in figures.items():
            print(f"{name:24} {value}")
        for one in report.failures[:20]:
            print(f"FAILED duet faults search --seed {one.seed}: {'; '.join(one.complaints)}")
        if args.coverage:
            print("\n".join(coverage_table(report)))
    return int(bool(report.failures))
