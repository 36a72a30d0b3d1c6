"""``duet bench hello``: how soon a board's hello is answered, at rest and in the worst moment.

The worst moment is a server that has just bound its sockets: 80 boards connect at once (a power
cut has ended) while its models load.
"""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench.figures import Spread, machine
from duet_trio.bench.processes import named_config, serving
from duet_trio.bench.talker import talking

LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class HelloOptions:
    """``config``: name of a file in ``config/``; its engines load meanwhile."""

    boards: int
    config: str


async def measure(options: HelloOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    config = named_config(options.config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serving(config, [], folder, wait_ready=False) as server:
            storm = await _storm(server.url, options.boards)
        async with serving(config, [], folder, wait_ready=False) as server:
            loading = await _one_by_one(server.url, 10)
        async with serving(config, [], folder) as server:
            ready = await _one_by_one(server.url, 50)
            async with AsyncExitStack() as stack:
                for number in range(1, 11):
                    await stack.enter_async_context(talking(server.url, number))
                rss_mb = server.rss_mb()
    return {
        "machine": machine(),
        "config": options.config,
        "storm_boards": options.boards,
        "storm_answered": len(storm),
        "storm_ms": Spread.of(storm).as_dict(),
        "loading_ms": Spread.of(loading).as_dict(),
        "ready_ms": Spread.of(ready).as_dict(),
        "rss_mb_10_boards": round(rss_mb, 1),
    }


async def _storm(url: str, boards: int) -> list[float]:
    """All at once; milliseconds from hello to its answer, of those that got one."""
    answered: list[float] = []

    async def greet(number: int) -> None:
        async with talking(url, number) as talker:
            answered.append(talker.hello_s * 1000)

    with trio.move_on_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            for number in range(1, boards + 1):
                nursery.start_soon(greet, number)
    return answered


async def _one_by_one(url: str, times: int) -> list[float]:
    taken: list[float] = []
    for _ in range(times):
        async with talking(url, 1) as talker:
            taken.append(talker.hello_s * 1000)
    return taken


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""

    def line(key: str) -> str:
        spread = figures[key]
        return (
            f"median {spread['median']:.2f}  p99 {spread['p99']:.2f}"
            f"  largest {spread['largest']:.2f} ms"
        )

    return "\n".join(
        [
            f"on {figures['machine']['cpu']}, {figures['config']}",
            f"hello, ready:            {line('ready_ms')}",
            f"hello, models loading:   {line('loading_ms')}",
            f"{figures['storm_boards']} boards at once, just started:"
            f" {figures['storm_answered']} answered, {line('storm_ms')}",
            f"main process with 10 boards: {figures['rss_mb_10_boards']} MB",
        ]
    )
