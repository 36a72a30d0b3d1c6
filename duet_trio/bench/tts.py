"""``duet bench tts``: what our way to a voice costs, beside the voice's own time.

* *added*: from the moment a block of PCM leaves the engine's library to its arrival at the
  caller in the main process: shim, cffi, the worker's Python, pipe, trio. Measured with the
  native voice, whose library is wrapped for that (`chunk_clock.c`); other voices have no such
  place to put a clock.
* *cancel*: from a cancelled call to the engine's being idle, beside the longest block.
* *restart*: from a SIGKILL to ready again, beside the load of the model alone.

Beside them stands what the same machine takes at the same time without us (`bench.floor`): a bare
pipe into a trio task, in the same rhythm and with blocks of the same size, and the start of a
Python process with numpy.

The native voice runs the published libqwen on a tiny pair of models with random weights, made
here: every stage is the engine's own, the sound is noise. ``--voice demo`` takes the demo's.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import trio

from duet_trio.bench import floor
from duet_trio.bench.chunk_clock import added_ms
from duet_trio.bench.figures import Spread, machine
from duet_trio.bench.processes import BenchError
from duet_trio.bench.tts_voices import BenchVoice, demo_voice, load_time_s, native_voice
from duet_trio.engines.client import TtsClient
from duet_trio.engines.contracts import SpeechRequest
from duet_trio.engines.process import ProcessCarrier
from duet_trio.engines.supervisor import EngineService

#: The goals.
ADDED_MS, RESTART_S = 0.3, 0.3
TEXT = "Hello there, this is a bench."
_POLL_S = 0.0005
_CANCEL_AFTER_S = (0.05, 0.25, 0.6)
_PIPE_BLOCKS = 60


@dataclass(frozen=True, slots=True)
class TtsOptions:
    """``voice``: ``native`` or ``demo``; ``library``: of the native one (empty: as pulled)."""

    voice: Literal["native", "demo"]
    pieces: int
    cancels: int
    kills: int
    library: str = ""


class _Bench:
    """One voice in its worker, and what is measured of it."""

    def __init__(self, service: EngineService, voice: BenchVoice) -> None:
        self._service = service
        self._client = TtsClient(service, voice.section)
        self._voice = voice
        self._spaces_s: list[float] = []  # between the engine's blocks
        self._sizes_bytes: list[int] = []  # of those that arrived

    @property
    def longest_block_ms(self) -> float:
        """The longest time that the engine took for a block after its first."""
        return max(self._spaces_s, default=0.0) * 1000

    @property
    def rhythm(self) -> tuple[float, int]:
        """The usual time between two blocks in seconds, and their usual size in bytes."""
        return statistics.median(self._spaces_s), int(statistics.median(self._sizes_bytes))

    async def speak(self, text: str, cap_s: float) -> list[float]:
        """Speak a piece; when its blocks arrived."""
        arrived: list[float] = []

        def on_block(pcm: bytes) -> None:
            arrived.append(time.monotonic())
            self._sizes_bytes.append(len(pcm))

        request = SpeechRequest(text, generation=1, piece=0, cap_s=cap_s)
        await self._client.speak(request, on_block)
        return arrived

    async def added(self, pieces: int) -> list[float]:
        """Milliseconds added to each block."""
        clock = self._voice.clock
        assert clock is not None
        added: list[float] = []
        for _ in range(pieces):
            before = len(clock.blocks_s())
            arrived = await self.speak(TEXT, 8.0)
            added += added_ms(self._note(before), arrived)
        return added

    def _note(self, before: int) -> list[float]:
        """Times of the blocks since; the spaces between them are kept."""
        left = self._voice.clock.blocks_s()[before:] if self._voice.clock else []
        self._spaces_s += [after - first for first, after in itertools.pairwise(left)]
        return left

    async def cancel(self, after_s: float) -> float:
        """Milliseconds from a cancel, so long after the first block, to the engine's being idle."""
        first = trio.Event()
        over: list[bool] = []
        before = len(self._voice.clock.blocks_s()) if self._voice.clock else 0
        async with trio.open_nursery() as nursery:

            async def talk() -> None:
                request = SpeechRequest(self._voice.long_text, generation=1, piece=0, cap_s=30.0)
                await self._client.speak(request, lambda _: first.set())
                over.append(True)
                nursery.cancel_scope.cancel()

            nursery.start_soon(talk)
            await first.wait()
            await trio.sleep(after_s)
            nursery.cancel_scope.cancel()
            began = time.monotonic()
        if over:
            raise BenchError("bench tts: the piece was over before it was cancelled")
        while self._service.statistics()["running"]:  # noqa: ASYNC110 - nobody else wants an event
            await trio.sleep(_POLL_S)
        took_ms = (time.monotonic() - began) * 1000
        self._note(before)
        return took_ms

    async def restart(self) -> float:
        """Seconds from a SIGKILL to ready again."""
        pid, restarts = self._service.status().pid, self._service.status().restarts
        assert pid is not None
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        while self._service.status().restarts == restarts or self._service.state != "ready":  # noqa: ASYNC110
            await trio.sleep(_POLL_S)
        return time.monotonic() - began


