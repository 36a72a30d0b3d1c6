"""What this machine takes at this moment for the same without us, to hold our figures against."""

from __future__ import annotations

import subprocess
import sys
import time

import trio

from duet_trio.bench.processes import BenchError

_BLOCK_BYTES = 7680  # of PCM: two frames
_EVERY_S = 0.03
#: Works for a while like an engine (its caches are cold then), notes the time, writes a block.
_WRITER = f"""
import os, sys, time
import numpy as np
work = np.ones((256, 256), np.float32)
for _ in range(int(sys.argv[1])):
    end = time.monotonic() + {_EVERY_S}
    while time.monotonic() < end:
        work @ work
    os.write(1, time.monotonic_ns().to_bytes(8, "little") + bytes({_BLOCK_BYTES}))
"""


async def pipe_ms(count: int) -> list[float]:
    """Milliseconds that blocks take through a bare pipe into a trio task."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", _WRITER, str(count)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    found: list[float] = []
    data = b""
    while chunk := await process.stdout.receive_some(65536):
        now_ns = time.monotonic_ns()
        data += chunk
        while len(data) >= 8 + _BLOCK_BYTES:
            found.append((now_ns - int.from_bytes(data[:8], "little")) / 1e6)
            data = data[8 + _BLOCK_BYTES :]
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
