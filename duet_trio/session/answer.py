"""One answer is one nursery: its LLM step, its TTS call, its encoder and its pacer.

When the nursery has closed, nothing of the answer exists any more. It is ended from outside by
one `Answer.cancel`; what it had already put into the outbox is ended by `Outbox.retire`, which
the conversation calls in the same synchronous step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import trio

from duet_trio.engines.contracts import Message
from duet_trio.errors import EngineHungError
from duet_trio.session.composer import Composer, ComposerSettings, Labels, TextPiece
from duet_trio.session.outbox import Outbox
from duet_trio.session.pacer import FRAME_S, Pacer
from duet_trio.session.services import Services
from duet_trio.session.speaker import Speaker
from duet_trio.session.speech_line import SpeechLine, SpokenPiece
from duet_trio.speech.budget import Budget
from duet_trio.speech.history import heard_text
from duet_trio.speech.pieces import PieceMaker
from duet_trio.speech.spoken_text import SpokenText
from duet_trio.wire.emotions import emotion_of
from duet_trio.wire.messages import Emotion

Outcome = Literal["done", "aborted", "failed"]


@dataclass(frozen=True, slots=True)
class Question:
    """What an answer is for. ``say``: speak this text as it is, no model is asked.

    ``speech_ended_at``: trio time of the last voiced sample, for spoken questions.
    """

    text: str
    accepted_at: float
    origin: Literal["speech", "typed", "announcement"] = "typed"
    say: str | None = None
    speech_ended_at: float | None = None


@dataclass(slots=True)
class AnswerState:
    """How an answer stands; ``cause`` says why it was aborted or failed."""

    outcome: Outcome = "done"
    cause: str = ""
    heard: str = ""
    over: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class BoardLimits:
    """What this board wants: its lead in packets, its voice."""

    lead: int
    voice: str


class Answer:
    """One answer to one board. ``run`` it once."""

    def __init__(
        self,
        services: Services,
        outbox: Outbox,
        question: Question,
        messages: Sequence[Message],
        *,
        board: str,
        generation: int,
        limits: BoardLimits,
    ) -> None:
        self.generation = generation
        self.question = question
        self.state = AnswerState()
        self._services = services
        self._outbox = outbox
        self._messages = messages
        self._board = board
        self._limits = limits
        self.scope = trio.CancelScope()
        pacer = services.config.pacer
        self._budget = Budget(services.estimates)
        self._text_complete = False
        self.line = SpeechLine(services.make_encoder(), services.encode_turns)
        self.pacer = Pacer(
            self.line,
            outbox,
            services.recorder,
            board=board,
            generation=generation,
            lead=limits.lead,
            earliest=trio.current_time() + pacer.first_packet_after_s,
            start_hold_s=self._start_hold_s,
        )

    def cancel(self, cause: str) -> None:
        """End it (synchronous). What was heard is fixed at this very moment."""
        if self.state.outcome != "done":
            return
        self.state.outcome = "aborted"
        self.state.cause = cause
        self.state.heard = self.heard()
        self.scope.cancel(reason=cause)

    @property
    def is_live(self) -> bool:
        """Neither cancelled nor failed nor over."""
        return self.state.outcome == "done" and not self.state.over.is_set()

    def load(self) -> float:
        """Share of the voice that this answer takes: its measured real-time factor.

        0 where answers do not share one voice (engines with many slots, elsewhere or scripted).
        """
        services = self._services
        if not services.config.tts.gpu and services.tts.slots > 1:
            return 0.0
        return services.estimates.real_time_factor

    def heard(self) -> str:
        """The text whose packets have been played by now, cut at a word."""
        played = self.pacer.progress.played(trio.current_time())
        return heard_text(
            [
                (piece.text, self._packets_in(piece), share)
                for piece in self.line.pieces
                if (share := max(0, min(piece.packets, played - piece.first_sequence))) > 0
            ]
        )

    def _packets_in(self, piece: SpokenPiece) -> int:
        """Packets of a piece in all: an estimate from its text while it is being made."""
        if piece.total is not None:
            return piece.total
        expected_s = max(piece.audio_s, self._services.estimates.audio_s(piece.text))
        return max(piece.packets + 1, math.ceil(expected_s / FRAME_S))

    async def run(self) -> None:
        """Speak the answer to its end of playback; its owner runs this inside ``scope``.

        Raises an exception group of what its parts raised (`EngineError` above all).
        A cancel leaves nothing behind.
        """
        services, config = self._services, self._services.config
        labels = Labels(self._board, self.generation, self._runs_dry_in)
        settings = ComposerSettings.of(config)
        room = math.inf if config.llm.overlap else 0 if settings.wait_for_voice else 1
        sender, receiver = trio.open_memory_channel[TextPiece](room)
        speaker = Speaker(
            services.tts,
            services.gate,
            self.line,
            services.estimates,
            services.recorder,
            labels,
            voice=self._limits.voice,
            ahead_s=config.tts.ahead_s,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.line.encode)
            nursery.start_soon(self.pacer.run)
            nursery.start_soon(speaker.run, receiver)
            nursery.start_soon(self._compose, sender, labels, settings)
            nursery.start_soon(self._watch_first_audio, config.answer.first_audio_s)

    async def _compose(
        self,
        pieces: trio.MemorySendChannel[TextPiece],
        labels: Labels,
        settings: ComposerSettings,
    ) -> None:
        services = self._services
        given = self.question.say
        # Waits while the model loads; the answer's own limit runs meanwhile.
        control_tokens = () if given is not None else await services.llm.control_tokens()
        composer = Composer(
            SpokenText(control_tokens),
            PieceMaker(self._budget),
            pieces,
            services.recorder,
            labels,
            on_emoji=self._show_emoji,
        )
        if given is not None:
            self._text_complete = True
            await composer.recite(given)
            return
        stream = services.llm.start(self._messages, generation=self.generation)
        try:
            await composer.write(stream, services.gate, services.estimates, settings)
            self._text_complete = True
        finally:
            stream.close()

    async def _watch_first_audio(self, limit_s: float) -> None:
        with trio.move_on_after(limit_s):
            await self.line.audible_or_over.wait()
            return
        raise EngineHungError(
            f"no audio {limit_s:g} s after the question",
            reason="the answer took too long",
        )

    def _runs_dry_in(self) -> float:
        """Seconds until the board has nothing left to play: the urgency of the next turn."""
        if not self.pacer.progress.sent and not self.line.pieces:
            return 0.0
        return self.line.ahead_s + self.pacer.playback_end() - trio.current_time()

    def _start_hold_s(self, first_piece: str) -> float:
        """How much later than possible playback begins, so that it need not stop after a piece."""
        if self._text_complete:
            return 0.0  # nothing more is to be written: nothing can run dry
        limit_s = self._services.config.pacer.start_hold_s
        return self._budget.start_hold_s(first_piece, limit_s=limit_s)

    def _show_emoji(self, emoji: str) -> None:
        emotion = emotion_of(emoji)
        if emotion is not None:
            self._outbox.control(Emotion(emotion, emoji), self.generation)
