"""A language model elsewhere: ``POST /chat/completions``, streamed.

An answer is one response, read step by step: not reading is the pause, and TCP tells the server
when it has run ahead of us by more than the buffers hold. Closing the connection is the cancel;
servers stop writing when they notice (vLLM, llama.cpp's server and Ollama do).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from duet_trio.config import LlmSection
from duet_trio.engines.client import CHARACTERS_PER_TOKEN
from duet_trio.engines.contracts import Hold, Message, WriteRequest, Written
from duet_trio.engines.remote.exchange import BrokenOffError, Exchange
from duet_trio.engines.remote.service import RemoteService, Watch
from duet_trio.errors import EngineFailedError

EVENTS = ("text/event-stream",)


class RemoteLlm:
    """`contracts.Llm`."""

    def __init__(self, service: RemoteService, section: LlmSection) -> None:
        self._service = service
        self._section = section

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    def start(self, messages: Sequence[Message], *, generation: int) -> RemoteStream:
        """Begin an answer; nothing is sent before the first ``write``."""
        return RemoteStream(self._service, self._section, tuple(messages))

    async def control_tokens(self) -> Sequence[str]:
        """The server keeps its template to itself; it also takes the tokens out."""
        await self._service.wait_ready()
        return ()


class RemoteStream:
    """`contracts.LlmStream`."""

    def __init__(
        self, service: RemoteService, section: LlmSection, messages: tuple[Message, ...]
    ) -> None:
        self._service = service
        self._section = section
        self._messages = messages
        self._exchange: Exchange | None = None
        self._prompt_tokens = 0
        self._over = False

    async def write(
        self,
        request: WriteRequest,
        on_text: Callable[[str], bool],
        hold: Hold | None = None,
    ) -> Written:
        """Write on (see the contract). An event with text counts as a token."""
        whole = False
        try:
            written = await self._service.call(lambda: self._write(request, on_text))
            whole = True
            return written
        finally:
            if not whole:
                self.close()

    def close(self) -> None:
        """Hang up (synchronous, at any time, more than once)."""
        self._over = True
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    async def _write(self, request: WriteRequest, on_text: Callable[[str], bool]) -> Written:
        tokens = 0

        async def read() -> bool:
            nonlocal tokens
            if self._exchange is None:
                if self._over:
                    raise BrokenOffError("the answer is over")
                self._exchange = await self._service.open(
                    "/chat/completions", "application/json", self._body()
                )
                if self._exchange.content_type not in EVENTS:
                    raise self._service.unusable(self._exchange.content_type or "no type")
            while tokens < request.max_tokens:
                text = await self._next_text(self._exchange)
                if text is None:
                    return True
                watch.progress(self._section.stall_s)
                tokens += 1
                if not on_text(text):
                    return False
            return False

        watch = Watch(self._service, self._first_s())
        try:
            finished = await watch.over(read)
        except BrokenOffError as error:
            raise self._service.failed(error) from None
        if finished:
            self.close()
        return Written(tokens, finished, self._prompt_tokens)

    def _first_s(self) -> float:
        if self._exchange is not None:
            return self._section.stall_s
        characters = sum(len(message.content) for message in self._messages)
        per_200 = self._section.first_per_200_tokens_s
        return self._section.first_s + per_200 * characters / CHARACTERS_PER_TOKEN / 200

    def _body(self) -> bytes:
        section = self._section
        body = {
            "model": section.model,
            "messages": [{"role": one.role, "content": one.content} for one in self._messages],
            "stream": True,
            "max_tokens": section.max_tokens,
            "temperature": section.temperature,
        }
        return json.dumps(body).encode()

    async def _next_text(self, exchange: Exchange) -> str | None:
        """The next bit of text; None at the end of the answer."""
        while True:
            line = await exchange.read_line()
            if line is None:
                raise BrokenOffError("the stream ended before the answer did")
            if not line.startswith(b"data:"):
                continue  # comments, event names, empty lines
            data = line[5:].strip()
            if data == b"[DONE]":
                return None
            text, finished = self._event(data)
            if text:
                return text
            if finished:
                return None

    def _event(self, data: bytes) -> tuple[str, bool]:
        """One event's text, and whether it ends the answer."""
        try:
            event = json.loads(data)
            if event.get("error"):
                raise EngineFailedError(
                    f"llm: {event['error']}",
                    engine="llm",
                    reason="the language model reported an error",
                )
            usage = event.get("usage") or {}
            self._prompt_tokens = int(usage.get("prompt_tokens") or self._prompt_tokens)
            choice = event["choices"][0] if event.get("choices") else {}
            text = (choice.get("delta") or {}).get("content") or ""
            return str(text), bool(choice.get("finish_reason"))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise self._service.unusable(f"an event that cannot be read: {data[:80]!r}") from None
