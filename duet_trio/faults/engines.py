"""The engine contracts with faults in them: each request is told which fault to commit.

The fault itself is committed in the worker, by the code around its adapter (``engines.injected``),
so that pipes, deadlines and restarts see the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from duet_trio.engines.contracts import (
    Asr,
    Hold,
    ListenRequest,
    Llm,
    LlmStream,
    Message,
    SpeechRequest,
    Spoken,
    Transcript,
    Tts,
    WriteRequest,
    Written,
)

if TYPE_CHECKING:
    from duet_trio.faults.hub import Faults, Watch


class FaultyAsr:
    """`contracts.Asr`."""

    def __init__(self, asr: Asr, faults: Faults) -> None:
        self._asr = asr
        self._faults = faults

    @property
    def slots(self) -> int:
        """As the engine's."""
        return self._asr.slots

    async def transcribe(self, request: ListenRequest) -> Transcript:
        """Recognise, perhaps with a fault."""
        inject = self._faults.injection("asr.call", [], None, request.board or "", "")
        return await self._asr.transcribe(replace(request, inject=inject))


class FaultyLlm:
    """`contracts.Llm`."""

    def __init__(self, llm: Llm, faults: Faults) -> None:
        self._llm = llm
        self._faults = faults

    @property
    def slots(self) -> int:
        """As the engine's."""
        return self._llm.slots

    def start(self, messages: Sequence[Message], *, generation: int) -> FaultyStream:
        """Begin an answer."""
        stream = self._llm.start(messages, generation=generation)
        question = messages[-1].content if messages else ""
        return FaultyStream(stream, self._faults, generation, question)

    async def control_tokens(self) -> Sequence[str]:
        """As the engine's."""
        return await self._llm.control_tokens()


class FaultyStream:
    """`contracts.LlmStream`; ``match`` of a fault is looked for in the question."""

    def __init__(self, stream: LlmStream, faults: Faults, generation: int, question: str) -> None:
        self._stream = stream
        self._faults = faults
        self._generation = generation
        self._question = question

    async def write(
        self,
        request: WriteRequest,
        on_text: Callable[[str], bool],
        hold: Hold | None = None,
    ) -> Written:
        """Write on, perhaps with a fault."""
        faults, generation = self._faults, self._generation
        board = faults.board_of(generation)
        watches = faults.armed("llm.token", generation, board, self._question)
        inject = faults.injection("llm.piece", watches, generation, board, self._question)

        def count(text: str) -> bool:
            note_output(watches)
            return on_text(text)

        return await self._stream.write(replace(request, inject=inject), count, hold)

    def close(self) -> None:
        """Forget this answer."""
        self._stream.close()


class FaultyTts:
    """`contracts.Tts`; ``match`` of a fault is looked for in the piece's text."""

    def __init__(self, tts: Tts, faults: Faults) -> None:
        self._tts = tts
        self._faults = faults

    @property
    def slots(self) -> int:
        """As the engine's."""
        return self._tts.slots

    async def speak(
        self,
        request: SpeechRequest,
        on_block: Callable[[bytes], None],
        hold: Hold | None = None,
    ) -> Spoken:
        """Speak a piece, perhaps with a fault."""
        faults, generation = self._faults, request.generation
        board = faults.board_of(generation)
        watches = faults.armed("tts.block", generation, board, request.text)
        inject = faults.injection("tts.start", watches, generation, board, request.text)

        def count(pcm: bytes) -> None:
            note_output(watches)
            on_block(pcm)

        return await self._tts.speak(replace(request, inject=inject), count, hold)


def note_output(watches: Sequence[Watch]) -> None:
    """One more output has come: what it counts for, and whose moment it was."""
    for watch in watches:
        watch.seen += 1
        if watch.seen == watch.fault.nth:
            watch.commit()
