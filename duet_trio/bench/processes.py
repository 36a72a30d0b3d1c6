"""Servers under measurement: processes of their own, on loopback, on free ports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from duet_trio.errors import UsageError
from duet_trio.server.memory import rss_mb

CONFIG_FOLDER = Path(__file__).parent.parent.parent / "config"


STOP_S = 4.0


def named_config(name: str) -> Path:
    """The file of that path, else that of ``config/``."""
    path = Path(name)
    return path if path.is_file() else CONFIG_FOLDER / name


class BenchError(UsageError):
    """The thing to be measured did not start or died."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A ``duet serve`` (or another server) of ours."""

    pid: int
    websocket_port: int
    http_port: int
    ready_s: float

    @property
    def url(self) -> str:
        """Where boards connect."""
        return f"ws://127.0.0.1:{self.websocket_port}/xiaozhi/v1/"

    def rss_mb(self) -> float:
        """Its resident memory."""
        return rss_mb(self.pid)

    def cpu_s(self) -> float:
        """Processor time used so far, workers not included (Linux; else 0)."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / 100.0


@asynccontextmanager
async def serving(
    config: Path,
    settings: Sequence[str],
    folder: Path,
    *,
    wait_ready: bool = True,
    ready_s: float = 120.0,
) -> AsyncIterator[RunningServer]:
    """A ``duet serve`` with this configuration; ended when the block is left.

    ``settings`` are ``section.key=value``. Raises `BenchError` if it does not get ready.
    """
    sets = [
        "server.host=127.0.0.1",
        "server.websocket_port=0",
        "server.http_port=0",
        f"server.state_dir={folder.as_posix()!r}",
        *settings,
    ]
    arguments = [argument for item in sets for argument in ("--set", item)]
    command = [sys.executable, "-m", "duet_trio", "serve", "--config", str(config), *arguments]
    async with _started(command) as (process, lines):
        started = trio.current_time()
        websocket_port = http_port = 0
        with trio.move_on_after(ready_s) as limit:
            async for line in lines:
                words = line.split()
                if line.startswith("boards:"):
                    websocket_port = _port(words[1])
                elif line.startswith("OTA URL:"):
                    http_port = _port(words[2])
                if line == "ready" or (line.startswith("loading") and not wait_ready):
                    break
            else:
                raise BenchError("the server ended before it was ready")
        if limit.cancelled_caught:
            raise BenchError(f"the server was not ready after {ready_s:g} s")
        yield RunningServer(process.pid, websocket_port, http_port, trio.current_time() - started)


@asynccontextmanager
async def echoing() -> AsyncIterator[int]:
    """A do-nothing WebSocket echo on trio in a process of its own; gives its port."""
    async with _started([sys.executable, "-m", "duet_trio.bench.echo"]) as (_, lines):
        async for line in lines:
            yield int(line)
            return
        raise BenchError("the echo server did not start")


@asynccontextmanager
async def _started(
    command: Sequence[str],
) -> AsyncIterator[tuple[trio.Process, _Lines]]:
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process, _Lines(process.stdout)
    finally:
        with trio.CancelScope(shield=True):
            process.terminate()
            with trio.move_on_after(STOP_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


class _Lines:
    """A process's output, line by line. (No async generator: nobody would close it.)"""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._whole: list[bytes] = []
        self._rest = b""

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while not self._whole:
            chunk = await self._stream.receive_some()
            if not chunk:
                raise StopAsyncIteration
            *self._whole, self._rest = (self._rest + chunk).split(b"\n")
        return self._whole.pop(0).decode().strip()


def _port(url: str) -> int:
    return int(url.split("/")[2].rpartition(":")[2])
