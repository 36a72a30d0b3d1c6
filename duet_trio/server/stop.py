"""How the server ends: one order, one deadline, and a last resort.

A client that has stopped reading can keep the HTTP server's shielded send alive past every
cancel. So a thread of its own waits `LAST_RESORT_S` after the order to stop; if the process is
still there, it kills the workers, closes the trace and leaves with ``os._exit``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

import trio

log = logging.getLogger(__name__)

LAST_RESORT_S = 2.5
INTERRUPTED = 130  # what shells expect after Ctrl-C


class Stop:
    """The order to stop. ``code`` is the exit code that goes with it."""

    def __init__(self, last_words: Callable[[], object]) -> None:
        self._last_words = last_words
        self._timer: threading.Timer | None = None
        self.ordered = trio.Event()
        self.code = 0

    def order(self, code: int = 0) -> None:
        """Stop now; a second order changes nothing. Synchronous."""
        if self.ordered.is_set():
            return
        self.code = code
        self._timer = threading.Timer(LAST_RESORT_S, self._leave)
        self._timer.daemon = True
        self._timer.start()
        self.ordered.set()

    def done(self) -> None:
        """Everything has ended in order: the last resort is not needed."""
        if self._timer is not None:
            self._timer.cancel()

    def _leave(self) -> None:
        log.warning("something did not stop in %g s; leaving without it", LAST_RESORT_S)
        try:
            self._last_words()
        finally:
            os._exit(self.code)

    async def watch_signals(self, task_status: trio.TaskStatus[None]) -> None:
        """Turn SIGINT, SIGTERM (Windows: SIGBREAK) into the order, until cancelled."""
        wanted = [signal.SIGINT]
        if sys.platform == "win32":
            wanted.append(signal.SIGBREAK)
        else:
            wanted += [signal.SIGTERM, signal.SIGHUP]
        with trio.open_signal_receiver(*wanted) as received:
            task_status.started()
            async for number in received:
                self.order(INTERRUPTED if number == signal.SIGINT else 0)
