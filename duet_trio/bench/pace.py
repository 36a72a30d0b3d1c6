"""``duet bench pace``: how soon audio leaves, and how evenly.

Short answers, one after the other, give "first PCM block → its packet written"; one long answer
gives the gaps between packets, at the server (trace) and at a client in another process. Engines
are scripted and first sound comes 0.3 s after the request, long after the 120 ms for which a
packet may have to wait after ``tts start``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench.figures import Spread, machine, quantile
from duet_trio.bench.processes import CONFIG_FOLDER, serving
from duet_trio.bench.talker import talking
from duet_trio.trace.reader import read

SHORT = "A short scripted answer."
LONG = "This is one sentence of a long scripted answer, which takes about a minute to say. " * 12
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class PaceOptions:
    """``answers`` short ones, then one of about a minute."""

    answers: int


async def measure(options: PaceOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.jsonl"
        texts = [SHORT] * options.answers + [LONG]
        settings = [
            f"llm.script={texts!r}",
            "llm.tokens_per_s=500",
            "tts.first_audio_s=0.3",
            f"trace.path={trace.as_posix()!r}",
        ]
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                serving(CONFIG_FOLDER / "scripted.toml", settings, folder)
            )
            talker = await stack.enter_async_context(talking(server.url, 1))
            for number in range(1, len(texts) + 1):
                if number == len(texts):
                    talker.arrivals.clear()
                await talker.ask("go on")
                with trio.fail_after(LIMIT_S):
                    await talker.until_stops(number)
            arrivals = list(talker.arrivals)
        return {"machine": machine(), **_from_trace(trace, options.answers), **_gaps(arrivals)}


def _gaps(arrivals: Sequence[float]) -> dict[str, Any]:
    gaps = sorted((after - before) * 1000 for before, after in pairwise(arrivals))
    return {
        "client_packets": len(arrivals),
        "client_gap_p999_ms": round(quantile(gaps, 0.999), 2),
        "client_gap_largest_ms": round(gaps[-1], 2),
        "client_late_share": round(sum(gap > 65 for gap in gaps) / len(gaps), 4),
    }


def _from_trace(path: Path, answers: int) -> dict[str, Any]:
    first_pcm: dict[int, float] = {}
    first_sent: dict[int, float] = {}
    late_ms: list[float] = []
    for event in read(path):
        generation = event.get("generation")
        if generation is None:
            continue
        if event["event"] == "pcm":
            first_pcm.setdefault(generation, event["t"])
        elif event["event"] == "sent" and event.get("what") == "frame":
            first_sent.setdefault(generation, event["t"])
            if generation > answers:
                late_ms.append(max(0.0, event["t"] - event["due"]) * 1000)
    added = [(first_sent[number] - first_pcm[number]) * 1000 for number in first_sent]
    return {
        "pcm_to_packet_ms": Spread.of(added).as_dict(),
        "server_late_ms": Spread.of(late_ms).as_dict(),
        "largest_lead": _largest_lead(path, answers + 1),
    }


def _largest_lead(path: Path, generation: int) -> int:
    """Most packets sent and not yet played, for a player that starts with the first one."""
    sent = [
        event["t"]
        for event in read(path)
        if event.get("generation") == generation
        and event["event"] == "sent"
        and event.get("what") == "frame"
    ]
    largest, played_until = 0, 0.0
    ends: list[float] = []
    for at in sent:
        played_until = max(played_until, at) + 0.06
        ends.append(played_until)
        ends = [end for end in ends if end > at + 1e-6]
        largest = max(largest, len(ends))
    return largest


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    first, late = figures["pcm_to_packet_ms"], figures["server_late_ms"]
    return "\n".join(
        [
            f"on {figures['machine']['cpu']}",
            f"first PCM block → packet written: median {first['median']:.2f}"
            f"  p99 {first['p99']:.2f} ms  (n = {first['count']})",
            f"one long answer, {figures['client_packets']} packets:"
            f" written late by median {late['median']:.2f}  p99 {late['p99']:.2f}"
            f"  largest {late['largest']:.2f} ms; lead never over {figures['largest_lead']}",
            f"gaps at the client: p99.9 {figures['client_gap_p999_ms']} ms, largest"
            f" {figures['client_gap_largest_ms']} ms, over 65 ms:"
            f" {100 * figures['client_late_share']:.2f} %",
        ]
    )
