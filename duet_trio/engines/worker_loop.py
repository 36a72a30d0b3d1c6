"""The worker's own program: reads commands, runs jobs, notices that its parent is gone.

The main thread loads the engine and runs jobs; one thread reads commands, sets the cancel and
pause flags, and calls ``os._exit`` at end of file: that is how a worker ends with its parent,
whatever the engine is doing (as long as it releases the GIL, which native calls do).
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from duet_trio.engines.adapter import Loaded, find_adapter
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.job_runner import RunningJob
from duet_trio.engines.output import Output
from duet_trio.engines.pipe import (
    Cancel,
    CloseStream,
    Decoder,
    Load,
    LoadFailed,
    Pause,
    Ready,
    ToWorker,
    worker_decoder,
)
from duet_trio.engines.scripted import Act, ScriptedEngine
from duet_trio.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    MissingFileError,
    MissingLibraryError,
    UsageError,
)

READ_BYTES = 65536


def run_worker(kind: str, commands: int, messages: int) -> None:
    """Serve one engine over two file descriptors. Ends only with the process."""
    if kind not in ("asr", "llm", "tts"):
        raise SystemExit(f"worker: unknown kind '{kind}'; one of asr, llm, tts")
    engine_kind = cast(EngineKind, kind)
    output = Output(messages)
    incoming = _read_messages(commands)
    load = next(incoming)
    if not isinstance(load, Load):
        raise SystemExit("worker: the first message must be Load")
    if load.settings.get("engine") == "scripted":
        scripted = ScriptedEngine(engine_kind, load.settings)
        scripted.receive(load, time.monotonic())
        _run_scripted(scripted, incoming, output)
    else:
        _run_adapter(engine_kind, load.settings, incoming, output)


def _read_messages(fd: int) -> Iterator[ToWorker]:
    """Messages until the pipe ends; then, or when it is no protocol, the process ends."""
    decoder: Decoder[ToWorker] = worker_decoder()
    while chunk := os.read(fd, READ_BYTES):
        decoder.feed(chunk)
        try:
            yield from decoder
        except EngineCrashedError as error:
            print(f"worker: {error}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is the log
            os._exit(3)
    os._exit(0)


def _start_reader(incoming: Iterator[ToWorker], handle: Callable[[ToWorker], None]) -> None:
    def read() -> None:
        for message in incoming:
            handle(message)

    threading.Thread(target=read, name="commands", daemon=True).start()


class Desk:
    """The jobs that are known: filled by the command thread, worked off by the main thread."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._jobs: dict[int, RunningJob] = {}
        self.todo: queue.SimpleQueue[RunningJob | CloseStream] = queue.SimpleQueue()

    def handle(self, message: ToWorker) -> None:
        """One command (command thread)."""
        match message:
            case Load():
                print("worker: a second Load", file=sys.stderr, flush=True)  # noqa: T201
                os._exit(3)
            case CloseStream():
                self.todo.put(message)
            case Cancel(id=number):
                if job := self._find(number):
                    job.cancel()
            case Pause(id=number):
                if job := self._find(number):
                    job.pause()
            case new:
                running = RunningJob(new, self._output)
                with self._lock:
                    self._jobs[new.id] = running
                self.todo.put(running)

    def run(self, job: RunningJob, adapter: Any) -> None:
        """Run one job to its end and forget it."""
        job.run(adapter)
        with self._lock:
            del self._jobs[job.job.id]

    def _find(self, number: int) -> RunningJob | None:
        with self._lock:
            return self._jobs.get(number)


def _run_adapter(
    kind: EngineKind, settings: dict[str, Any], incoming: Iterator[ToWorker], output: Output
) -> None:
    desk = Desk(output)
    # Before loading, which takes minutes: a parent that dies meanwhile must be noticed.
    _start_reader(incoming, desk.handle)
    try:
        adapter = find_adapter(kind, str(settings.get("engine", "")))
        loaded: Loaded = adapter.load(settings)
    except Exception as error:  # noqa: BLE001 - supervision border: the worker's job loop
        output.send(_load_failed(error))
        sys.exit(1)
    output.send(
        Ready(loaded.slots, loaded.longest_step_ms, loaded.info, list(loaded.control_tokens))
    )
    while True:
        item = desk.todo.get()
        if isinstance(item, CloseStream):
            adapter.close_stream(item.stream)
        elif loaded.slots > 1:
            threading.Thread(target=desk.run, args=(item, adapter), daemon=True).start()
        else:
            desk.run(item, adapter)


def _load_failed(error: Exception) -> LoadFailed:
    match error:
        case MissingFileError():
            return LoadFailed(str(error), "file")
        case MissingLibraryError():
            return LoadFailed(str(error), "library")
        case ConfigError():
            return LoadFailed(str(error), "config")
        case UsageError() | EngineError():
            return LoadFailed(str(error))
        case _:
            return LoadFailed(f"{type(error).__name__}: {error}")


def _run_scripted(engine: ScriptedEngine, incoming: Iterator[ToWorker], output: Output) -> None:
    """The timed loop around the scripted engine; every message wakes it."""
    inbox: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
    _start_reader(incoming, inbox.put)
    while True:
        for out in engine.advance(time.monotonic()):
            if isinstance(out, Act):
                _commit(out, output)
            else:
                output.send(out)
        wake = engine.next_wakeup()
        timeout = None if wake is None else max(0.0, wake - time.monotonic())
        try:
            message = inbox.get(timeout=timeout)
        except queue.Empty:
            continue
        engine.receive(message, time.monotonic())


def _commit(act: Act, output: Output) -> None:
    match act.effect:
        case "crash":
            os.abort()
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "garbage":
            output.write_raw(act.data)
        case "flood":
            while True:
                output.write_raw(act.data)
