"""The LLM step of an answer: text in holds of one piece each, cleaned and cut into pieces.

The model is *pulled*: not asking is the pause, so turn-taking needs no throttle. A hold ends
with the piece it was for, or after ``llm.hold_tokens`` tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from duet_trio.engines.contracts import LlmStream, TurnGate, WriteRequest
from duet_trio.events import Recorder
from duet_trio.speech.budget import Estimates
from duet_trio.speech.pieces import Piece, PieceMaker
from duet_trio.speech.spoken_text import SpokenText

#: Audio ahead beyond this makes no difference to where a piece may close.
AHEAD_MATTERS_S = 60.0
#: 0.2 ms of work.
RECITED_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece on its way to the voice; the voice sets ``begun`` once it sounds."""

    index: int
    text: str
    begun: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class Labels:
    """Whose events these are, and how urgent its turns are (seconds until it runs dry)."""

    board: str | None
    generation: int
    urgency: Callable[[], float]


@dataclass(frozen=True, slots=True)
class ComposerSettings:
    """``wait_for_voice``: a piece that is ready goes before more text (the GPU is shared)."""

    hold_tokens: int
    max_tokens: int
    wait_for_voice: bool


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
        """Let the model write. Raises what `LlmStream.write` raises.

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
                    written = await stream.write(WriteRequest(limit), self._on_text, hold)
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

    def _on_text(self, text: str) -> bool:
        if not self._characters and text:
            self._recorder.emit(
                "llm.first", board=self._labels.board, generation=self._labels.generation
            )
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
        while (piece := self._maker.take()) is not None:
            handed = self._tell(piece)
            await self._pieces.send(handed)
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
