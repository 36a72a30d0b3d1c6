"""``bench soak``: a real server process under everything that happens in a year, in minutes.

Three parts. *Aborted answers*: resources after the 200th are compared with those after the last.
*Reconnects*: the same. *Chaos*: boards that ask, interrupt, vanish and come back, duplicate ids,
killed and stopped workers, port scans and garbage, all at random; then a plain question to every
board must be answered whole. Scripted engines in ordinary workers: it is the server that is soaked.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench.processes import CONFIG_FOLDER, RunningServer, serving
from duet_trio.board.fingerprint import generation_of
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.real import bridge
from duet_trio.lab.wire import MemoryWire
from duet_trio.opus import Decoder
from duet_trio.wire.handshake import Handshake

STORY = "The first sentence of a story. And a second, a bit longer one. And here it ends."
WARM_UP = 200  # aborted answers before the first look
WHOLE_S = 40.0  # longest wait for the last answers: a worker may just have been killed


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """How much of each part; ``boards`` at once."""

    aborts: int = 1200
    reconnects: int = 500
    chaos_s: float = 60.0
    boards: int = 8
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Resources:
    """What a server holds: open files, worker processes, memory."""

    files: int
    children: int
    rss_mb: float

    def to_dict(self) -> dict[str, float]:
        """For the figures."""
        return {"files": self.files, "children": self.children, "rss_mb": round(self.rss_mb, 1)}


def resources(server: RunningServer) -> Resources:
    """Look at a server process (Linux)."""
    return Resources(
        len(os.listdir(f"/proc/{server.pid}/fd")), len(workers(server.pid)), server.rss_mb()
    )


def workers(pid: int) -> list[int]:
    """The processes that a server has started (Linux)."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


class _Ears:
    """Names the answer by its tone."""

    def __init__(self) -> None:
        self._decoder = Decoder(24_000)

    def __call__(self, packet: bytes) -> int | None:
        return generation_of(self._decoder.decode(packet))


