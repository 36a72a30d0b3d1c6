"""The language model: llama.cpp, several answers alternating on one model.

A stream (one answer) is its tokens plus a sampler; `LlamaRuntime` computes, `SequenceTable`
says where. Invariant between steps: a stream's last token has been given out as text but not
been evaluated; a step begins by evaluating what is missing. So nothing depends on logits that
another stream's step has overwritten, and a stream that lost its sequence is simply evaluated
again.
"""

from __future__ import annotations

import codecs
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from duet_trio.engines.adapter import Flag, Loaded, SequenceLostError
from duet_trio.engines.adapters.llama_native import (
    CHUNK_TOKENS,
    WHAT,
    LlamaRuntime,
    StoppedError,
)
from duet_trio.engines.adapters.llama_prompt import ChatPrompt, is_thought_mark, speakable_marks
from duet_trio.engines.adapters.llama_sampler import Sampler
from duet_trio.engines.adapters.llama_sequences import SequenceTable, Slot, common_prefix
from duet_trio.engines.contracts import Message, Written
from duet_trio.engines.pipe import WriteJob
from duet_trio.errors import ConfigError, EngineFailedError
from duet_trio.models.paths import locate, require

_MARGIN_TOKENS = 16
_STREAMS = 64  # forgotten beyond that, oldest first: somebody did not close theirs
_CPU_STEP_MS = 10.0  # abort callback: 8 ms measured in mid-prompt
_GPU_STEP_MS = 500.0  # the callback is only asked on the CPU: one chunk or token is the step


@dataclass(slots=True)
class _Stream:
    tokens: list[int]
    prompt_tokens: int
    sampler: Sampler
    utf8: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("ignore")
    )
    finished: bool = False


