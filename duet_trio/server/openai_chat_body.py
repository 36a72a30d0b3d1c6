"""What ``/v1/chat/completions`` is asked, and what of it can be done here."""

from __future__ import annotations

from typing import Any

import msgspec

from duet_trio.engines.contracts import Message, Role
from duet_trio.server.site import RefusalError, Site

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class ChatLine(msgspec.Struct, frozen=True):
    """One message; ``content`` may come in parts of type ``text``."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    """``stream_options``."""

    include_usage: bool = False


class ChatBody(msgspec.Struct, frozen=True):
    """``POST /v1/chat/completions``. Sampling is configured on the server, not per request."""

    model: str
    messages: list[ChatLine]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1
    tools: list[Any] | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None


def most_tokens(site: Site, wanted: ChatBody) -> int:
    """Most tokens of the answer. Raises `RefusalError` for what we cannot do."""
    most = wanted.max_completion_tokens or wanted.max_tokens
    for name in ("tools", "stop", "response_format"):
        value = getattr(wanted, name)
        if value and value != {"type": "text"}:
            raise RefusalError(400, f"'{name}' is not supported", code="unsupported", param=name)
    if wanted.n not in (None, 1):
        raise RefusalError(400, "one choice at a time", code="unsupported", param="n")
    if most is not None and most < 1:
        raise RefusalError(400, "at least one token", param="max_tokens")
    ours = site.config.llm.max_tokens
    return min(most, ours) if most else ours


def prompt_of(site: Site, wanted: ChatBody) -> list[Message]:
    """The messages for the model: nothing empty, equal roles joined. Raises `RefusalError`."""
    messages: list[Message] = []
    for index, line in enumerate(wanted.messages):
        where = f"messages[{index}]"
        role = _ROLES.get(line.role)
        if role is None:
            raise RefusalError(400, "system, user or assistant", param=f"{where}.role")
        text = _content(line.content, where)
        if not text.strip():
            continue  # models choke on empty ones
        if messages and messages[-1].role == role:
            messages[-1] = Message(role, f"{messages[-1].content}\n{text}")
        else:
            messages.append(Message(role, text))
    if not messages or messages[-1].role == "system":
        raise RefusalError(400, "there is nothing to answer", param="messages")
    if sum(len(message.content) for message in messages) > site.config.server.max_text:
        raise RefusalError(
            413,
            f"longer than {site.config.server.max_text} characters (server.max_text)",
            code="context_length_exceeded",
            param="messages",
        )
    return messages


def _content(content: str | list[dict[str, Any]] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise RefusalError(400, "only text", code="unsupported", param=f"{where}.content")
        texts.append(part["text"])
    return "".join(texts)
