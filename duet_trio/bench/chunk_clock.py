"""When each block of audio left the engine: the clock that `chunk_clock.c` reads in its library."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from duet_trio.bench.processes import BenchError

SOURCE = Path(__file__).with_name("chunk_clock.c")


@dataclass(frozen=True, slots=True)
class ChunkClock:
    """A library to name in ``tts.library``, and where it writes."""

    library: Path
    log: Path

    def blocks_s(self) -> list[float]:
        """Times of all blocks so far, on the clock of ``time.monotonic``."""
        data = self.log.read_bytes() if self.log.exists() else b""
        return [ns / 1e9 for (ns,) in struct.iter_unpack("=q", data[: len(data) // 8 * 8]) if ns]


def build_clock(libqwen: Path, folder: Path) -> ChunkClock:
    """Compile the forwarding library. Raises `BenchError` without a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BenchError("bench tts: no C compiler (cc); install one, or use --voice demo")
    clock = ChunkClock(folder / "libqwen.so", folder / "blocks")
    defines = [f'-DLIBRARY="{libqwen}"', f'-DLOG="{clock.log}"']
    command = [compiler, "-O2", "-shared", "-fPIC", *defines, str(SOURCE), "-ldl"]
    done = subprocess.run(
        [*command, "-o", str(clock.library)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = done.stderr.strip().partition("\n")[0]
        raise BenchError(f"bench tts: {SOURCE.name} does not compile: {why[:300]}")
    return clock


def added_ms(left_s: Sequence[float], arrived_s: Sequence[float]) -> list[float]:
    """From each block's leaving the engine to its arrival in the main process, in ms.

    A block that was held back as quiet has no arrival of its own before the next one leaves and
    does not count; nor does what is sent at the end of a piece without a block.
    """
    found = []
    for index, left in enumerate(left_s):
        after = left_s[index + 1] if index + 1 < len(left_s) else float("inf")
        at = bisect_left(arrived_s, left)
        if at < len(arrived_s) and arrived_s[at] < after:
            found.append((arrived_s[at] - left) * 1000)
    return found
