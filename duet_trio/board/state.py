"""The state machine of a stock board: what server, keys and wake word make it do.

It owns a `Playback` and decides when audio is accepted, when it is flushed and when the
microphone is open. Every method takes the time, first lets due things happen, and returns the
messages that the board now sends, in order. Call `advance` no later than `deadline` says.

A flush happens exactly when: (a) the state becomes speaking, (b) voice capture is switched on,
(c) a wake word fires while already listening (firmware that supports it). An abort by itself
flushes nothing, except on the oldest generation.

The popup sound after a wake word and the sound of an alert are not modelled.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Literal

from duet_trio.board.firmware import Firmware
from duet_trio.board.playback import Playback
from duet_trio.wire.messages import (
    Abort,
    BoardMessage,
    Detect,
    ListenMode,
    ListenStart,
    ListenStop,
)

State = Literal["idle", "connecting", "listening", "speaking"]
Sent = list[BoardMessage]

#: Between the capture being switched on and the first microphone frame (codec warm-up, and
#: before v1.8 a pause of the main loop).
MICROPHONE_DELAY_S = 0.120
#: Between the state becoming speaking and its flush: the display is updated first. How long
#: differs by board and is not known; servers should allow for 100 to 200 ms.
LATE_FLUSH_S = 0.050
WAKE_WORD_REASON = "wake_word_detected"

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


class BoardState:
    """One board's main loop.

    ``mode`` is what its button and wake word start: auto (no echo cancellation) or realtime;
    ``manual`` means a board used by its talk key (its wake word then starts auto).
    ``wake_word_always``: the build option that keeps the wake word on while listening, and in
    realtime mode while speaking.
    """

    def __init__(
        self,
        firmware: Firmware,
        mode: ListenMode,
        playback: Playback,
        *,
        wake_word_always: bool = False,
        late_flush_s: float = LATE_FLUSH_S,
    ) -> None:
        self.firmware = firmware
        self.mode: ListenMode = mode
        self.playback = playback
        self.state: State = "idle"
        self.channel_open = False
        self.hanging_up = False  # the board wants the connection dropped
        self.starts = 0  # effective `tts start`
        self.stops = 0  # effective `tts stop`
        self.refused_audio = 0  # packets that came while not speaking, or while silenced
        self._default_mode: ListenMode = "realtime" if mode == "realtime" else "auto"
        self._wake_word_always = wake_word_always
        self._late_flush_s = late_flush_s
        self._now = -math.inf
        self._flush_at = math.inf
        self._capture_from = math.inf  # inf: capture is off
        self._draining = False
        self._silenced = False
        self._deferred: deque[Callable[[float], Sent]] = deque()

    # --- time --------------------------------------------------------------------------

    def advance(self, now: float) -> Sent:
        """Let everything happen that is due by ``now``."""
        sent: Sent = []
        while (due := self.deadline()) <= now:
            self._now = max(self._now, due)  # what is overdue happens now, not in the past
            if due == self._flush_at:
                self._flush(self._now)
                continue
            self._draining = False
            sent += self._open_microphone(self._now)
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

    @property
    def capturing(self) -> bool:
        """Whether the microphone is switched on (in realtime mode also while speaking)."""
        return self._capture_from < math.inf

    @property
    def listens(self) -> bool:
        """Whether it is listening and has said so (not while it still plays out a queue)."""
        return self.state == "listening" and self.capturing

    def microphone_open(self, now: float) -> bool:
        """Whether a microphone frame that ends now is sent."""
        return self.channel_open and self._capture_from <= now

    # --- connection --------------------------------------------------------------------

    def dial(self, now: float) -> Sent:
        """The user wants to talk and there is no connection yet."""
        sent = self.advance(now)
        self._go("connecting")
        return sent

    def opened(self, now: float, wake_word: str = "") -> Sent:
        """Both hellos are exchanged; ``wake_word`` is what made the board connect, if any."""
        sent = self.advance(now)
        self.channel_open = True
        self.hanging_up = False
        if wake_word:
            sent.append(Detect(text=wake_word))
        return sent + self._listen(self._now)

    def closed(self, now: float) -> Sent:
        """The connection is gone, or was never made. What is queued plays out."""
        self.channel_open = False
        return self._main_loop(now, self._closed)

    # --- server ------------------------------------------------------------------------

    def audio(self, packet: bytes, now: float) -> tuple[bool, Sent]:
        """A packet arrived; False: dropped (wrong state, silenced, or the queue is full)."""
        sent = self.advance(now)
        if self.state != "speaking" or self._silenced:
            self.refused_audio += 1
            return False, sent
        return self.playback.push(packet, self._now), sent

    def tts_start(self, now: float) -> Sent:
        """An answer begins; refused while connecting, without effect while speaking."""
        return self._main_loop(now, self._tts_start)

    def tts_stop(self, now: float) -> Sent:
        """An answer is over; without effect unless speaking."""
        return self._main_loop(now, self._tts_stop)

    # --- user --------------------------------------------------------------------------

    def toggle_button(self, now: float) -> Sent:
        """The chat button: start, interrupt, or hang up (see ``hanging_up``)."""
        return self._main_loop(now, self._toggle)

    def press(self, now: float) -> Sent:
        """The talk key goes down."""
        return self._main_loop(now, self._press)

    def release(self, now: float) -> Sent:
        """The talk key goes up."""
        return self._main_loop(now, self._release)

    def wake_word(self, now: float, text: str = "") -> Sent:
        """The wake word was said; ``text`` is told only when it starts a conversation."""
        return self._main_loop(now, lambda at: self._wake_word(at, text))

    # --- rules -------------------------------------------------------------------------

    def _main_loop(self, now: float, event: Callable[[float], Sent]) -> Sent:
        sent = self.advance(now)
        if self._blocked:
            self._deferred.append(event)
            return sent
        return sent + event(self._now)

    def _go(self, state: State) -> bool:
        if (self.state, state) not in _ALLOWED:
            return False
        self.state = state
        self._flush_at = math.inf  # a flush that came too late for its state is skipped
        self._draining = False
        return True

    def _flush(self, now: float) -> None:
        self._flush_at = math.inf
        self.playback.flush(now)

    def _closed(self, now: float) -> Sent:
        self._capture_from = math.inf
        self._go("idle")
        return []

    def _tts_start(self, now: float) -> Sent:
        self._silenced = False
        if not self._go("speaking"):
            return []
        self.starts += 1
        if self.mode != "realtime":
            self._capture_from = math.inf
        self._flush_at = now + self._late_flush_s
        return self.advance(now)

    def _tts_stop(self, now: float) -> Sent:
        if self.state != "speaking":
            return []
        self.stops += 1
        if self.mode == "manual":
            self._go("idle")
            return []
        return self._listen(now)

    def _listen(self, now: float) -> Sent:
        """Go to listening; in realtime mode the microphone may be open already."""
        if not self._go("listening"):
            return []
        if self.capturing:
            return []
        if self.mode == "auto" and self.firmware.drains:
            self._draining = True
            return self.advance(now)
        return self._open_microphone(now)

    def _open_microphone(self, now: float) -> Sent:
        self._flush(now)
        self._capture_from = now + MICROPHONE_DELAY_S
        return [ListenStart(mode=self.mode)]

    def _toggle(self, now: float) -> Sent:
        if self.state == "speaking":
            self._silence(now)
            return [Abort()]
        if self.state == "listening":
            self.hanging_up = True
            return self._closed(now)
        if self.state == "idle" and self.channel_open:
            self.mode = self._default_mode
            return self._listen(now)
        return []

    def _press(self, now: float) -> Sent:
        if self.state not in ("idle", "speaking") or not self.channel_open:
            return []
        sent: Sent = [Abort()] if self.state == "speaking" else []
        self.mode = "manual"
        self._silenced = False
        self._capture_from = math.inf
        return sent + self._listen(now)

    def _release(self, now: float) -> Sent:
        if self.state != "listening":
            return []
        self._capture_from = math.inf
        self._go("idle")
        return [ListenStop()]

    def _wake_word(self, now: float, text: str) -> Sent:
        if self.state == "idle" and self.channel_open:
            self.mode = self._default_mode
            told: Sent = [Detect(text=text)] if text else []
            return told + self._listen(now)
        if self.state == "speaking":
            return self._wake_word_speaking(now)
        if self.state == "listening" and self._wake_word_always and self._listens_again:
            return [Abort(reason=WAKE_WORD_REASON), *self._open_microphone(now)]
        return []

    @property
    def _listens_again(self) -> bool:
        return self.firmware.wake_word_listens and self.capturing

    def _wake_word_speaking(self, now: float) -> Sent:
        if self.mode == "realtime" and not self._wake_word_always:
            return []
        sent: Sent = [Abort(reason=WAKE_WORD_REASON)]
        if not self.firmware.wake_word_listens:
            self._silence(now)
            return sent
        self.mode = self._default_mode
        self._capture_from = math.inf  # told anew, also in realtime mode
        return sent + self._listen(now)

    def _silence(self, now: float) -> None:
        if self.firmware.silent_abort:
            self._silenced = True
            self._flush(now)
