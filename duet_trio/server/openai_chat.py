"""``/v1/chat/completions``: the language model alone, whole or streamed.

It takes turns with the voices of others like any writer: text comes in holds of
``llm.hold_tokens``. Thoughts and control tokens are left out; markdown stays, it is for eyes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal, cast

import trio
from quart import Response, jsonify, request
from quart_trio import QuartTrio

from duet_trio.engines.contracts import Message, WriteRequest
from duet_trio.errors import EngineError
from duet_trio.server.audio_response import refusal_of
from duet_trio.server.openai_chat_body import ChatBody, most_tokens, prompt_of
from duet_trio.server.site import DuetRequest, Site, request_body
from duet_trio.server.speak import read_json
from duet_trio.server.streamed import StreamedBody
from duet_trio.speech.tags import TagFilter


class ChatAnswer:
    """One completion; `run` writes, `parts` reads."""

    def __init__(self, site: Site, messages: Sequence[Message], most: int, client: str) -> None:
        self.generation = next(site.services.generations)
        self.finish: Literal["stop", "length"] = "stop"
        self.tokens = 0
        self.prompt_tokens = 0
        self.error: EngineError | None = None
        self._site = site
        self._messages = messages
        self._most = most
        self._client = client
        # Bounded by llm.max_tokens; so the engine's callback never has to wait.
        self._send, self._receive = trio.open_memory_channel[str](math.inf)

    async def run(self) -> None:
        """Write until the end. A fault is told by ``error``; a cancel stops the engine."""
        recorder = self._site.services.recorder
        question = self._messages[-1].content
        recorder.emit(
            "answer.start", generation=self.generation, question=question, client=self._client
        )
        outcome, cause = "aborted", "disconnect"
        try:
            with self._send:
                await self._write()
            outcome, cause = "done", ""
        except EngineError as error:
            self.error = error
            outcome, cause = "failed", error.reason
        finally:
            recorder.emit(
                "answer.end",
                generation=self.generation,
                outcome=outcome,
                cause=cause,
                heard="",
                client=self._client,
            )

    async def next_part(self) -> str | None:
        """The next bit of text; None at the end (then look at ``error``)."""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            return None

    async def _write(self) -> None:
        services, hold_tokens = self._site.services, self._site.config.llm.hold_tokens
        cleaner = TagFilter(await services.llm.control_tokens())
        stream = services.llm.start(self._messages, generation=self.generation)

        def take(text: str) -> bool:
            if not self.tokens:
                services.recorder.emit("llm.first", generation=self.generation)
            self._put(cleaner.feed(text))
            return True

        try:
            finished = False
            while not finished and self.tokens < self._most:
                limit = min(hold_tokens, self._most - self.tokens)
                async with self._site.gate.turn(
                    "llm", board=None, generation=self.generation, urgency=lambda: math.inf
                ) as hold:
                    written = await stream.write(WriteRequest(limit), take, hold)
                self.tokens += written.tokens
                self.prompt_tokens = max(self.prompt_tokens, written.prompt_tokens)
                finished = written.finished
            self.finish = "stop" if finished else "length"
            self._put(cleaner.feed("", final=True))
            services.recorder.emit("llm.end", generation=self.generation, tokens=self.tokens)
        finally:
            stream.close()

    def _put(self, text: str) -> None:
        if text:
            self._send.send_nowait(text)

    def usage(self) -> dict[str, int]:
        """Tokens, as far as the engine tells."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
        }


class ChatEvents(StreamedBody):
    """The answer as server-sent events; see `AudioBody`."""

    def __init__(self, answer: ChatAnswer, head: dict[str, Any], first: str | None, usage: bool):
        self._answer = answer
        self._head = head
        self._part = first
        self._usage = usage
        self._begun = False
        self._over = False

    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        if not self._begun:
            self._begun = True
            return self._event({"role": "assistant", "content": ""}, None)
        part = self._part if self._part is not None else await self._answer.next_part()
        self._part = None
        if part is not None:
            return self._event({"content": part}, None)
        self._over = True
        return self._end()

    def _end(self) -> bytes:
        if self._answer.error is not None:
            refusal = {"message": self._answer.error.reason, "type": "server_error"}
            return _line({"error": refusal})
        end = self._event({}, self._answer.finish)
        if self._usage:
            end += _line({**self._head, "choices": [], "usage": self._answer.usage()})
        return end + b"data: [DONE]\n\n"

    def _event(self, delta: dict[str, str], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _line({**self._head, "choices": [choice]})


def _line(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def add_routes(app: QuartTrio, site: Site, check: Callable[[str], None]) -> None:
    """The route. ``check`` refuses unknown models."""
    clients = count(1)

    @app.post("/v1/chat/completions")
    async def complete() -> Response:
        wanted: ChatBody = read_json(await request_body(), ChatBody)
        check(wanted.model)
        most = most_tokens(site, wanted)
        messages = prompt_of(site, wanted)
        answer = ChatAnswer(site, messages, most, f"v1-chat-{next(clients)}")
        cast(DuetRequest, request).nursery.start_soon(answer.run)
        first = await answer.next_part()
        if first is None and answer.error is not None:
            raise refusal_of(answer.error)
        head: dict[str, Any] = {
            "id": f"chatcmpl-{answer.generation}",
            "object": "chat.completion.chunk" if wanted.stream else "chat.completion",
            "created": int(time.time()),
            "model": wanted.model,
        }
        if wanted.stream:
            usage = wanted.stream_options is not None and wanted.stream_options.include_usage
            response = Response(b"", content_type="text/event-stream; charset=utf-8")
            response.response = ChatEvents(answer, head, first, usage)
            response.headers.pop("Content-Length", None)
            return response
        text = first or ""
        while (part := await answer.next_part()) is not None:
            text += part
        if answer.error is not None:
            raise refusal_of(answer.error)
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}
        return jsonify({**head, "choices": [choice], "usage": answer.usage()})
