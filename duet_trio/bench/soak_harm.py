"""Chaos for a soak: boards that misbehave, workers that die, and what else knocks at a port."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import trio

from duet_trio.bench.processes import RunningServer
from duet_trio.bench.soak_look import workers
from duet_trio.lab.puppet import Puppet

SCANS = (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.0\r\n\r\n")


class Chaos:
    """Everything at once, at random; ``deeds`` counts what was done."""

    def __init__(self, server: RunningServer, rng: random.Random) -> None:
        self._server = server
        self._rng = rng
        self.deeds: Counter[str] = Counter()

    async def run(self, boards: Sequence[Puppet], seconds: float) -> None:
        """Do harm for so long. The boards are left as they are, workers perhaps dead."""
        with trio.move_on_after(seconds):
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
            self.deeds[name] += 1
            deeds[name]()
            await trio.sleep(self._rng.choice((0.0, 0.05, 0.3, 1.0)))

    async def _harm(self) -> None:
        """Kill or stop a worker now and then (Linux: elsewhere none is known)."""
        while True:
            await trio.sleep(self._rng.uniform(2, 5))
            found = workers(self._server.pid)
            if found:
                how = self._rng.choice((signal.SIGKILL, signal.SIGSTOP))
                self.deeds[f"worker {how.name}"] += 1
                with suppress(ProcessLookupError):
                    os.kill(self._rng.choice(found), how)

    async def _scan(self) -> None:
        """What comes in from a network: connections that are no board's."""
        while True:
            await trio.sleep(self._rng.uniform(0.1, 0.5))
            self.deeds["port scan"] += 1
            with suppress(OSError, trio.BrokenResourceError):
                stream = await trio.open_tcp_stream("127.0.0.1", self._server.websocket_port)
                async with stream:
                    await stream.send_all(self._rng.choice(SCANS))
                    await trio.sleep(self._rng.choice((0.0, 0.05)))
