"""The three engine contracts over a supervised worker: `AsrClient`, `LlmClient`, `TtsClient`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from duet_trio.config import AsrSection, LlmSection, TtsSection
from duet_trio.engines.cap import BYTES_PER_S
from duet_trio.engines.client_job import ClientJob
from duet_trio.engines.contracts import (
    Hold,
    ListenRequest,
    Message,
    SpeechRequest,
    Spoken,
    Transcript,
    WriteRequest,
    Written,
)
from duet_trio.engines.deadline import Deadline
from duet_trio.engines.gpu_turn import Stay
from duet_trio.engines.link import SequenceLostError
from duet_trio.engines.pipe import SpeakJob, TranscribeJob, WriteJob
from duet_trio.engines.supervisor import EngineService
from duet_trio.engines.words import failed, unavailable
from duet_trio.errors import UsageError

#: Prompts are measured in characters here; English has about 4 a token, others fewer. Only for
#: the deadline, so it errs towards more time.
CHARACTERS_PER_TOKEN = 3
#: Output beyond these is a flood. A token's text is rarely above 20 bytes; a voice's blocks are
#: cut at the cap by the worker, the rest is room for many small blocks.
BYTES_PER_TOKEN = 128
SPARE_TOKENS = 64
AUDIO_SPARE = 1.5


class AsrClient:
    """`contracts.Asr` over a worker."""

    def __init__(self, service: EngineService, section: AsrSection) -> None:
        self._service = service
        self._deadline_s = section.deadline_s

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    async def transcribe(self, request: ListenRequest) -> Transcript:
        """Recognise one utterance; real ones go before speculative ones in the queue."""

        def build(number: int, _life: int) -> TranscribeJob:
            return TranscribeJob(number, request.pcm, request.language, request.inject)

        job = ClientJob(
            build,
            expects=Transcript,
            item=None,
            deadline=Deadline(self._deadline_s, total_s=self._deadline_s),
            budget=SPARE_TOKENS,
            inject=request.inject,
            board=request.board,
            priority=1 if request.speculative else 0,
        )
        result = await self._service.call(job)
        assert isinstance(result, Transcript)
        return result


class LlmClient:
    """`contracts.Llm` over a worker."""

    def __init__(self, service: EngineService, section: LlmSection) -> None:
        self._service = service
        self._section = section
        self._streams = itertools.count(1)

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    def start(self, messages: Sequence[Message], *, generation: int) -> ClientStream:
        """Begin an answer; nothing is sent before the first ``write``."""
        return ClientStream(
            self._service, self._section, next(self._streams), tuple(messages), generation
        )

    async def control_tokens(self) -> Sequence[str]:
        """Wait for the engine, then its template's control tokens.

        Raises `EngineUnavailableError` when it never will be ready.
        """
        try:
            await self._service.wait_ready()
        except UsageError as error:
            raise unavailable("llm", str(error)) from None
        return tuple(self._service.control_tokens)


class ClientStream:
    """`contracts.LlmStream`: one answer's text, and what is needed to begin it anew.

    The prompt goes out with the first step, and again, followed by the text so far, whenever
    the worker cannot know the stream as we do: after a restart, after a step that was cancelled
    or failed (the worker is ahead of us by text that nobody got), and when it says that the
    sequence was lost.
    """

    def __init__(
        self,
        service: EngineService,
        section: LlmSection,
        number: int,
        messages: tuple[Message, ...],
        generation: int,
    ) -> None:
        self._service = service
        self._section = section
        self._number = number
        self._messages = messages
        self._generation = generation
        self._written = ""
        self._life = 0  # the worker that has seen this stream last
        self._in_step = False  # … and is exactly as far as we are

    async def write(
        self,
        request: WriteRequest,
        on_text: Callable[[str], bool],
        hold: Hold | None = None,
    ) -> Written:
        """Write on (see the contract)."""
        try:
            return await self._step(request, on_text, hold)
        except SequenceLostError:
            self._in_step = False
        try:
            return await self._step(request, on_text, hold)
        except SequenceLostError as error:
            raise failed("llm", f"{error}, although the prompt was sent") from None

    def close(self) -> None:
        """Forget this answer; synchronous, at any time, more than once."""
        if self._life:
            self._service.close_stream(self._number, self._life)
        self._life = 0
        self._in_step = False

    async def _step(
        self, request: WriteRequest, on_text: Callable[[str], bool], hold: Hold | None
    ) -> Written:
        wanted = True

        def take(text: str) -> None:
            nonlocal wanted
            self._written += text
            if not on_text(text) and wanted:
                wanted = False
                self._service.pause(job)

        job = self._job(request, take, hold)
        result = await self._service.call(job)
        assert isinstance(result, Written)
        self._in_step = True
        if isinstance(hold, Stay):
            hold.reevaluated_tokens += result.reevaluated_tokens
        return result

    def _job(
        self, request: WriteRequest, on_text: Callable[[str], None], hold: Hold | None
    ) -> ClientJob:
        def build(number: int, life: int) -> WriteJob:
            known = self._in_step and life == self._life
            self._life = life
            self._in_step = False  # until this step has ended well
            return WriteJob(
                number,
                self._number,
                request.max_tokens,
                None if known else list(self._messages),
                "" if known else self._written,
                request.inject,
            )

        return ClientJob(
            build,
            expects=Written,
            item=str,
            on_item=on_text,
            deadline=self._deadline(),
            budget=(request.max_tokens + SPARE_TOKENS) * BYTES_PER_TOKEN,
            hold=hold,
            inject=request.inject,
            generation=self._generation,
        )

    def _deadline(self) -> Deadline:
        # A later step may have to be evaluated again from the start, in the worker's own
        # judgement: it gets the prompt's share of time, but not the first step's 10 s.
        section = self._section
        characters = sum(len(message.content) for message in self._messages) + len(self._written)
        prompt_s = section.first_per_200_tokens_s * characters / CHARACTERS_PER_TOKEN / 200
        first_s = section.stall_s if self._in_step else section.first_s
        return Deadline(first_s + prompt_s, stall_s=section.stall_s)


class TtsClient:
    """`contracts.Tts` over a worker."""

    def __init__(self, service: EngineService, section: TtsSection) -> None:
        self._service = service
        self._section = section

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    async def speak(
        self,
        request: SpeechRequest,
        on_block: Callable[[bytes], None],
        hold: Hold | None = None,
    ) -> Spoken:
        """Speak one piece (see the contract)."""

        def build(number: int, _life: int) -> SpeakJob:
            return SpeakJob(
                number,
                request.text,
                request.generation,
                request.piece,
                request.cap_s,
                request.voice,
                request.seed,
                request.inject,
            )

        section = self._section
        job = ClientJob(
            build,
            expects=Spoken,
            item=bytes,
            on_item=on_block,
            deadline=Deadline(
                section.first_s,
                stall_s=section.stall_s,
                total_s=section.piece_s + section.piece_per_audio * request.cap_s,
            ),
            budget=int((request.cap_s + 1.0) * BYTES_PER_S * AUDIO_SPARE),
            hold=hold,
            inject=request.inject,
            generation=request.generation,
        )
        result = await self._service.call(job)
        assert isinstance(result, Spoken)
        return result
