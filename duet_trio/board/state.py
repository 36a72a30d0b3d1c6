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

from duet_trio.board.firmware import Firmware
from duet_trio.board.mainloop import MICROPHONE_DELAY_S, MainLoop, Sent, State
from duet_trio.board.playback import Playback
from duet_trio.wire.messages import Abort, Detect, ListenMode, ListenStop

__all__ = ["LATE_FLUSH_S", "MICROPHONE_DELAY_S", "BoardState", "Sent", "State"]

#: Between the state becoming speaking and its flush: the display is updated first. How long
#: differs by board and is not known; servers should allow for 100 to 200 ms.
LATE_FLUSH_S = 0.050
WAKE_WORD_REASON = "wake_word_detected"


class BoardState:
    """One board.

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
        self.playback = playback
        self.channel_open = False
        self.hanging_up = False  # the board wants the connection dropped
        self.starts = 0  # effective `tts start`
        self.stops = 0  # effective `tts stop`
        self.refused_audio = 0  # packets that came while not speaking, or while silenced
        self._loop = MainLoop(firmware, mode, playback)
        self._default_mode: ListenMode = "realtime" if mode == "realtime" else "auto"
        self._wake_word_always = wake_word_always
        self._late_flush_s = late_flush_s

    @property
    def state(self) -> State:
        """What it does now."""
        return self._loop.state

    @property
    def mode(self) -> ListenMode:
        """How it listened last, or listens now."""
        return self._loop.mode

    @property
    def capturing(self) -> bool:
        """Whether the microphone is switched on (in realtime mode also while speaking)."""
        return self._loop.capturing

    @property
    def listens(self) -> bool:
        """Whether it is listening and has said so (not while it still plays out a queue)."""
        return self.state == "listening" and self.capturing

    def microphone_open(self, now: float) -> bool:
        """Whether a microphone frame that ends now is sent."""
        return self.channel_open and self._loop.hears(now)

    # --- time --------------------------------------------------------------------------

    def advance(self, now: float) -> Sent:
        """Let everything happen that is due by ``now``."""
        return self._loop.advance(now)

    def deadline(self) -> float:
        """When `advance` has something to do by itself: ``inf`` never, ``-inf`` at once."""
        return self._loop.deadline()

    # --- connection --------------------------------------------------------------------

    def dial(self, now: float) -> Sent:
        """The user wants to talk and there is no connection yet."""
        sent = self.advance(now)
        self._loop.go("connecting")
        return sent

    def opened(self, now: float, wake_word: str = "") -> Sent:
        """Both hellos are exchanged; ``wake_word`` is what made the board connect, if any."""
        sent = self.advance(now)
        self.channel_open = True
        self.hanging_up = False
        if wake_word:
            sent.append(Detect(text=wake_word))
        return sent + self._loop.listen(now)

    def closed(self, now: float) -> Sent:
        """The connection is gone, or was never made. What is queued plays out."""
        self.channel_open = False
        return self._loop.handle(self._closed, now)

    # --- server ------------------------------------------------------------------------

    def audio(self, packet: bytes, now: float) -> tuple[bool, Sent]:
        """A packet arrived; False: dropped (wrong state, silenced, or the queue is full)."""
        sent = self.advance(now)
        if self.state != "speaking" or self._loop.silenced:
            self.refused_audio += 1
            return False, sent
        return self.playback.push(packet, now), sent

    def tts_start(self, now: float) -> Sent:
        """An answer begins; refused while connecting, without effect while speaking."""
        return self._loop.handle(self._tts_start, now)

    def tts_stop(self, now: float) -> Sent:
        """An answer is over; without effect unless speaking."""
        return self._loop.handle(self._tts_stop, now)

    # --- user --------------------------------------------------------------------------

    def toggle_button(self, now: float) -> Sent:
        """The chat button: start, interrupt, or hang up (see ``hanging_up``)."""
        return self._loop.handle(self._toggle, now)

    def press(self, now: float) -> Sent:
        """The talk key goes down."""
        return self._loop.handle(self._press, now)

    def release(self, now: float) -> Sent:
        """The talk key goes up."""
        return self._loop.handle(self._release, now)

    def wake_word(self, now: float, text: str = "") -> Sent:
        """The wake word was said; ``text`` is told only when it starts a conversation."""
        return self._loop.handle(lambda at: self._wake_word(at, text), now)

    # --- rules -------------------------------------------------------------------------

    def _closed(self, now: float) -> Sent:
        self._loop.close_microphone()
        self._loop.go("idle")
        return []

    def _tts_start(self, now: float) -> Sent:
        self._loop.silenced = False
        if not self._loop.go("speaking"):
            return []
        self.starts += 1
        if self.mode != "realtime":
            self._loop.close_microphone()
        self._loop.flush_at(now + self._late_flush_s)
        return self.advance(now)

    def _tts_stop(self, now: float) -> Sent:
        if self.state != "speaking":
            return []
        self.stops += 1
        if self.mode == "manual":
            self._loop.go("idle")
            return []
        return self._loop.listen(now)

    def _toggle(self, now: float) -> Sent:
        if self.state == "speaking":
            self._silence(now)
            return [Abort()]
        if self.state == "listening":
            self.hanging_up = True
            return self._closed(now)
        if self.state == "idle" and self.channel_open:
            self._loop.mode = self._default_mode
            return self._loop.listen(now)
        return []

    def _press(self, now: float) -> Sent:
        if self.state not in ("idle", "speaking") or not self.channel_open:
            return []
        sent: Sent = [Abort()] if self.state == "speaking" else []
        self._loop.mode = "manual"
        self._loop.close_microphone()  # of realtime mode: capture begins anew
        return sent + self._loop.listen(now)

    def _release(self, now: float) -> Sent:
        if self.state != "listening":
            return []
        self._loop.close_microphone()
        self._loop.go("idle")
        return [ListenStop()]

    def _wake_word(self, now: float, text: str) -> Sent:
        if self.state == "idle" and self.channel_open:
            self._loop.mode = self._default_mode
            told: Sent = [Detect(text=text)] if text else []
            return told + self._loop.listen(now)
        if self.state == "speaking":
            return self._wake_word_speaking(now)
        if self.listens and self._wake_word_always and self._loop.firmware.wake_word_listens:
            return [Abort(reason=WAKE_WORD_REASON), *self._loop.open_microphone(now)]
        return []

    def _wake_word_speaking(self, now: float) -> Sent:
        if self.mode == "realtime" and not self._wake_word_always:
            return []
        sent: Sent = [Abort(reason=WAKE_WORD_REASON)]
        if not self._loop.firmware.wake_word_listens:
            self._silence(now)
            return sent
        self._loop.mode = self._default_mode
        self._loop.close_microphone()  # listening is announced anew, also in realtime mode
        return sent + self._loop.listen(now)

    def _silence(self, now: float) -> None:
        if self._loop.firmware.silent_abort:
            self._loop.silenced = True
            self._loop.flush(now)
