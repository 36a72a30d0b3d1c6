"""The main loop of the firmware: state changes, delayed flushes, draining, the microphone.

What a message or a key means stands in `duet_trio.board.state`; here is how it is carried out,
and when. Sans-IO, times as in `Playback`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Literal

from duet_trio.board.firmware import Firmware
from duet_trio.board.playback import Playback
from duet_trio.wire.messages import BoardMessage, ListenMode, ListenStart

State = Literal["idle", "connecting", "listening", "speaking"]
Sent = list[BoardMessage]

#: Between the capture being switched on and the first microphone frame (codec warm-up, and
#: before v1.8 a pause of the main loop).
MICROPHONE_DELAY_S = 0.120

#: Changes that the firmware carries out; it refuses all others.
_ALLOWED: frozenset[tuple[State, State]] = frozenset(
    {
        ("idle", "connecting"),
        ("idle", "listening"),
        ("idle", "speaking"),
        ("connecting", "idle"),
        ("connecting", "listening"),
        ("listening", "speaking"),
        ("listening", "idle"),
        ("speaking", "listening"),
        ("speaking", "idle"),
    }
)


class MainLoop:
    """One board's state, and what is still to happen in it."""

    def __init__(self, firmware: Firmware, mode: ListenMode, playback: Playback) -> None:
        self.firmware = firmware
        self.mode: ListenMode = mode
        self.playback = playback
        self.state: State = "idle"
        self.silenced = False  # audio is dropped although speaking
        self._now = -math.inf
        self._flush_at = math.inf
        self._capture_from = math.inf  # inf: capture is off
        self._draining = False
        self._deferred: deque[Callable[[float], Sent]] = deque()

    def advance(self, now: float) -> Sent:
        """Let everything happen that is due by ``now``."""
        sent: Sent = []
        while (due := self.deadline()) <= now:
            self._now = max(self._now, due)  # what is overdue happens now, not in the past
            if due == self._flush_at:
                self.flush(self._now)
                continue
            self._draining = False
            sent += self.open_microphone(self._now)
            while self._deferred and not self._blocked:
                sent += self._deferred.popleft()(self._now)
        self._now = max(self._now, now)
        self.playback.advance(self._now)
        return sent

    def deadline(self) -> float:
        """When `advance` has something to do by itself.

        ``inf``: nothing is pending; a time in the past, or ``-inf``: at once.
        """
        if not self._draining:
            return self._flush_at
        if self.firmware.blocks:  # waits for the queues alone
            return self.playback.queues_empty_at()
        return self.playback.written_at()

    @property
    def _blocked(self) -> bool:
        return self._draining and self.firmware.blocks

    def handle(self, event: Callable[[float], Sent], now: float) -> Sent:
        """Carry out an event, or keep it for when the loop no longer stands still."""
        sent = self.advance(now)
        if self._blocked:
            self._deferred.append(event)
            return sent
        return sent + event(self._now)

    def go(self, state: State) -> bool:
        """Change the state; False: refused."""
        if (self.state, state) not in _ALLOWED:
            return False
        self.state = state
        self._flush_at = math.inf  # a flush that came too late for its state is skipped
        self._draining = False
        return True

    def listen(self, now: float) -> Sent:
        """Go to listening; in realtime mode the microphone may be open already."""
        if not self.go("listening") or self.capturing:
            return []
        if self.mode == "auto" and self.firmware.drains:
            self._draining = True
            return self.advance(now)
        return self.open_microphone(now)

    def open_microphone(self, now: float) -> Sent:
        """Switch voice capture on, which flushes, and say so."""
        self.flush(now)
        self._capture_from = now + MICROPHONE_DELAY_S
        return [ListenStart(mode=self.mode)]

    def close_microphone(self) -> None:
        """Switch voice capture off."""
        self._capture_from = math.inf

    @property
    def capturing(self) -> bool:
        """Whether voice capture is on."""
        return self._capture_from < math.inf

    def hears(self, now: float) -> bool:
        """Whether capture is on and has warmed up."""
        return self._capture_from <= now

    def flush(self, now: float) -> None:
        """Flush at once."""
        self._flush_at = math.inf
        self.playback.flush(now)

    def flush_at(self, when: float) -> None:
        """Flush then, unless the state changes before."""
        self._flush_at = when
