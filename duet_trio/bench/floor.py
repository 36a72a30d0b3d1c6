"""What this machine takes at this moment for the same without us, to hold our figures against."""

from __future__ import annotations

import subprocess
import sys
import time

import trio

from duet_trio.bench.processes import BenchError

#: Works for a while like an engine, through memory that no cache holds and on one core, so that
#: the rest of the machine falls asleep; then notes the time and writes a block.
_WRITER = """
import os, sys, time
import numpy as np
count, every_s, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
work = np.ones(8 << 20, np.float32)
for _ in range(count):
    end = time.monotonic() + every_s
    while time.monotonic() < end:
        np.negative(work, out=work)
    os.write(1, time.monotonic_ns().to_bytes(8, "little") + bytes(size - 8))
"""


async def pipe_ms(count: int, every_s: float, block_bytes: int) -> list[float]:
    """Milliseconds that blocks take through a bare pipe into a trio task.

    ``block_bytes`` must fit a pipe (64 KiB), ``every_s`` be the engine's rhythm: to wake a core
    that has slept for long takes most of it.
    """
    words = [sys.executable, "-c", _WRITER, str(count), str(every_s), str(block_bytes)]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    found: list[float] = []
    data = b""
    while chunk := await process.stdout.receive_some(65536):
        now_ns = time.monotonic_ns()
        data += chunk
        while len(data) >= block_bytes:
            found.append((now_ns - int.from_bytes(data[:8], "little")) / 1e6)
            data = data[block_bytes:]
    await process.wait()
    if len(found) != count:
        raise BenchError("the writer of the bare pipe died")
    return found


async def start_s(count: int) -> list[float]:
    """Seconds until a Python process with numpy, which every voice needs, has started."""
    found = []
    for _ in range(count):
        began = time.monotonic()
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", "import numpy; print(1, flush=True)"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.receive_some(1)
        found.append(time.monotonic() - began)
        await process.wait()
    return found
