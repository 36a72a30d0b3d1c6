"""The console script ``duet``: finds the command, imports its module alone, runs it.

Every command lives in a module of its own that exports ``register(subparsers) -> None``; it adds
one or more parsers and sets ``func`` (``Callable[[argparse.Namespace], int]``, the exit code) as
a default of each. Only the module of the command that was asked for is imported: the others
bring trio, numpy or a web framework, and ``duet --help`` must answer at once.

Exit codes: what ``func`` returns; 2 for bad use and every `UsageError` (one line on stderr);
130 after Ctrl-C; 0 when the reader of our output went away early (``duet trace … | head``), 1 when
the device written to is full.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duet_trio.errors import UsageError, first_leaf

if TYPE_CHECKING:
    from duet_trio.config import Config

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One word after ``duet``: the module that knows it, and its line in ``duet --help``."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("demo", "duet_trio.demo", "one conversation from end to end on this machine"),
    Command("serve", "duet_trio.server.command", "serve boards and the HTTP API"),
    Command("board", "duet_trio.board.command", "a simulated board: talk to a server without one"),
    Command("say", "duet_trio.server.say", "speak a text on a board, or into a WAV file"),
    Command("voice", "duet_trio.voices.command", "list, add and check cloned voices"),
    Command("boards", "duet_trio.server.boards_command", "list boards, and say which may connect"),
    Command("trace", "duet_trio.trace.command", "summarise, plot, follow or replay a trace"),
    Command("bench", "duet_trio.bench.command", "measure turns, aborts, the voice, HTTP, boards"),
    Command("faults", "duet_trio.lab.command", "run the fault plans and report each outcome"),
    Command("models", "duet_trio.models.command", "list models, and pull those of the demo"),
    Command("doctor", "duet_trio.doctor", "check this installation and say how to mend it"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``duet`` with these arguments (none: those of the process); return its exit code.

    Bad use raises ``SystemExit(2)``, ``--help`` and ``--version`` ``SystemExit(0)``, as argparse
    does; everything else comes back as a number.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_what_is_closed()
    try:
        try:
            code = _run(arguments)
            sys.stdout.flush()
        except BaseExceptionGroup as group:
            # Nurseries wrap what ends them; to the person it is the same one thing.
            if group.subgroup(KeyboardInterrupt) is not None:
                return INTERRUPTED  # what else ended did so because of it
            first = first_leaf(group)
            if group.split(type(first))[1] is not None:
                raise
            raise first from group
    except UsageError as error:
        print(f"duet: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _silence_stdout()
        print("duet: the device written to is full; make room and run it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except ImportError as error:
        if _was_interrupted(error):
            return INTERRUPTED
        raise
    return code


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Give a command ``--config FILE`` and ``--set section.key=value``; see `read_config`."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration (TOML); none: the defaults"
    )
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="one setting over the file's; may be repeated",
    )


def read_config(args: argparse.Namespace) -> Config:
    """Load what the options of `add_config_options` say. Raises `ConfigError`."""
    from duet_trio.config import load

    return load(args.config, args.assignments)


def count(text: str) -> int:
    """For ``add_argument(type=count)``: a whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _was_interrupted(error: BaseException | None) -> bool:
    """Does it come of a Ctrl-C? Modules in C++ tell one that hits their import as an error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _open_what_is_closed() -> None:
    """``duet … >&-``: Python has None for it, and the next file opened would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good


def _silence_stdout() -> None:
    """The interpreter flushes stdout once more at exit; without this it would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    chosen = _chosen(arguments)
    parser = _parser(chosen)
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 2
    return int(args.func(args))


def _chosen(arguments: Sequence[str]) -> Command | None:
    """The command asked for: the first word that is no option (`duet` takes none with a value)."""
    word = next((argument for argument in arguments if not argument.startswith("-")), None)
    return next((command for command in COMMANDS if command.name == word), None)


def _parser(chosen: Command | None) -> argparse.ArgumentParser:
    from duet_trio import __version__

    parser = argparse.ArgumentParser(
        prog="duet",
        description="Spoken conversations for small voice boards, with no cloud.",
        epilog="duet COMMAND --help tells more about one of them.",
    )
    parser.add_argument("--version", action="version", version=f"duet-trio {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if command is chosen and _exists(command.module):
            importlib.import_module(command.module).register(subparsers)
        elif _exists(command.module) and (chosen is None or command.module != chosen.module):
            subparsers.add_parser(command.name, help=command.help, add_help=False)
    return parser


def _exists(module: str) -> bool:
    """Whether the file is there; `importlib.util.find_spec` would import the parent packages."""
    base = Path(__file__).parent.joinpath(*module.split(".")[1:])
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()
