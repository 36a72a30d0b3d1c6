"""``duet bench http``: how soon ``/speak`` sounds, and fifty programs at once beside ten boards.

The first part compares two clocks of one run: what a client waits for its first audio byte, and
what the engine took to its first block (from the trace). The rest is what HTTP adds.

In the second, boards hold an answer of a minute each, first alone, then while the programs stream
theirs; the trace tells how late the boards' packets were written, `/proc` how much memory the main
process took.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import trio

from duet_trio.bench.figures import Spread, machine
from duet_trio.bench.processes import CONFIG_FOLDER, RunningServer, serving
from duet_trio.bench.talker import talking
from duet_trio.trace.reader import read

SHORT = "A short text to be spoken."
LONG = "This is one sentence of a long text, which takes about a minute to say in all. " * 12
LIMIT_S = 180.0
SAMPLE_S = 0.1
ALONE_S = 5.0  # the boards speak alone for so long before, to compare with


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """``requests`` one after the other, then ``clients`` at once beside ``boards``."""

    requests: int
    clients: int
    boards: int


@dataclass(slots=True)
class Heard:
    """One response. ``first_s``: from the request to the first byte of audio (header included)."""

    whole: bool = False
    first_s: float = 0.0
    audio_bytes: int = 0


@dataclass(slots=True)
class Memory:
    """Resident memory of the server's main process, in MB."""

    before: float = 0.0
    peak: float = 0.0
    samples: int = field(default=0)


async def measure(options: HttpOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.jsonl"
        settings = [
            f"llm.script={[LONG]!r}",
            "llm.tokens_per_s=500",
            f"trace.path={trace.as_posix()!r}",
        ]
        async with serving(CONFIG_FOLDER / "scripted.toml", settings, folder) as server:
            alone = [await _speak(server, SHORT) for _ in range(options.requests)]
            memory = Memory(before=server.rss_mb())
            crowd = await _crowd(server, options, memory)
        figures = _from_trace(trace, options.requests)
    added = [
        (heard.first_s - block_s) * 1000
        for heard, block_s in zip(alone, figures.pop("first_block_s"), strict=True)
    ]
    grown = max(0.0, memory.peak - memory.before)
    return {
        "machine": machine(),
        "clients": options.clients,
        "boards": options.boards,
        "first_audio_ms": Spread.of([heard.first_s * 1000 for heard in alone]).as_dict(),
        "over_first_block_ms": Spread.of(added).as_dict(),
        "failed": sum(not heard.whole for heard in (*alone, *crowd)),
        "crowd_first_audio_ms": Spread.of([heard.first_s * 1000 for heard in crowd]).as_dict(),
        "crowd_audio_s": round(sum(heard.audio_bytes for heard in crowd) / 48_000, 1),
        "rss_mb_before": round(memory.before, 1),
        "rss_mb_peak": round(memory.peak, 1),
        "rss_mb_per_client": round(grown / options.clients, 3),
        **figures,
    }


async def _crowd(server: RunningServer, options: HttpOptions, memory: Memory) -> list[Heard]:
    """All programs at once while the boards speak."""
    crowd: list[Heard] = []

    async def one() -> None:
        crowd.append(await _speak(server, LONG))

    async with AsyncExitStack() as stack:
        for number in range(1, options.boards + 1):
            talker = await stack.enter_async_context(talking(server.url, number))
            await talker.ask("go on")
            with trio.fail_after(LIMIT_S):
                await talker.until_packets(3)
        await trio.sleep(ALONE_S)
        memory.before = memory.peak = server.rss_mb()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, server, memory)
            with trio.move_on_after(LIMIT_S):
                async with trio.open_nursery() as programs:
                    for _ in range(options.clients):
                        programs.start_soon(one)
            nursery.cancel_scope.cancel()
    return crowd + [Heard()] * (options.clients - len(crowd))


async def _watch(server: RunningServer, memory: Memory) -> None:
    while True:
        memory.peak = max(memory.peak, server.rss_mb())
        memory.samples += 1
        await trio.sleep(SAMPLE_S)


async def _speak(server: RunningServer, text: str) -> Heard:
    """One request on a connection of its own."""
    heard = Heard()
    body = json.dumps({"text": text, "format": "pcm"}).encode()
    http = h11.Connection(h11.CLIENT)
    head = h11.Request(
        method="POST",
        target="/speak",
        headers=[("Host", "127.0.0.1"), ("Content-Length", str(len(body)))],
    )
    stream = await trio.open_tcp_stream("127.0.0.1", server.http_port)
    async with stream:
        asked = trio.current_time()
        await stream.send_all((http.send(head) or b"") + (http.send(h11.Data(data=body)) or b""))
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                try:
                    http.receive_data(bytes(await stream.receive_some()))
                except trio.BrokenResourceError:
                    return heard
            elif isinstance(event, h11.Data):
                heard.first_s = heard.first_s or trio.current_time() - asked
                heard.audio_bytes += len(event.data)
            elif isinstance(event, h11.EndOfMessage):
                heard.whole = heard.audio_bytes > 0
                return heard
            elif not isinstance(event, h11.Response) or event.status_code != 200:
                return heard


def _from_trace(path: Path, requests: int) -> dict[str, Any]:
    """The engine's first blocks of the first answers; how late the boards' packets were."""
    asked: dict[int, float] = {}
    first_pcm: dict[int, float] = {}
    late_ms: list[float] = []
    late_alone_ms: list[float] = []
    began = ended = 0.0
    for event in read(path):
        generation, name = event.get("generation") or 0, event["event"]
        if name == "tts.start":
            asked.setdefault(generation, event["t"])
        elif name == "pcm":
            first_pcm.setdefault(generation, event["t"])
        elif name == "answer.start" and event.get("client") and generation > requests:
            began = began or event["t"]
        elif name == "answer.end" and event.get("client") and generation > requests:
            ended = event["t"]
        elif name == "sent" and event.get("what") == "frame" and not ended:
            late = max(0.0, event["t"] - event["due"]) * 1000
            (late_ms if began else late_alone_ms).append(late)
    alone = sorted(asked)[:requests]
    return {
        "first_block_s": [first_pcm[number] - asked[number] for number in alone],
        "board_packets": len(late_ms),
        "board_late_ms": Spread.of(late_ms or [0.0]).as_dict(),
        "board_late_alone_ms": Spread.of(late_alone_ms or [0.0]).as_dict(),
    }


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""

    def line(spread: dict[str, float]) -> str:
        return (
            f"median {spread['median']:.2f}  p99 {spread['p99']:.2f}"
            f"  largest {spread['largest']:.2f} ms  (n = {spread['count']})"
        )

    lines: Sequence[str] = [
        f"on {figures['machine']['cpu']}",
        f"/speak, first audio byte:          {line(figures['first_audio_ms'])}",
        f"  over the engine's first block:   {line(figures['over_first_block_ms'])}",
        f"{figures['clients']} programs at once, first byte:  "
        f" {line(figures['crowd_first_audio_ms'])}",
        f"  failed: {figures['failed']}; {figures['crowd_audio_s']} s of audio in all",
        f"  main process: {figures['rss_mb_before']} → {figures['rss_mb_peak']} MB,"
        f" {figures['rss_mb_per_client']} MB a client",
        f"{figures['boards']} boards alone, written late:    "
        f" {line(figures['board_late_alone_ms'])}",
        f"  with the programs:               {line(figures['board_late_ms'])}",
    ]
    return "\n".join(lines)
