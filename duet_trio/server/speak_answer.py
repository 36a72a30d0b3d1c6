"""An answer without a board: the same engines, turns, pieces and deadlines, audio as it is made.

`HttpAnswer` is one nursery, like a board's answer, but its sink gives plain PCM to whoever reads,
instead of packets to a pacer. There is no clock: the reader's pace is the pace. While it reads
nothing, at most ``AHEAD_S`` and one piece wait here, and the engine stands still.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from duet_trio.engines.contracts import Message
from duet_trio.errors import DuetError, EngineError, EngineHungError, first_leaf
from duet_trio.server.speak_gate import PoliteGate
from duet_trio.server.speak_sink import PcmSink
from duet_trio.session.answer import Outcome
from duet_trio.session.composer import Composer, ComposerSettings, Labels, TextPiece
from duet_trio.session.conversation import BusyError
from duet_trio.session.services import Services
from duet_trio.session.speaker import Speaker
from duet_trio.speech.budget import Budget
from duet_trio.speech.pieces import PieceMaker
from duet_trio.speech.spoken_text import SpokenText

log = logging.getLogger(__name__)

AHEAD_S = 4.0  # 190 kB a client


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be spoken: ``say`` as it is, or the model's answer to ``messages``."""

    client: str
    say: str | None = None
    messages: Sequence[Message] = ()
    voice: str = ""


class CutOffError(DuetError):
    """An answer failed after its first audio had left: the response can only be broken off."""


class HttpAnswer:
    """One answer. Start `run` in the request's nursery, then read `first` and `blocks`."""

    def __init__(self, services: Services, gate: PoliteGate, order: Order) -> None:
        self.generation = next(services.generations)
        self._services = services
        self._gate = gate
        self._order = order
        self._sink = PcmSink()
        self._outcome: Outcome = "aborted"
        self._cause = "disconnect"
        self._error: EngineError | None = None
        self._over = trio.Event()

    async def run(self) -> None:
        """Make the audio. Raises nothing but cancellation: a fault is told by `first`, `blocks`.

        A cancel (the client has gone) stops the engines and leaves nothing behind.
        """
        services, client = self._services, self._order.client
        question = self._order.say if self._order.say is not None else self._question()
        services.recorder.emit(
            "answer.start", generation=self.generation, question=question, client=client
        )
        try:
            await self._speak()
            self._outcome, self._cause = "done", ""
        except* EngineError as group:
            self._fail(first_leaf(group))
        finally:
            self._sink.finish()
            self._over.set()
            services.recorder.emit(
                "answer.end",
                generation=self.generation,
                outcome=self._outcome,
                cause=self._cause,
                heard="",
                client=client,
            )

    async def first(self) -> None:
        """Wait until there is audio; raises the `EngineError` of an answer that failed before.

        An answer that has nothing to say ends without either.
        """
        await self._sink.news()
        if self._sink.is_empty:
            await self._over.wait()
            if self._error is not None:
                raise self._error

    async def next_block(self) -> bytes | None:
        """PCM (24 kHz s16le) as soon as there is some; None at the end.

        Raises `CutOffError` if the answer fails now.
        """
        await self._sink.news()
        while not self._sink.is_empty:
            block = self._sink.take()
            if block:
                return block
            await self._sink.news()
        await self._over.wait()
        if self._error is not None:
            raise CutOffError(self._error.reason)
        return None

    def left(self, count: int) -> None:
        """Note that bytes of this answer have been handed to the network."""
        self._services.recorder.emit(
            "sent",
            generation=self.generation,
            what="audio",
            client=self._order.client,
            bytes=count,
        )

    def _question(self) -> str:
        return self._order.messages[-1].content if self._order.messages else ""

    def _fail(self, error: EngineError) -> None:
        self._error = error
        self._outcome, self._cause = "failed", error.reason
        log.info("HTTP answer %d failed: %s", self.generation, error)

    async def _speak(self) -> None:
        services = self._services
        limit_s = services.config.answer.admission_s
        with trio.move_on_after(limit_s) as waiting:
            # In, and at once out again: it waits for a moment with room, but takes no place. At
            # the gate it comes after every board, and a board alone is always to be let in.
            async with services.admission.admit(None, rtf=lambda: 0.0):
                pass
        if waiting.cancelled_caught:
            raise BusyError("not admitted in time", reason="too many boards are talking")
        await self._make()

    async def _make(self) -> None:
        services, config = self._services, self._services.config
        labels = Labels(None, self.generation, lambda: math.inf)
        settings = ComposerSettings.of(config)
        sender, receiver = trio.open_memory_channel[TextPiece](0 if settings.wait_for_voice else 1)
        composer = Composer(
            SpokenText(await services.llm.control_tokens()),
            PieceMaker(Budget(services.estimates)),
            sender,
            services.recorder,
            labels,
            on_emoji=lambda _emoji: None,
        )
        speaker = Speaker(
            services.tts,
            self._gate,
            self._sink,
            services.estimates,
            services.recorder,
            labels,
            voice=self._order.voice,
            ahead_s=min(AHEAD_S, config.tts.ahead_s),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(speaker.run, receiver)
            nursery.start_soon(self._watch_first_audio, config.answer.first_audio_s)
            await self._compose(composer, settings)

    async def _compose(self, composer: Composer, settings: ComposerSettings) -> None:
        if self._order.say is not None:
            await composer.recite(self._order.say)
            return
        services = self._services
        stream = services.llm.start(self._order.messages, generation=self.generation)
        try:
            await composer.write(stream, self._gate, services.estimates, settings)
        finally:
            stream.close()

    async def _watch_first_audio(self, limit_s: float) -> None:
        with trio.move_on_after(limit_s):
            await self._sink.news()
            return
        raise EngineHungError(
            f"no audio {limit_s:g} s after the question", reason="the answer took too long"
        )