async def measure(options: SoakOptions) -> dict[str, Any]:
    """Run the soak; returns what ``--json`` prints. ``failures`` is empty if all is well."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"llm.script=[{STORY!r}]",
            "llm.tokens_per_s=400",
            "tts.rtf=0.1",
            "tts.seconds_per_character=0.03",
            "tts.first_s=2",
            "tts.stall_s=1",
            "llm.first_s=2",
            "llm.stall_s=1",
        ]
        async with serving(CONFIG_FOLDER / "scripted.toml", settings, Path(folder)) as server:
            return await _Soak(server, options).run()


class _Soak:
    def __init__(self, server: RunningServer, options: SoakOptions) -> None:
        self._server = server
        self._options = options
        self._rng = random.Random(options.seed)
        self._deeds: Counter[str] = Counter()
        self._failures: list[str] = []
        self._aborted = 0

    async def run(self) -> dict[str, Any]:
        figures: dict[str, Any] = {}
        async with trio.open_nursery() as nursery:
            boards = [self._board(number, nursery) for number in range(self._options.boards)]
            figures["aborts"] = await self._aborts(boards)
            figures["worst_abort_to_stop_ms"] = self._worst_ms(boards)
            figures["after_aborts"] = await self._whole(boards)
            figures["reconnects"] = await self._reconnects(boards)
            figures["after_reconnects"] = await self._whole(boards)
            await self._chaos(boards)
            figures["chaos"] = dict(self._deeds)
            figures["after_chaos"] = await self._whole(boards)
            figures["at_the_end"] = resources(self._server).to_dict()
            nursery.cancel_scope.cancel()
        stale = [one for board in boards for one in board.complaints]
        figures["worst_in_chaos_ms"] = self._worst_ms(boards)
        figures["complaints"] = stale[:10]
        figures["failures"] = self._failures + [f"stale: {one}" for one in stale[:10]]
        return figures

    def _board(self, number: int, nursery: trio.Nursery) -> Puppet:
        def host(wire: MemoryWire, who: Handshake) -> None:
            nursery.start_soon(bridge, self._server.url, wire, who)

        return Puppet(f"02:00:00:00:01:{number:02x}", host, _Ears(), memory=1)

    def _worst_ms(self, boards: list[Puppet]) -> float:
        return round(1000 * max(board.worst_stop_s for board in boards), 1)

    # --- the parts

    async def _aborts(self, boards: list[Puppet]) -> dict[str, Any]:
        warm = await self._abort_until(boards, min(WARM_UP, self._options.aborts))
        late = await self._abort_until(boards, self._options.aborts)
        return self._compared("aborted answers", warm, late) | {"answers": self._aborted}

    async def _abort_until(self, boards: list[Puppet], count: int) -> Resources:
        async with trio.open_nursery() as nursery:
            for board in boards:
                nursery.start_soon(self._abort_some, board, count)
        return await self._at_rest()

    async def _abort_some(self, board: Puppet, count: int) -> None:
        if not board.connected:
            board.connect()
            await trio.sleep(0.2)
        while self._aborted < count:
            self._aborted += 1
            board.ask("a question")
            await trio.sleep(self._rng.choice((0.02, 0.1, 0.3)))
            board.abort()
            await trio.sleep(0.02)

    async def _reconnects(self, boards: list[Puppet]) -> dict[str, Any]:
        warm = await self._reconnect(boards, min(WARM_UP, self._options.reconnects // 2))
        late = await self._reconnect(boards, self._options.reconnects)
        return self._compared("reconnects", warm, late) | {"count": self._options.reconnects}

    async def _reconnect(self, boards: list[Puppet], count: int) -> Resources:
        for number in range(count):
            board = boards[number % len(boards)]
            if number % 3:
                board.drop()
            board.connect()  # every third time beside the old connection
            await trio.sleep(0.02)
            if number % 2:
                board.ask("a question")
        await trio.sleep(0.5)
        return await self._at_rest()

    def _compared(self, what: str, warm: Resources, late: Resources) -> dict[str, Any]:
        grown_mb = late.rss_mb - warm.rss_mb
        if (late.files, late.children) != (warm.files, warm.children) or grown_mb > 5:
            self._failures.append(f"{what}: {warm} became {late}")
        return {
            "before": warm.to_dict(),
            "after": late.to_dict(),
            "rss_growth_mb": round(grown_mb, 2),
        }

    async def _at_rest(self) -> Resources:
        """Resources once answers and closed connections have been forgotten."""
        await trio.sleep(2.5)
        return resources(self._server)

    async def _whole(self, boards: list[Puppet]) -> int:
        """A plain question to every board; how many were answered whole."""
        whole = 0
        async with trio.open_nursery() as nursery:
            for board in boards:
                board.drop()
                board.connect()
                nursery.start_soon(self._ask_whole, board)
        for board in boards:
            packets = board.parts[-1].packets if board.parts else []
            foreign = {whose for _at, whose in packets} - {board.parts[-1].generation}
            good = len(packets) >= len(STORY) // 2 and not foreign
            whole += good
            if not good:
                self._failures.append(f"{board.device_id}: no whole answer at the end of a part")
        return whole

    async def _ask_whole(self, board: Puppet) -> None:
        deadline = trio.current_time() + WHOLE_S
        while trio.current_time() < deadline:
            await trio.sleep(0.3)
            before = len(board.parts)
            board.ask("and now?")
            with trio.move_on_at(deadline):
                while len(board.parts) == before or board.speaking:
                    await board.news.wait()
            if len(board.parts) > before and not board.parts[-1].alerts:
                return

    # --- chaos

    async def _chaos(self, boards: list[Puppet]) -> None:
        with trio.move_on_after(self._options.chaos_s):
            async with trio.open_nursery() as nursery:
                for board in boards:
                    nursery.start_soon(self._misbehave, board)
                nursery.start_soon(self._harm)
                nursery.start_soon(self._scan)

    async def _misbehave(self, board: Puppet) -> None:
        deeds: dict[str, Callable[[], object]] = {
            "ask": partial(board.ask, "a question"),
            "abort": board.abort,
            "wake word": partial(board.abort, "wake_word_detected"),
            "drop": board.drop,
            "duplicate": board.connect,
            "vanish": board.vanish,
            "garbage": partial(board.raw, b"\xff" * 100),
            "junk": partial(board.raw, "{"),
        }
        while True:
            if not board.connected:
                board.connect()
                await trio.sleep(0.1)
            weights = (8, 5, 2, 1, 1, 1, 2, 1)
            name = self._rng.choices(list(deeds), weights)[0]
            self._deeds[name] += 1
            deeds[name]()
            await trio.sleep(self._rng.choice((0.0, 0.05, 0.3, 1.0)))

    async def _harm(self) -> None:
        """Kill or stop a worker now and then."""
        while True:
            await trio.sleep(self._rng.uniform(2, 5))
            found = workers(self._server.pid)
            if found:
                how = self._rng.choice((signal.SIGKILL, signal.SIGSTOP))
                self._deeds[f"worker {how.name}"] += 1
                with suppress(ProcessLookupError):
                    os.kill(self._rng.choice(found), how)

    async def _scan(self) -> None:
        """What comes in from a network: connections that are no board's."""
        while True:
            await trio.sleep(self._rng.uniform(0.1, 0.5))
            self._deeds["port scan"] += 1
            with suppress(OSError, trio.BrokenResourceError):
                stream = await trio.open_tcp_stream("127.0.0.1", self._server.websocket_port)
                async with stream:
                    await stream.send_all(
                        self._rng.choice(
                            (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.0\r\n\r\n")
                        )
                    )
                    await trio.sleep(self._rng.choice((0.0, 0.05)))


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = []
    for part in ("aborts", "reconnects"):
        before, after = figures[part]["before"], figures[part]["after"]
        lines.append(
            f"{part:11} files {before['files']:.0f} -> {after['files']:.0f}"
            f"  workers {before['children']:.0f} -> {after['children']:.0f}"
            f"  memory of the main process {before['rss_mb']} -> {after['rss_mb']} MB"
        )
    done = ", ".join(f"{count} x {name}" for name, count in sorted(figures["chaos"].items()))
    lines.append(f"chaos       {done}")
    whole = figures["after_aborts"], figures["after_reconnects"], figures["after_chaos"]
    lines.append(f"answered whole afterwards: {whole[0]}, {whole[1]}, {whole[2]} boards")
    lines.append(
        f"abort to stop, worst: {figures['worst_abort_to_stop_ms']} ms,"
        f" in the chaos {figures['worst_in_chaos_ms']} ms"
    )
    lines += [f"FAILED {failure}" for failure in figures["failures"]]
    return "\n".join(lines)
