"""``duet doctor``: is everything here that the configuration needs, and how to mend what is not.

One line per finding, then what the configured models will take of VRAM and RAM (planned, not
measured; `duet_trio.memory_plan`). Nothing is loaded, created or fetched: it reads, tries the
ports, and asks nvidia-smi where there is one. Exit code 0, or 1 if something is missing that a
server with this configuration needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from duet_trio.cli import add_config_options, read_config
from duet_trio.config import Config
from duet_trio.doctor.engines import memory, memory_plan, model_files
from duet_trio.doctor.finding import Finding
from duet_trio.doctor.machine import installed_parts, opus, port, processor, state_folder


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``duet doctor``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this installation",
        description="Is everything here that the configuration needs, and how to mend what is"
        " not. Reads only: nothing is loaded, created or fetched.",
        epilog="Exit code: 0, or 1 if a server with this configuration lacks something.",
    )
    add_config_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print every finding and the memory plan; 1 if a finding is bad."""
    config = read_config(args)
    planned = memory_plan(config)
    findings = [*examine(config), *memory(config, planned)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    if planned is not None:
        sys.stdout.write(f"\n{planned.render()}\n\n")
    bad = sum(finding.verdict == "BAD" for finding in findings)
    sys.stdout.write(f"{bad} to mend\n" if bad else "all is there\n")
    return 1 if bad else 0


def examine(config: Config) -> Iterator[Finding]:
    """Yield all findings for this configuration."""
    yield from installed_parts(config)
    yield from processor(config)
    yield opus()
    yield from model_files(config)
    yield port(config.server.host, config.server.websocket_port, "websocket_port")
    yield port(config.server.host, config.server.http_port, "http_port")
    yield from state_folder(Path(config.server.state_dir).expanduser())
