"""The simulated board itself: its sans-IO parts, moved by trio's clock and one connection.

Differences to a stock board: a Close frame is answered (the WebSocket library does that), and
there are no MCP tools.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from trio_websocket import ConnectionRejected

from duet_trio.board.firmware import firmware
from duet_trio.board.link import Connect, Link, parse_address, shake_hands
from duet_trio.board.microphone import Microphone
from duet_trio.board.notebook import Notebook
from duet_trio.board.playback import PacketDecoder, Playback, SilentDecoder, Stall
from duet_trio.board.result import BoardResult
from duet_trio.board.script import BoardOptions, Watcher
from duet_trio.board.speaker import SPEAKER_RATE_HZ, OpusSpeaker
from duet_trio.board.state import BoardState, Sent
from duet_trio.errors import ConnectionLostError, PeerError
from duet_trio.wire.framing import unpack
from duet_trio.wire.messages import (
    Abort,
    AudioParams,
    BoardMessage,
    Hello,
    ServerMessage,
    TtsStart,
    TtsStop,
    parse_server_text,
)


class Device:
    """A board that is switched on. Its owner runs `clockwork` and `listen` as tasks, calls
    `dial` for a connection, and hands what the user does to ``board`` and `send`.
    """

    def __init__(self, options: BoardOptions, connect: Connect, watcher: Watcher | None) -> None:
        self.options = options
        self.link: Link | None = None
        self.microphone = Microphone(options.uplink_frame_ms)
        self.notebook = Notebook()
        self.last_message_s = 0.0  # on trio's clock
        self._address = parse_address(options.url)
        self._connect = connect
        self._watcher = watcher
        self._speaker = OpusSpeaker() if options.decode else None
        decoder: PacketDecoder = self._speaker or SilentDecoder(SPEAKER_RATE_HZ)
        self.playback = Playback(decoder, sample_rate_hz=SPEAKER_RATE_HZ)
        self.board = BoardState(
            firmware(options.firmware),
            options.mode,
            self.playback,
            wake_word_always=options.wake_word_always,
            late_flush_s=options.late_flush_s,
        )
        self.result = BoardResult(
            device_id=options.identity.device_id,
            firmware=options.firmware,
            mode=options.mode,
            origin_s=0.0,
            sample_rate_hz=SPEAKER_RATE_HZ,
            turns=self.notebook.turns,
            heard=self.playback.heard,
        )
        self._session_scope = trio.CancelScope()
        self._reading = True
        self._changed = trio.Event()

    # --- for the owner -----------------------------------------------------------------

    def time(self) -> float:
        """Seconds on the board's own axis."""
        return trio.current_time() - self.result.origin_s

    def send(self, messages: Sent) -> None:
        """Send what the board wants to say, and let everybody look at the new state."""
        for message in messages:
            if isinstance(message, Abort):
                self.notebook.aborted(self.time())
            if self.link is not None:
                self.link.say(message)
                self._tell(message)
        if self.board.hanging_up:
            self.drop()
        self.notify()

    def drop(self) -> None:
        """Drop the connection without a Close frame."""
        self._session_scope.cancel()

    def stop_reading(self) -> None:
        """Take nothing more from the socket of this connection."""
        self._reading = False

    def notify(self) -> None:
        """Wake everybody who waits for a `change`."""
        self._changed.set()
        self._changed = trio.Event()

    async def change(self) -> None:
        """Wait until anything has happened. A checkpoint."""
        await self._changed.wait()

    async def until(self, reached: Callable[[], bool], patience_s: float | None = None) -> bool:
        """Wait for a state of the board. False: the connection went away before.

        With ``patience_s`` also False, and ``result.failure`` set, if the server sends nothing
        for as long.
        """
        while not reached():
            if self.link is None:
                return False
            if patience_s is None:
                await self.change()
                continue
            deadline = self.last_message_s + patience_s
            with trio.move_on_at(deadline):
                await self.change()
            if trio.current_time() >= self.last_message_s + patience_s and not reached():
                self.failed(f"nothing from the server for {patience_s:g} s")
                return False
        return True

    def failed(self, why: str) -> None:
        """Note the first thing that broke."""
        self.result.failure = self.result.failure or why

    def account(self) -> None:
        """Bring the figures of ``result`` up to date."""
        result, playback = self.result, self.playback
        result.stalls = [Stall(s.start_s - result.origin_s, s.duration_s) for s in playback.stalls]
        result.packets_refused = self.board.refused_audio
        result.packets_dropped = playback.dropped_full
        result.packets_damaged = playback.damaged

    # --- tasks -------------------------------------------------------------------------

    async def clockwork(self) -> None:
        """Let due things happen, for ever."""
        while True:
            with trio.move_on_at(self.board.deadline()) as scope:
                await self.change()
            if scope.cancelled_caught:
                self.send(self.board.advance(trio.current_time()))

    async def listen(self) -> None:
        """Send a microphone packet per frame while the microphone is open, for ever."""
        tick = trio.current_time()
        while True:
            tick += self.microphone.frame_s
            await trio.sleep_until(tick)
            if self.link is None or not self.board.microphone_open(tick):
                continue
            was_speaking = self.microphone.speaking
            packet = self.microphone.packet()
            if packet is not None:
                self.link.audio(packet)
                self.result.packets_sent += 1
            if was_speaking and not self.microphone.speaking:
                self.notify()

    async def dial(self, nursery: trio.Nursery) -> bool:
        """Connect; say whether it worked. The connection lives in ``nursery`` until it ends."""
        settled = trio.Event()
        nursery.start_soon(self._session, settled)
        await settled.wait()
        return self.link is not None

    async def _session(self, settled: trio.Event) -> None:
        """One connection, from dialling to its end."""
        self._session_scope = trio.CancelScope()
        self._reading = True
        self.send(self.board.dial(trio.current_time()))
        try:
            await self._connection(settled)
        except* OSError as group:
            self.failed(f"{self.options.url}: cannot connect ({group.exceptions[0]})")
        except* ConnectionRejected as refused:
            status = getattr(refused.exceptions[0], "status_code", "no")
            self.failed(f"{self.options.url}: refused with HTTP status {status}")
        self.link = None
        self.board.closed(trio.current_time())
        self.notify()
        settled.set()

    async def _connection(self, settled: trio.Event) -> None:
        stream = await self._connect(self._address)
        try:
            with self._session_scope:
                async with trio.open_nursery() as nursery:
                    await self._talk(nursery, stream, settled)
                    nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(stream)

    async def _talk(
        self, nursery: trio.Nursery, stream: trio.abc.Stream, settled: trio.Event
    ) -> None:
        options = self.options
        hello = Hello(
            version=options.identity.version,
            features=options.features,
            audio_params=AudioParams(frame_duration=options.uplink_frame_ms),
        )
        try:
            link = await shake_hands(nursery, stream, self._address, options.identity, hello)
        except ConnectionLostError as error:
            self.failed(str(error))
            return
        self.link = link
        self.result.session_id = link.hello.session_id
        if self._speaker is not None:
            self._speaker.announced(link.hello.frame_duration)
        self.last_message_s = trio.current_time()
        for packet in self.microphone.recording(options.wake_pcm):
            link.audio(packet)
        self.send(self.board.opened(trio.current_time(), options.wake_word))
        nursery.start_soon(link.write_all)
        settled.set()
        try:
            await self._read(link)
        except ConnectionLostError as error:
            if any(not turn.over for turn in self.notebook.turns):
                self.failed(str(error))

    async def _read(self, link: Link) -> None:
        while True:
            if not self._reading:
                await trio.sleep_forever()
            message = await link.receive()
            now = self.last_message_s = trio.current_time()
            try:
                if isinstance(message, bytes):
                    self._packet(unpack(link.version, message).opus, now)
                else:
                    self._message(parse_server_text(message), now)
            except PeerError as error:
                self.result.bad_messages.append(str(error))

    def _packet(self, opus: bytes, now: float) -> None:
        played, sent = self.board.audio(opus, now)
        self.notebook.packet(self.time(), played=played)
        self.send(sent)

    def _message(self, message: ServerMessage, now: float) -> None:
        self.notebook.message(message, self.time())
        self._tell(message)
        if isinstance(message, TtsStart):
            self.send(self.board.tts_start(now))
        elif isinstance(message, TtsStop):
            self.send(self.board.tts_stop(now))
        else:
            self.notify()

    def _tell(self, message: BoardMessage | ServerMessage) -> None:
        if self._watcher is not None:
            self._watcher(self.time(), message)