class LlamaAdapter:
    """See `duet_trio.engines.adapter.LlmAdapter`."""

    def __init__(self) -> None:
        self._streams: OrderedDict[int, _Stream] = OrderedDict()
        self._runtime: LlamaRuntime | None = None

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Load the GGUF and evaluate the system prompt in every sequence.

        `ConfigError` for a model without chat template or a context that is too small.
        """
        path = require(locate("llm", settings["model"]), WHAT)
        self._temperature = float(settings["temperature"])
        self._runtime = runtime = LlamaRuntime(
            path,
            context=settings["context"],
            sequences=settings["sequences"],
            threads=settings["threads"],
            gpu_layers=settings["gpu_layers"],
            swa_full=settings["swa_full"],
        )
        self._limit = runtime.context - settings["max_tokens"] - _MARGIN_TOKENS
        if self._limit < 2 * _MARGIN_TOKENS:
            raise ConfigError(
                f"llm.context: {runtime.context} tokens leave no room for a prompt beside "
                f"llm.max_tokens = {settings['max_tokens']}; raise the one or lower the other"
            )
        template = runtime.chat_template()
        if not template:
            raise ConfigError(
                f"llm.model: {path} carries no chat template (a base model?); use an instruct model"
            )
        special = runtime.special_tokens()
        marks = speakable_marks(special.values(), template)
        self._thought_marks = {t for t, text in special.items() if is_thought_mark(text)}
        self._marks = {text: token for token, text in special.items()}
        self._prompt = _chat_prompt(runtime, template, marks)
        self._table = SequenceTable(runtime.sequences)
        self._prefill(settings["system_prompt"])
        return Loaded(
            longest_step_ms=_GPU_STEP_MS if settings["gpu_layers"] else _CPU_STEP_MS,
            info={
                "model": path.name,
                "description": runtime.description(),
                "context": f"{runtime.sequences} x {runtime.context}",
            },
            control_tokens=marks,
        )

    def cancel_now(self) -> None:
        """End the evaluation that runs (command thread)."""
        if self._runtime is not None:
            self._runtime.switch.throw()

    def close_stream(self, stream: int) -> None:
        """Forget a stream; its sequence stays warm for the next turn of the conversation."""
        known = self._streams.pop(stream, None)
        if known is not None:
            known.sampler.close()
        self._table.release(stream)

    def write(
        self,
        job: WriteJob,
        emit_text: Callable[[str], None],
        should_pause: Flag,
        cancelled: Flag,
    ) -> Written:
        """Write on in one stream (see the protocol). A cancel leaves the stream usable."""
        runtime = self._loaded
        runtime.switch.reset()
        if cancelled():
            return Written(0, finished=False)
        stream = self._stream(job)
        slot, twice = self._seat(job.stream, stream)
        count = 0
        while not stream.finished and count < job.max_tokens:
            if len(stream.tokens) >= runtime.context:
                stream.finished = True
                break
            try:
                self._catch_up(slot, stream.tokens, cancelled)
            except StoppedError:
                break
            token = stream.sampler.sample()
            if runtime.is_end(token):
                stream.finished = True
                break
            stream.tokens.append(token)
            count += 1
            text = self._text(stream, token)
            if text:
                emit_text(text)
            if should_pause() or cancelled():
                break
        return Written(
            count,
            finished=stream.finished,
            prompt_tokens=stream.prompt_tokens if job.messages is not None else 0,
            reevaluated_tokens=twice,
        )

    def close(self) -> None:
        """Free the model (tests; a worker simply ends)."""
        for number in list(self._streams):
            self.close_stream(number)
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    @property
    def _loaded(self) -> LlamaRuntime:
        if self._runtime is None:
            raise EngineFailedError("llm: not loaded", engine="llm")
        return self._runtime

    def _stream(self, job: WriteJob) -> _Stream:
        if job.messages is None:
            if job.stream not in self._streams:
                raise SequenceLostError
            self._streams.move_to_end(job.stream)
            return self._streams[job.stream]
        self.close_stream(job.stream)
        while len(self._streams) >= _STREAMS:
            self.close_stream(next(iter(self._streams)))
        tokens = self._tokens(self._prompt.fitting(job.messages, self._limit))
        prompt_tokens = len(tokens)
        if job.written:
            tokens += self._loaded.tokenize(job.written, special=False)
        sampler = self._loaded.sampler(self._temperature, seed=job.stream)
        stream = _Stream(tokens, prompt_tokens, sampler)
        self._streams[job.stream] = stream
        return stream

    def _seat(self, number: int, stream: _Stream) -> tuple[Slot, int]:
        """The stream's slot, holding only what is the stream's own; tokens to compute again."""
        # The last token is always evaluated anew: its logits are needed.
        wanted = stream.tokens[:-1]
        before = self._table.computed_before(wanted)
        slot = self._table.take(number, wanted)
        self._keep(slot, common_prefix(slot.tokens, wanted))
        return slot, before - len(slot.tokens)

    def _keep(self, slot: Slot, keep: int) -> None:
        if keep < len(slot.tokens):
            self._table.cut(slot, self._loaded.truncate(slot.index, keep))

    def _catch_up(self, slot: Slot, tokens: Sequence[int], cancelled: Flag) -> None:
        """Evaluate what the slot lacks of ``tokens``; after a stop it holds whole chunks."""
        while len(slot.tokens) < len(tokens):
            if cancelled():
                raise StoppedError
            done = len(slot.tokens)
            chunk = tokens[done : done + CHUNK_TOKENS]
            try:
                self._loaded.evaluate(slot.index, chunk, done)
            except (StoppedError, EngineFailedError):
                self._table.cut(slot, self._loaded.truncate(slot.index, done))
                raise
            slot.tokens.extend(chunk)

    def _text(self, stream: _Stream, token: int) -> str:
        special = token in self._thought_marks
        return stream.utf8.decode(self._loaded.piece(token, special=special))

    def _tokens(self, text: str) -> list[int]:
        return self._loaded.tokenize(text, special=True)

    def _prefill(self, system_prompt: str) -> None:
        """Evaluate what all prompts begin with, in every sequence: also warms the model up."""
        prompts = [
            self._tokens(
                self._prompt.text([Message("system", system_prompt), Message("user", question)])
            )
            for question in ("Why?", "Hello there")
        ]
        shared = prompts[0][: common_prefix(*prompts)][: self._limit]
        for slot in self._table.slots:
            self._catch_up(slot, shared, lambda: False)


def _chat_prompt(runtime: LlamaRuntime, template: str, marks: Sequence[str]) -> ChatPrompt:
    import jinja2
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    bos, eos, needs_bos = runtime.boundary_tokens()
    formatter = Jinja2ChatFormatter(template=template, eos_token=eos, bos_token=bos)

    def render(messages: Sequence[Message]) -> str:
        parts: list[Any] = [{"role": m.role, "content": m.content} for m in messages]
        text: str = formatter(messages=parts).prompt
        return bos + text if needs_bos and not text.startswith(bos) else text

    return ChatPrompt(
        render,
        count=lambda text: len(runtime.tokenize(text, special=True)),
        control_tokens=marks,
        refusals=(jinja2.TemplateError, ValueError),
    )
