"""When a session is closed because nothing happens in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from duet_trio.config import ServerSection

#: How much later than idle a session in which somebody speaks is closed.
SPEECH_EXTRA_S = 15.0


@dataclass(frozen=True, slots=True)
class SilenceWatch:
    """Closes a session that never says hello, and an idle one before the board thinks it dead.

    Only what *we* sent counts (``last_sent``, trio time): a board in *listening* streams for
    ever, and it counts a channel dead 120 s after our last message. ``close`` is synchronous.
    """

    server: ServerSection
    has_greeted: Callable[[], bool]
    last_sent: Callable[[], float]
    is_answering: Callable[[], bool]
    in_speech: Callable[[], bool]
    close: Callable[[str], None]

    async def run(self) -> None:
        """Watch until cancelled."""
        await trio.sleep(self.server.hello_s)
        if not self.has_greeted():
            self.close("no hello")
            await trio.sleep_forever()
        while True:
            idle_at = self.last_sent() + self.server.idle_close_s
            late_s = trio.current_time() - idle_at
            # Nobody is cut off in mid-sentence, but at some point it is noise.
            spoken = self.in_speech() and late_s < SPEECH_EXTRA_S
            if late_s >= 0 and not self.is_answering() and not spoken:
                self.close("idle")
            await trio.sleep_until(max(idle_at, trio.current_time() + 1))