async def measure(options: TtsOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    with tempfile.TemporaryDirectory() as name:
        voice = (
            native_voice(options.library, Path(name)) if options.voice == "native" else demo_voice()
        )
        load_s = await trio.to_thread.run_sync(load_time_s, voice, Path(name))
        figures: dict[str, Any] = {"machine": machine(), "voice": options.voice}
        async with _working(voice) as bench:
            await bench.speak(TEXT, 8.0)  # warm
            if voice.clock is not None:
                added = await bench.added(options.pieces)
                figures["added_ms"] = Spread.of(added).as_dict()
                bare = await floor.pipe_ms(_PIPE_BLOCKS, *bench.rhythm)
                figures["bare_pipe_ms"] = Spread.of(bare).as_dict()
            cancels = [
                await bench.cancel(_CANCEL_AFTER_S[number % len(_CANCEL_AFTER_S)])
                for number in range(options.cancels)
            ]
            figures["longest_block_ms"] = round(bench.longest_block_ms, 1)
            figures["cancel_ms"] = Spread.of(cancels).as_dict()
            figures["load_s"] = round(load_s, 3)
        restarts = []
        for _ in range(options.kills):
            # A worker of its own each time: one that dies again and again waits, on purpose.
            async with _working(voice) as bench:
                restarts.append(await bench.restart())
                await bench.speak(TEXT, 8.0)  # it works again
        figures["restart_s"] = Spread.of(restarts).as_dict()
        figures["bare_start_s"] = Spread.of(await floor.start_s(options.kills)).as_dict()
        return figures


@asynccontextmanager
async def _working(voice: BenchVoice) -> AsyncIterator[_Bench]:
    service = EngineService("tts", voice.settings, ProcessCarrier("tts"), load_s=60.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await service.wait_ready()
        yield _Bench(service, voice)
        nursery.cancel_scope.cancel()


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""

    def line(name: str, digits: int = 2) -> str:
        spread = figures[name]
        return (
            f"median {spread['median']:.{digits}f}  p99 {spread['p99']:.{digits}f}"
            f"  largest {spread['largest']:.{digits}f}  (n = {spread['count']})"
        )

    lines = [f"the {figures['voice']} voice on {figures['machine']['cpu']}"]
    if "added_ms" in figures:
        lines.append(
            f"added to each block    {line('added_ms', 3)} ms   (goal: {ADDED_MS}, idle machine)"
        )
        lines.append(f"a bare pipe            {line('bare_pipe_ms', 3)} ms")
        ours_ms = figures["added_ms"]["median"] - figures["bare_pipe_ms"]["median"]
        lines.append(f"more than a bare pipe  median {ours_ms:.3f} ms")
        lines.append(f"longest codec block    {figures['longest_block_ms']:.0f} ms")
    lines.append(f"cancel → idle          {line('cancel_ms', 1)} ms   (goal: one block)")
    if figures["load_s"]:
        lines.append(f"load of the model      {figures['load_s']:.2f} s")
    lines.append(f"SIGKILL → ready again  {line('restart_s')} s   (goal: load + {RESTART_S})")
    lines.append(f"a bare process         {line('bare_start_s')} s")
    return "\n".join(lines)
