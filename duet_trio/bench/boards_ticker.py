"""A ticker that does nothing: how late the machine wakes anybody up.

``python -m duet_trio.bench.boards_ticker SECONDS`` sleeps until every 60th millisecond and
prints the gaps' p99.9 and largest, in ms. It runs beside ``bench boards``: what the largest gap
there is worth cannot be told without it.
"""

from __future__ import annotations

import sys

import trio

from duet_trio.bench.figures import quantile

PERIOD_S = 0.06


async def main(seconds: float) -> None:
    """Tick for so long, then print."""
    start = last = trio.current_time()
    gaps = []
    for number in range(1, int(seconds / PERIOD_S)):
        await trio.sleep_until(start + number * PERIOD_S)
        now = trio.current_time()
        gaps.append((now - last) * 1000)
        last = now
    gaps.sort()
    sys.stdout.write(f"{quantile(gaps, 0.999):.2f} {gaps[-1]:.2f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, float(sys.argv[1]))
