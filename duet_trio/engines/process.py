"""Worker processes: everything that differs between systems is here.

A worker is started in a session of its own, so that neither Ctrl-C nor a hang-up of the terminal
reaches it, and ended with SIGKILL only: what it holds is in memory, and an engine that hangs
would not heed anything milder. It notices the end of its parent by the end of its command pipe.
Not by PR_SET_PDEATHSIG: that is bound to the *thread* that started the process, and trio starts
processes from a cached thread which ends after 10 idle seconds, taking the worker with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Collection

import trio

from duet_trio.engines.carrier import Connection
from duet_trio.engines.contracts import EngineKind
from duet_trio.errors import EngineCrashedError

STDERR_LINES = 20
STDERR_LINE_BYTES = 500
#: How long after the end of a process we wait for the end of its stderr, for the last words.
LAST_WORDS_S = 0.2


class ProcessCarrier:
    """Starts ``python -m duet_trio.engines.worker KIND``.

    ``cpus``: run it on these CPUs only (Linux; elsewhere it has no effect).
    """

    def __init__(self, kind: EngineKind, *, cpus: Collection[int] = ()) -> None:
        self._kind = kind
        self._cpus = frozenset(cpus)

    async def start(self, nursery: trio.Nursery) -> Connection:
        """Start a worker. Raises `EngineCrashedError` when the system refuses."""
        command = [sys.executable, "-m", "duet_trio.engines.worker", self._kind]
        try:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineCrashedError(f"worker {self._kind} cannot be started: {error}") from error
        if self._cpus and sys.platform == "linux":
            os.sched_setaffinity(process.pid, self._cpus)  # threads made later inherit it
        assert process.stdin is not None
        assert process.stdout is not None
        handle = ProcessHandle(process)
        nursery.start_soon(handle.drain_stderr)
        return Connection(process.stdin, process.stdout, handle)


class ProcessHandle:
    """A worker process; keeps the last lines of its stderr."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._lines: deque[str] = deque(maxlen=STDERR_LINES)
        self._drained = trio.Event()

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL; also ends a process that is stopped."""
        self._process.kill()

    async def wait(self) -> str:
        """Reap it; returns how it ended and the last thing that it said."""
        code = await self._process.wait()
        with trio.move_on_after(LAST_WORDS_S):
            await self._drained.wait()
        words = exit_in_words(code)
        last = " | ".join(list(self._lines)[-3:])
        return f"{words}: {last}" if last else words

    async def drain_stderr(self) -> None:
        """Read stderr to its end, or the worker would block on a full pipe."""
        assert self._process.stderr is not None
        rest = b""
        try:
            async with self._process.stderr as stream:
                async for chunk in stream:
                    *lines, rest = (rest + chunk).split(b"\n")
                    rest = rest[-STDERR_LINE_BYTES:]
                    for line in lines:
                        self._note(line)
        finally:
            self._note(rest)
            self._drained.set()

    def _note(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text:
            self._lines.append(text[:STDERR_LINE_BYTES])


def exit_in_words(code: int) -> str:
    """A return code of ``subprocess`` as words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
