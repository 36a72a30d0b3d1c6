"""One board's session, from its hello to its end: the nursery around reader, writer, listener
and conversation.

It works on any `Transport`, so that the same code runs over a WebSocket and on the mock clock.
The reader never waits for an engine: everything it calls is synchronous.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import trio

from duet_trio.errors import ConnectionLostError, EngineError
from duet_trio.session.answer import Question
from duet_trio.session.conversation import Conversation
from duet_trio.session.ears import make_listener
from duet_trio.session.listener import Listener
from duet_trio.session.mcp_session import McpSession
from duet_trio.session.outbox import Outbox
from duet_trio.session.peer import BoardSettings, Facts, Transport
from duet_trio.session.recognition import Heard
from duet_trio.session.services import Services
from duet_trio.session.silence import SilenceWatch
from duet_trio.session.turn_filter import TurnFilter
from duet_trio.session.writer import Writer
from duet_trio.speech.history import History
from duet_trio.wire import board_events as events
from duet_trio.wire.board_state import BoardProtocol
from duet_trio.wire.framing import unpack
from duet_trio.wire.handshake import Handshake
from duet_trio.wire.messages import Alert, Pong, ServerHello, System, TtsStop

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SessionStatistics:
    """Counts of one session."""

    bad_input: int = 0
    ignored: int = 0
    opened_at: float = field(default_factory=trio.current_time)


class BoardSession:
    """One connection of one board; `run` it once, from within a supervision border."""

    def __init__(
        self, services: Services, transport: Transport, who: Handshake, facts: Facts
    ) -> None:
        self._services = services
        self._transport = transport
        self._scope = trio.CancelScope()
        config = services.config
        self.board = who.device_id
        self._session_id = uuid4().hex
        self.statistics = SessionStatistics()
        self.close_reason = "board gone"
        self._settings = settings = BoardSettings.of(config, self.board, facts)
        self.protocol = BoardProtocol(frozenset(config.voice.wake_words), who.version)
        self.outbox = Outbox(services.recorder, self.board)
        self.conversation = Conversation(
            services,
            self.outbox,
            History(settings.system_prompt, max_tokens=config.llm.history_tokens),
            board=self.board,
            limits=lambda: settings.limits,
            on_quiet=self._on_quiet,
        )
        self._listener: Listener | None = None
        self._filter = TurnFilter(
            services.recorder,
            self.protocol,
            board=self.board,
            packets=lambda: self.listener.statistics.packets,
            said=lambda: self.conversation.said,
        )
        self.mcp = McpSession(self.outbox.control, board=self.board)
        self._writer = Writer(
            self.outbox,
            self._send,
            services.recorder,
            board=self.board,
            session_id=self._session_id,
            version=lambda: self.protocol.version,
            deadline_s=config.pacer.send_s,
            on_sent=self.protocol.sent,
        )

    @property
    def listener(self) -> Listener:
        """The ears; there from the moment `run` has begun."""
        assert self._listener is not None
        return self._listener

    def close(self, reason: str) -> None:
        """End the session from outside (synchronous): a duplicate id, a stop of the server."""
        self.close_reason = reason
        self._scope.cancel(reason=reason)

    def tell(self, message: Alert | System) -> None:
        """Show a notice, or have the board reboot, beside the conversation. Synchronous."""
        self.outbox.control(message)

    async def run(self) -> None:
        """Serve until the board is gone, idle for too long, or `close` was called.

        Returns normally in all these cases; an answer that is under way ends with it.
        """
        with self._scope:
            try:
                async with trio.open_nursery() as nursery:
                    self._listener = self._make_listener(nursery)
                    nursery.start_soon(self._writer.run)
                    nursery.start_soon(self._listener.run)
                    nursery.start_soon(self.conversation.run)
                    nursery.start_soon(self.mcp.run)
                    nursery.start_soon(self._silence_watch(self._listener).run)
                    await self._read()
            except* ConnectionLostError as group:
                log.info("board %s: %s", self.board, group.exceptions[0])

    def _make_listener(self, nursery: trio.Nursery) -> Listener:
        return make_listener(
            self._services,
            nursery,
            self.conversation,
            board=self.board,
            language=self._settings.language,
            endpoint_ms=self._settings.endpoint_ms,
            on_heard=self._on_heard,
            on_failure=self._on_asr_failure,
        )

    def _silence_watch(self, listener: Listener) -> SilenceWatch:
        return SilenceWatch(
            self._services.config.server,
            has_greeted=lambda: self.protocol.greeted,
            last_sent=lambda: self._writer.last_sent,
            is_answering=lambda: self.conversation.is_answering,
            in_speech=lambda: listener.in_speech,
            close=self.close,
        )

    async def _send(self, data: str | bytes) -> None:
        await self._transport.send(data)
        if isinstance(data, bytes):
            self.listener.sent(unpack(self.protocol.version, data).opus)

    async def _read(self) -> None:
        while True:
            data = await self._transport.receive()
            found = (
                self.protocol.receive_text(data)
                if isinstance(data, str)
                else self.protocol.receive_bytes(data)
            )
            for event in found:
                self._on_event(event)

    def _on_event(self, event: events.BoardEvent) -> None:
        match event:
            case events.Audio():
                self.listener.packet(event.opus, event.timestamp_ms)
            case events.Greeted():
                self._greet()
            case events.ListeningStarted():
                if event.mode == "manual" and self.conversation.is_answering:
                    self.conversation.abort("listen_start")
                self.listener.start(event.mode)
            case events.ListeningStopped():
                self.listener.stop()
            case events.WakeWord():
                self.listener.forget()
            case events.Question():
                self.listener.forget()
                self._ask(Question(event.text, trio.current_time(), "typed"))
            case events.AbortRequested():
                self.listener.forget()
                called = event.reason == "wake_word_detected"
                self.conversation.abort("wake_word" if called else "button")
                if math.isinf(self.listener.gate.opens_at):
                    # The question was taken back before its answer began.
                    self.listener.gate.open_after(trio.current_time())
            case events.Pinged():
                self.outbox.control(Pong())
            case events.BadInput():
                self._on_bad_input(event.error)
            case events.McpReply():
                self.mcp.receive(event.payload)
            case events.Ignored():
                self.statistics.ignored += 1

    def _greet(self) -> None:
        # Before anything that could be slow: a board waits 10 s for it, once.
        self.outbox.control(ServerHello(self._session_id))
        self.listener.tune(self.protocol.uplink_frame_ms)
        if "mcp" in self.protocol.features:
            self.mcp.start()

    def _on_bad_input(self, error: str) -> None:
        self.statistics.bad_input += 1
        if self.statistics.bad_input == 1:  # once per session: garbage comes in floods
            log.warning("board %s sent something unusable: %s", self.board, error)
            self._services.recorder.emit("peer.error", board=self.board, error=error)

    def _ask(self, question: Question) -> None:
        self.conversation.ask(question)
        self.listener.mute()  # last: the end of an older answer would open the gate

    def _on_heard(self, heard: Sequence[Heard]) -> None:
        """A whole turn: what is speech in it becomes one question."""
        text = self._filter.question(heard)
        if text:
            self._ask(
                Question(
                    text,
                    trio.current_time(),
                    "speech",
                    speech_ended_at=heard[-1].speech.ended_at,
                )
            )

    def _on_asr_failure(self, error: EngineError) -> None:
        self.outbox.control(Alert("error", error.reason, "sad"))
        self.outbox.control(TtsStop())

    def _on_quiet(self, playback_end: float) -> None:
        if self._listener is None:
            return
        if math.isinf(playback_end):
            self._listener.mute()
        else:
            self._listener.gate.open_after(playback_end)
