"""``duet bench abort``: from the button to the ``tts stop``, beside a do-nothing echo.

Five boards talk; each in turn presses its button in mid-sentence. Between any two presses the
same client does one round trip to an echo server on the same library, so that both samples saw
the same machine. With ``--hang`` the voice hangs while the buttons are pressed.
"""

from __future__ import annotations

import random
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from trio_websocket import WebSocketConnection, open_websocket_url

from duet_trio.bench.figures import Spread, machine
from duet_trio.bench.processes import CONFIG_FOLDER, echoing, serving
from duet_trio.bench.talker import ABORT, Talker, talking

LONG_ANSWER = "This is a long scripted answer that goes on and on. " * 12
QUIET_S = 0.25  # long after a stop: nothing of the old answer may come
LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class AbortOptions:
    """``hang``: the voice never returns; its deadline is far away."""

    aborts: int
    boards: int
    hang: bool
    seed: int


@dataclass(frozen=True, slots=True)
class _Press:
    stop_ms: float
    late_packets: int
    extra_stops: int


async def measure(options: AbortOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    rng = random.Random(options.seed)
    presses: list[_Press] = []
    echoes: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"llm.script=[{LONG_ANSWER!r}]",
            "llm.tokens_per_s=200",
            "tts.rtf=0.3",
            *(_hang_settings(Path(folder)) if options.hang else ()),
        ]
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                serving(CONFIG_FOLDER / "scripted.toml", settings, Path(folder))
            )
            port = await stack.enter_async_context(echoing())
            echo = await stack.enter_async_context(
                open_websocket_url(f"ws://127.0.0.1:{port}/", disconnect_timeout=0.3)
            )
            talkers = [
                await stack.enter_async_context(talking(server.url, number))
                for number in range(1, options.boards + 1)
            ]
            await _warm_up(talkers, echo, options)
            for number in range(options.aborts):
                echoes.append(await _round_trip(echo))
                talker = talkers[number % len(talkers)]
                presses.append(await _press(talker, rng, audible=not options.hang))
            rss_mb = server.rss_mb()
    return {
        "machine": machine(),
        "boards": options.boards,
        "hang": options.hang,
        "abort_ms": Spread.of([press.stop_ms for press in presses]).as_dict(),
        "echo_ms": Spread.of(echoes).as_dict(),
        "hello_ms": Spread.of([talker.hello_s * 1000 for talker in talkers]).as_dict(),
        "late_packets": sum(press.late_packets for press in presses),
        "extra_stops": sum(press.extra_stops for press in presses),
        "server_rss_mb": round(rss_mb, 1),
    }


async def _warm_up(talkers: list[Talker], echo: WebSocketConnection, options: AbortOptions) -> None:
    """Everybody is talking before anything is measured."""
    for talker in talkers:
        await _round_trip(echo)
        await talker.ask("talk")
        with trio.fail_after(LIMIT_S):
            if options.hang:
                while not talker.starts:
                    await talker.changed.wait()
            else:
                await talker.until_packets(1)


async def _press(talker: Talker, rng: random.Random, *, audible: bool) -> _Press:
    """Press the button of a talking board, watch what follows, and make it talk again."""
    await trio.sleep(rng.uniform(0.0, 0.03))  # anywhere between two packets
    stops = len(talker.stops)
    with trio.fail_after(LIMIT_S):
        pressed = trio.current_time()
        await talker.say(ABORT)
        await talker.until_stops(stops + 1)
    stop_ms = (talker.stops[stops] - pressed) * 1000
    heard = len(talker.arrivals)
    await trio.sleep(QUIET_S)
    late, extra = len(talker.arrivals) - heard, len(talker.stops) - stops - 1
    starts, packets = len(talker.starts), len(talker.arrivals)
    await talker.ask("talk")
    with trio.fail_after(LIMIT_S):
        if audible:
            await talker.until_packets(packets + 1)
        while len(talker.starts) <= starts:
            await talker.changed.wait()
    return _Press(stop_ms, late, extra)


async def _round_trip(echo: WebSocketConnection) -> float:
    started = trio.current_time()
    await echo.send_message(ABORT)
    await echo.get_message()
    return (trio.current_time() - started) * 1000


def _hang_settings(folder: Path) -> list[str]:
    plan = folder / "hang.toml"
    plan.write_text('[[fault]]\nseam = "tts.start"\nnth = 1\ntimes = 1000000\neffect = "hang"\n')
    return [f"faults.plan={plan.as_posix()!r}", "tts.first_s=600", "answer.first_audio_s=600"]


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""

    def line(name: str) -> str:
        spread = figures[name]
        return (
            f"median {spread['median']:.2f}  p99 {spread['p99']:.2f}"
            f"  largest {spread['largest']:.2f}  (n = {spread['count']})"
        )

    voice = "hung" if figures["hang"] else "talking"
    return "\n".join(
        [
            f"{figures['boards']} boards, the voice {voice}, on {figures['machine']['cpu']}",
            f"abort → tts stop   {line('abort_ms')} ms",
            f"do-nothing echo    {line('echo_ms')} ms",
            f"hello              {line('hello_ms')} ms",
            f"packets after the stop: {figures['late_packets']}, extra stops:"
            f" {figures['extra_stops']}",
            f"memory of the server's main process: {figures['server_rss_mb']} MB",
        ]
    )
