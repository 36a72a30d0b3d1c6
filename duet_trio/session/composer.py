"""The LLM step of an answer: text in holds of one piece each, cleaned and cut into pieces.

The model is *pulled*: not asking is the pause, so turn-taking needs no throttle. A hold ends
with the piece it was for, or after ``llm.hold_tokens`` tokens.

A model that stalls in mid-hold keeps back text that could be spoken: after ``llm.flush_s`` without
a token it goes to the voice, once that has nothing else to do and the board has little left to
play. Not where the two share the GPU: the voice cannot have it before the model leaves, and then
the rest of the piece is there at full speed. Waiting for the turn is no stall, since only time
inside a hold counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from duet_trio.config import Config
from duet_trio.engines.contracts import Hold, LlmStream, TurnGate, WriteRequest, Written
from duet_trio.events import Recorder
from duet_trio.speech.budget import Estimates
from duet_trio.speech.pieces import Piece, PieceMaker
from duet_trio.speech.spoken_text import SpokenText

#: Audio ahead beyond this makes no difference to where a piece may close.
AHEAD_MATTERS_S = 60.0
#: A stall of the model matters only once the board has no more than this left to play.
LITTLE_AHEAD_S = 2.0
#: As many as take 0.2 ms to clean.
RECITED_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece on its way to the voice; the voice sets ``begun`` once it sounds, ``spoken`` once
    it is through with it.
    """

    index: int
    text: str
    begun: trio.Event = field(default_factory=trio.Event)
    spoken: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class Labels:
    """Whose events these are, and how urgent its turns are (seconds until it runs dry)."""

    board: str | None
    generation: int
    urgency: Callable[[], float]


@dataclass(frozen=True, slots=True)
class ComposerSettings:
    """``wait_for_voice``: a piece that is ready goes before more text (the GPU is shared);
    ``flush_s``: see the module.
    """

    hold_tokens: int
    max_tokens: int
    wait_for_voice: bool
    flush_s: float

    @classmethod
    def of(cls, config: Config) -> ComposerSettings:
        """Those of this configuration."""
        llm = config.llm
        return cls(
            llm.hold_tokens,
            llm.max_tokens,
            wait_for_voice=llm.gpu and config.tts.gpu and not llm.overlap,
            flush_s=llm.flush_s,
        )


class Composer:
    """Writes one answer's text; ``run`` ends when the model has."""

    def __init__(
        self,
        cleaner: SpokenText,
        maker: PieceMaker,
        pieces: trio.MemorySendChannel[TextPiece],
        recorder: Recorder,
        labels: Labels,
        *,
        on_emoji: Callable[[str], None],
    ) -> None:
        self._cleaner = cleaner
        self._maker = maker
        self._pieces = pieces
        self._recorder = recorder
        self._labels = labels
        self._on_emoji = on_emoji
        self._emoji_told = False
        self._characters = 0
        self._handing: TextPiece | None = None  # told, and not yet with the voice
        self._last: TextPiece | None = None  # with the voice
        self._text_at = -math.inf  # trio time of the last token
        self._more_text = trio.Event()

    async def recite(self, text: str) -> None:
        """Speak a given text instead of asking a model.

        Bit by bit, as a model would write it: cleaning ten thousand characters at once would
        keep everybody's packets waiting for 60 ms.
        """
        with self._pieces:
            for start in range(0, len(text), RECITED_CHARACTERS):
                self._take_text(text[start : start + RECITED_CHARACTERS])
                await self._hand_over(wait_for_voice=False)
                await trio.lowlevel.checkpoint()
            self._end_text()
            await self._hand_over(wait_for_voice=False)

    async def write(
        self,
        stream: LlmStream,
        gate: TurnGate,
        estimates: Estimates,
        settings: ComposerSettings,
    ) -> None:
        """Let the model write. Raises what `LlmStream.write` raises, perhaps in a group.

        A cancel asks the engine to stop; the hold on the GPU lasts until it has.
        """
        tokens = 0
        finished = False
        with self._pieces:
            while not finished and tokens < settings.max_tokens:
                limit = min(settings.hold_tokens, settings.max_tokens - tokens)
                async with gate.turn(
                    "llm",
                    board=self._labels.board,
                    generation=self._labels.generation,
                    urgency=self._labels.urgency,
                ) as hold:
                    started = trio.current_time()
                    before = self._characters
                    written = await self._write_on(stream, WriteRequest(limit), hold, settings)
                    estimates.wrote(
                        tokens=written.tokens,
                        characters=self._characters - before,
                        seconds=trio.current_time() - started,
                    )
                tokens += written.tokens
                finished = written.finished
                await self._hand_over(wait_for_voice=settings.wait_for_voice)
            self._recorder.emit(
                "llm.end",
                board=self._labels.board,
                generation=self._labels.generation,
                tokens=tokens,
            )
            self._end_text()
            await self._hand_over(wait_for_voice=False)

    async def _write_on(
        self, stream: LlmStream, request: WriteRequest, hold: Hold, settings: ComposerSettings
    ) -> Written:
        if settings.wait_for_voice:
            return await stream.write(request, self._on_text, hold)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._flush_stalls, settings.flush_s)
            written = await stream.write(request, self._on_text, hold)
            nursery.cancel_scope.cancel()
        return written

    async def _flush_stalls(self, after_s: float) -> None:
        """During one hold. A cancel loses nothing: `_hand_over` goes on with what was told."""
        self._text_at = trio.current_time()
        while True:
            if self._last is not None:
                await self._last.spoken.wait()
            now = trio.current_time()
            ahead_s = self._labels.urgency()  # infinite for answers without a clock
            spare_s = ahead_s - LITTLE_AHEAD_S if ahead_s < math.inf else 0.0
            due = max(self._text_at + after_s, now + spare_s)
            if now < due:
                await trio.sleep_until(due)  # and look again: text may have come meanwhile
            elif self._maker.ready or self._maker.flush_stalled():
                await self._hand_over(wait_for_voice=False)
            else:
                self._more_text = trio.Event()
                await self._more_text.wait()

    def _on_text(self, text: str) -> bool:
        if not self._characters and text:
            self._recorder.emit(
                "llm.first", board=self._labels.board, generation=self._labels.generation
            )
        self._text_at = trio.current_time()
        self._more_text.set()
        self._take_text(text)
        return not self._maker.ready

    def _take_text(self, text: str) -> None:
        self._characters += len(text)
        ahead_s = min(self._labels.urgency(), AHEAD_MATTERS_S)
        self._maker.feed(self._cleaner.feed(text), audio_ahead_s=ahead_s)
        if self._cleaner.first_emoji is not None and not self._emoji_told:
            self._emoji_told = True
            self._on_emoji(self._cleaner.first_emoji)

    def _end_text(self) -> None:
        self._maker.feed(self._cleaner.finish())
        self._maker.finish()

    async def _hand_over(self, *, wait_for_voice: bool) -> None:
        while True:
            if self._handing is None:
                piece = self._maker.take()
                if piece is None:
                    return
                self._handing = self._tell(piece)
            await self._pieces.send(self._handing)
            handed = self._last = self._handing
            self._handing = None
            if wait_for_voice:
                # Without this the next hold of the LLM could slip in front of the piece.
                await handed.begun.wait()

    def _tell(self, piece: Piece) -> TextPiece:
        self._recorder.emit(
            "piece",
            board=self._labels.board,
            generation=self._labels.generation,
            index=piece.index,
            text=piece.text,
        )
        return TextPiece(piece.index, piece.text)
