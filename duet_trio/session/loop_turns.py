"""Work on packets in turns: a few in each pass of the event loop, the most urgent first.

Theory of operation. trio runs every runnable task once before it looks at the clock again. With
a hundred answers whose voices are far ahead, a hundred encoders are runnable, and a packet that
falls due waits for all of them: 0.1 to 0.3 ms each, measured as a p99 of 47 ms. Here only
`AT_ONCE` encoders are runnable at a time. (With a single one, passes of 0.9 ms left fewer than
1200 packets a second, and 100 boards need 1667.) Under load the answers with the fewest packets
in store go first: a first packet never waits for another answer's tenth second.

The ears take turns of their own, by the same reasoning: boards that listen send all their packets
in the same 60 ms, 0.3 ms of decoding and detection each.

Not done: a thread per packet. Its hand-over takes 31 us of the loop's thread and 46 us in all,
against 94 us for the encoding (measured, complexity 5); at 100 boards that is a tenth of a core
won, for a first packet that may have to wait for the GIL. Batches in a thread, or encoding in
the voice's worker, are where to go when the loop's core is the limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

AT_ONCE = 4


@dataclass(eq=False, slots=True)
class _Waiting:
    stored: Callable[[], int]
    granted: trio.Event = field(default_factory=trio.Event)


class LoopTurns:
    """Shared by all answers of a server."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: list[_Waiting] = []

    @asynccontextmanager
    async def turn(self, stored: Callable[[], int]) -> AsyncIterator[None]:
        """Wait for the turn (a checkpoint). ``stored``: packets that this answer has in store.

        Nothing may be awaited inside. A cancel leaves nothing behind.
        """
        if not self._free:
            await self._wait(_Waiting(stored))
        else:
            self._free -= 1
            try:
                await trio.lowlevel.checkpoint()
            except BaseException:
                self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        try:
            await waiting.granted.wait()
        except BaseException:
            if waiting.granted.is_set():
                self._pass_on()
            else:
                self._waiting.remove(waiting)
            raise

    def _pass_on(self) -> None:
        if not self._waiting:
            self._free += 1
        else:
            chosen = min(self._waiting, key=lambda one: one.stored())  # the first of equals
            self._waiting.remove(chosen)
            chosen.granted.set()
