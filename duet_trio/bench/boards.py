"""``duet bench boards``: how many boards one server process keeps in step.

The server is a process of its own on scripted engines (in their ordinary workers); all boards
are in this process, a do-nothing ticker in a third. Boards connect with a known chip, so that
their lead is 3 packets, as for most real ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import trio

from duet_trio.bench.boards_clients import device_ids, run_boards
from duet_trio.bench.figures import Spread, machine, quantile
from duet_trio.bench.processes import CONFIG_FOLDER, RunningServer, serving
from duet_trio.bench.processor import busy_s, children_cpu_s, own_cpu_s
from duet_trio.server.board_facts import BoardFacts
from duet_trio.trace.reader import read

#: About 9 s of speech; with the 3 s in which a board speaks, three quarters of it listening.
ANSWER = "This is one sentence of a scripted answer that goes on for a while. " * 2 + "That is all."
LATE_GAP_MS = 65.0


@dataclass(frozen=True, slots=True)
class BoardsOptions:
    """``boards`` and ``spreads_s`` are lists: each pair is one run of ``seconds``."""

    boards: Sequence[int]
    spreads_s: Sequence[float]
    seconds: float
    complexity: int
    seed: int = 1


async def measure(options: BoardsOptions) -> dict[str, Any]:
    """Run the bench; returns what ``--json`` prints."""
    runs = [
        await _one_run(options, boards, spread_s)
        for boards in options.boards
        for spread_s in options.spreads_s
    ]
    return {
        "machine": machine(),
        "seconds": options.seconds,
        "opus_complexity": options.complexity,
        "runs": runs,
    }


async def _one_run(options: BoardsOptions, boards: int, spread_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.jsonl"
        facts = {device: BoardFacts(chip="esp32s3") for device in device_ids(boards)}
        (folder / "boards.json").write_bytes(msgspec.json.encode(facts))
        settings = [
            f"llm.script=[{ANSWER!r}]",
            "llm.tokens_per_s=60",
            "tts.rtf=0.3",  # blocks of 200 ms every 60: no gap of the voice's own making
            f"pacer.complexity={options.complexity}",
            f"trace.path={trace.as_posix()!r}",
        ]
        async with serving(CONFIG_FOLDER / "scripted.toml", settings, folder) as server:
            ticker = [sys.executable, "-m", "duet_trio.bench.boards_ticker", str(options.seconds)]
            ticking = await trio.lowlevel.open_process(ticker, stdout=subprocess.PIPE)
            load = _Load(server)
            figures = await run_boards(
                server.url, boards, seconds=options.seconds, spread_s=spread_s, seed=options.seed
            )
            used = load.used()
            assert ticking.stdout is not None
            ticked = (await _all(ticking.stdout)).split()
            await ticking.wait()
        late_ms, packets = _lateness(trace)
    gaps = sorted(figures.gaps_ms) or [0.0]
    together_s = max(1e-9, figures.speaking_s + figures.listening_s)
    return {
        "boards": boards,
        "questions_within_s": spread_s,
        "answers": figures.answers,
        "lost_connections": figures.lost,
        "packets": packets,
        "speaking_share": round(figures.speaking_s / together_s, 2),
        "server_late_ms": Spread.of(late_ms or [0.0]).as_dict(),
        "gap_mean_ms": round(sum(gaps) / len(gaps), 2),
        "gap_late_share": round(sum(gap > LATE_GAP_MS for gap in gaps) / len(gaps), 5),
        "gap_p999_ms": round(quantile(gaps, 0.999), 2),
        "gap_largest_ms": round(gaps[-1], 2),
        "ticker_p999_ms": float(ticked[0]),
        "ticker_largest_ms": float(ticked[1]),
        "first_audio_s": Spread.of(figures.first_audio_s or [0.0]).as_dict(),
        **used,
        "load_average": round(os.getloadavg()[0], 1) if sys.platform != "win32" else 0.0,
    }


class _Load:
    """Processor time of the server from here on, its workers apart."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._began = trio.current_time()
        self._server_s = server.cpu_s()
        self._workers_s = children_cpu_s(server.pid)
        self._all_s = busy_s()
        self._ours_s = own_cpu_s()

    def used(self) -> dict[str, float]:
        """Share of one core, and memory."""
        elapsed_s = trio.current_time() - self._began
        server_s = self._server.cpu_s() - self._server_s
        workers_s = children_cpu_s(self._server.pid) - self._workers_s
        boards_s = own_cpu_s() - self._ours_s
        rest_s = max(0.0, busy_s() - self._all_s - server_s - workers_s - boards_s)
        return {
            "server_cpu": round(server_s / elapsed_s, 3),
            "workers_cpu": round(workers_s / elapsed_s, 3),
            "boards_cpu": round(boards_s / elapsed_s, 3),
            "others_cpu": round(rest_s / elapsed_s, 3),
            "server_rss_mb": round(self._server.rss_mb(), 1),
        }


async def _all(stream: trio.abc.ReceiveStream) -> str:
    return b"".join([chunk async for chunk in stream]).decode()


def _lateness(path: Path) -> tuple[list[float], int]:
    """Milliseconds behind due, of the packets sent before the first board hung up."""
    late: list[float] = []
    for event in read(path):
        if event["event"] == "board.close":
            break
        if event["event"] == "sent" and event.get("what") == "frame":
            late.append(max(0.0, event["t"] - event["due"]) * 1000)
    return late, len(late)


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = [
        f"on {figures['machine']['cpu']}, {figures['machine']['cores']} cores; server, boards and"
        f" ticker on the same machine; {figures['seconds']:g} s each,"
        f" Opus complexity {figures['opus_complexity']}; scripted engines in worker processes"
    ]
    for run in figures["runs"]:
        late, first = run["server_late_ms"], run["first_audio_s"]
        lines.append(
            f"{run['boards']} boards, first questions within {run['questions_within_s']:g} s,"
            f" {100 * run['speaking_share']:.0f} % speaking, {run['answers']} answers,"
            f" {run['packets']} packets, {run['lost_connections']} connections lost,"
            f" load average {run['load_average']}\n"
            f"  sent − due: median {late['median']:.2f}  p99 {late['p99']:.2f}"
            f"  largest {late['largest']:.2f} ms\n"
            f"  gaps at the boards: mean {run['gap_mean_ms']:.2f}  p99.9 {run['gap_p999_ms']:.1f}"
            f"  largest {run['gap_largest_ms']:.1f} ms, over 65 ms:"
            f" {100 * run['gap_late_share']:.2f} %"
            f"  (idle ticker: p99.9 {run['ticker_p999_ms']:.1f},"
            f" largest {run['ticker_largest_ms']:.1f})\n"
            f"  first audio: median {first['median']:.2f}  p99 {first['p99']:.2f} s;"
            f" server {100 * run['server_cpu']:.0f} % of a core, workers"
            f" {100 * run['workers_cpu']:.0f} %, boards {100 * run['boards_cpu']:.0f} %,"
            f" everybody else here {100 * run['others_cpu']:.0f} %;"
            f" memory of the server's main process {run['server_rss_mb']:.0f} MB"
        )
    return "\n".join(lines)
