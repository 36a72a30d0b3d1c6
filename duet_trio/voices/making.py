"""Starts the process that makes voices (`engines.native.maker`) and says how it ended."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from duet_trio.engines.native.maker_task import Outcome, Task
from duet_trio.errors import DuetError, UsageError

#: Loading large files from a slow disk, then seconds of work.
_WORK_S = 120.0
_STDERR_LINES = 3


class VoiceFailedError(DuetError):
    """The engine could not make or speak this voice."""


def run_task(
    task: Task, load_s: float, *, work_s: float = _WORK_S, command: tuple[str, ...] = ()
) -> Outcome:
    """Do ``task`` in a process of its own; blocks for ``load_s + work_s`` at most.

    Raises `UsageError` for what the person can mend, `VoiceFailedError` when the engine fails,
    hangs or dies.
    """
    command = command or (sys.executable, "-m", "duet_trio.engines.native.maker")
    try:
        done = subprocess.run(
            command,
            input=msgspec.json.encode(task),
            capture_output=True,
            timeout=load_s + work_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise VoiceFailedError(
            f"the engine did not answer within {load_s + work_s:.0f} s and was stopped"
        ) from None
    try:
        outcome = msgspec.json.decode(done.stdout, type=Outcome)
    except msgspec.DecodeError:
        raise VoiceFailedError(_death(done.returncode, done.stderr)) from None
    if outcome.error:
        raise (UsageError if outcome.usage else VoiceFailedError)(outcome.error)
    return outcome


def _death(code: int, stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    last = "; ".join([line for line in lines if line][-_STDERR_LINES:])
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"the engine's process died ({how}): {last or 'it said nothing'}"
