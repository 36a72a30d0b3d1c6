"""The TTS call of an answer: one piece after the other, each retried once while it is unheard.

What the voice cannot read (Chinese, to an English one) is left out and the rest is spoken; the
trace says so for each piece, the log once per answer. If nothing was left, the answer fails.
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from duet_trio.engines.contracts import SPEECH_RATE_HZ, SpeechRequest, Spoken, Tts, TurnGate
from duet_trio.errors import EngineFailedError, UnreadableError
from duet_trio.events import Recorder
from duet_trio.session.composer import Labels, TextPiece
from duet_trio.speech.budget import Estimates
from duet_trio.speech.caps import audio_cap_s, is_absurdly_short

log = logging.getLogger(__name__)


class PieceSink(Protocol):
    """Takes the PCM of pieces; all but `room` is synchronous. `SpeechLine` is one."""

    def begin(self, index: int, text: str) -> object:
        """A piece starts."""

    def block(self, pcm: bytes) -> None:
        """PCM of the piece begun last."""

    def end(self) -> None:
        """The piece begun last is complete."""

    def drop(self) -> bool:
        """Forget the piece begun last if none of it has been used; says whether it could."""

    def finish(self) -> None:
        """No further piece will come."""

    async def room(self, limit_s: float) -> None:
        """Wait until at most ``limit_s`` of audio wait."""


class Speaker:
    """Speaks an answer's pieces into a sink."""

    def __init__(
        self,
        tts: Tts,
        gate: TurnGate,
        sink: PieceSink,
        estimates: Estimates,
        recorder: Recorder,
        labels: Labels,
        *,
        voice: str,
        ahead_s: float,
    ) -> None:
        self._tts = tts
        self._gate = gate
        self._sink = sink
        self._estimates = estimates
        self._recorder = recorder
        self._labels = labels
        self._voice = voice
        self._ahead_s = ahead_s
        self._has_spoken = self._has_told = False
        self._unreadable: UnreadableError | None = None  # the first

    async def run(self, pieces: trio.MemoryReceiveChannel[TextPiece]) -> None:
        """Speak until the pieces end. Raises what `Tts.speak` raises, and `EngineFailedError`
        for a piece that stays without sound; `UnreadableError` only if no piece could be read.
        A cancel stops the engine (see its contract).
        """
        # The channel is not closed when a piece fails: its sender would get an error of its own,
        # beside the one that matters, before it is cancelled.
        async for piece in pieces:
            await self._sink.room(self._ahead_s)
            # A piece that fails is tried once more, with another seed, if nobody has heard
            # any of it. A hang or crash is not tried again: the answer ends at once.
            try:
                spoken = await self._speak(piece, seed=0) or await self._speak(piece, seed=1)
            except UnreadableError as error:
                self._skip(piece, error)
                continue
            if not spoken:
                raise EngineFailedError(
                    f"no sound for {piece.text!r}",
                    engine="tts",
                    reason="the voice made no sound",
                )
            self._has_spoken = True
            piece.spoken.set()
        if self._unreadable is not None and not self._has_spoken:
            raise self._unreadable
        self._sink.finish()

    def _skip(self, piece: TextPiece, error: UnreadableError) -> None:
        if not self._sink.drop():
            raise error  # it has been heard in part: something else is wrong
        self._note_unread(piece, whole=True)
        self._unreadable = self._unreadable or error
        piece.begun.set()  # nobody needs to wait for it
        piece.spoken.set()

    def _note_unread(self, piece: TextPiece, *, whole: bool) -> None:
        if not self._has_told:
            self._has_told = True
            log.warning(
                "answer %d: what the voice cannot read of %r is left out",
                self._labels.generation,
                piece.text.strip()[:60],
            )
        self._emit("tts.skipped", piece=piece.index, text=piece.text.strip(), whole=whole)

    async def _speak(self, piece: TextPiece, *, seed: int) -> bool:
        text = piece.text.strip()
        request = SpeechRequest(
            text=text,
            generation=self._labels.generation,
            piece=piece.index,
            cap_s=audio_cap_s(text),
            voice=self._voice,
            # One seed per answer, so that the voice does not change between its pieces.
            seed=2 * self._labels.generation + seed,
        )
        self._sink.begin(piece.index, piece.text)
        blocks = _Blocks(self._sink, self._recorder, self._labels, piece)
        self._emit("tts.start", piece=piece.index, text=text)
        try:
            async with self._gate.turn(
                "tts",
                board=self._labels.board,
                generation=self._labels.generation,
                urgency=self._labels.urgency,
            ) as hold:
                asked_at = trio.current_time()
                spoken = await self._tts.speak(request, blocks.take, hold)
                took_s = trio.current_time() - asked_at
        except UnreadableError:
            raise
        except EngineFailedError:
            if seed == 0 and self._sink.drop():
                return False
            raise
        if spoken.incomplete and spoken.audio_s > 0:
            self._note_unread(piece, whole=False)
        elif is_absurdly_short(text, spoken.audio_s) and self._sink.drop():
            return False
        piece.begun.set()
        self._sink.end()
        self._done(piece, spoken, blocks, asked_at, took_s)
        return True

    def _done(
        self,
        piece: TextPiece,
        spoken: Spoken,
        blocks: _Blocks,
        asked_at: float,
        took_s: float,
    ) -> None:
        self._emit(
            "tts.end",
            piece=piece.index,
            audio_ms=round(spoken.audio_s * 1000),
            capped=spoken.capped,
        )
        if blocks.first_at is not None and not spoken.capped and not spoken.incomplete:
            self._estimates.spoke(
                piece.text,
                audio_s=spoken.audio_s,
                first_block_s=blocks.first_at - asked_at,
                total_s=took_s,
            )

    def _emit(self, event: str, **fields: str | int | float | bool) -> None:
        self._recorder.emit(
            event, board=self._labels.board, generation=self._labels.generation, **fields
        )


class _Blocks:
    """The engine's callback for one piece: synchronous, into the sink and the trace."""

    def __init__(
        self, sink: PieceSink, recorder: Recorder, labels: Labels, piece: TextPiece
    ) -> None:
        self._sink = sink
        self._recorder = recorder
        self._labels = labels
        self._piece = piece
        self.first_at: float | None = None

    def take(self, pcm: bytes) -> None:
        if self.first_at is None:
            self.first_at = trio.current_time()
            # Not when it is asked for: after an error the second try goes before more text.
            self._piece.begun.set()
        self._recorder.emit(
            "pcm",
            board=self._labels.board,
            generation=self._labels.generation,
            piece=self._piece.index,
            audio_ms=round(len(pcm) / 2 / SPEECH_RATE_HZ * 1000, 1),
        )
        self._sink.block(pcm)
