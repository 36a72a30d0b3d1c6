"""MCP over the board's channel, our side: the board is the MCP server, we are its client.

`McpClient` makes requests and takes replies; it sends nothing and knows no clock: times are
passed in (seconds, any monotonic origin), and the caller sends each `McpRequest`. Boards give
no reply at all to much that they do not like, and their error replies can be invalid JSON
(which arrives here as nothing), so every request has a deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duet_trio.wire.messages import McpRequest
from duet_trio.wire.tools import Tool, fit_arguments, read_tool

PROTOCOL_VERSION = "2024-11-05"
#: Bounds on what a peer can make us keep. Stock boards have up to some 20 tools on 2 pages.
MAX_TOOLS = 128
MAX_PAGES = 32
MAX_RESULT_LENGTH = 16_384
#: Longest wait for a reply to ``initialize``. Boards need no introduction, and some clients
#: answer it only if they are offered a photo service.
INTRODUCTION_S = 3.0


@dataclass(frozen=True, slots=True)
class Send:
    """Send this to the board now."""

    request: McpRequest


@dataclass(frozen=True, slots=True)
class Initialised:
    """The board has introduced itself (many do not need to be asked)."""

    server_name: str = ""
    server_version: str = ""


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """The list is as complete as it will be; ``complete`` is false if pages are missing."""

    tools: tuple[Tool, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The outcome of one `McpClient.call`: exactly one for each. ``text`` is for the model."""

    id: int
    tool: str
    text: str
    is_error: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class McpIgnored:
    """A reply of no use: unknown or late id, no id, a notification."""

    why: str


McpEvent = Send | Initialised | ToolsListed | ToolAnswered | McpIgnored


@dataclass(frozen=True, slots=True)
class _Pending:
    method: str
    deadline: float
    tool: str = ""


class McpClient:
    """Requests with numeric ids (boards ignore others), their replies and their deadlines.

    ``start`` once; then ``receive`` for every `McpReply` and ``expire`` at ``next_deadline``.
    Both return events; `Send` among them asks for a further request to be sent.
    ``vision``: address and token of a photo service, for boards with a camera.
    """

    def __init__(self, *, reply_s: float = 10.0, vision: tuple[str, str] | None = None) -> None:
        self._reply_s = reply_s
        self._vision = vision
        self._last_id = 0
        self._pending: dict[int, _Pending] = {}
        self._tools: dict[str, Tool] = {}  # by the board's name
        self._cursors: set[str] = set()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the board has listed so far, in its order. Nothing else can be called."""
        return tuple(self._tools.values())

    @property
    def next_deadline(self) -> float | None:
        """When to call `expire` at the latest; ``None``: nothing is awaited."""
        return min((p.deadline for p in self._pending.values()), default=None)

    def tool(self, name: str) -> Tool | None:
        """A listed tool by either of its names."""
        if name in self._tools:
            return self._tools[name]
        return next((t for t in self._tools.values() if t.safe_name == name), None)

    def start(self, now: float) -> McpRequest:
        """``initialize``. Its reply, or the lack of one, leads on to the list of tools."""
        capabilities: dict[str, Any] = {}
        if self._vision is not None:
            capabilities["vision"] = {"url": self._vision[0], "token": self._vision[1]}
        return self._request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": capabilities,
                "clientInfo": {"name": "duet-trio", "version": "1"},
            },
            now,
            reply_s=min(self._reply_s, INTRODUCTION_S),
        )

    def list_tools(self, now: float) -> McpRequest:
        """``tools/list`` from the beginning; what was listed before is forgotten."""
        self._tools.clear()
        self._cursors.clear()
        for id, pending in list(self._pending.items()):
            if pending.method == "tools/list":
                del self._pending[id]
        return self._request("tools/list", {"cursor": ""}, now)

    def call(
        self, name: str, arguments: Mapping[str, Any], now: float, *, reply_s: float | None = None
    ) -> tuple[int, McpRequest]:
        """``tools/call`` by either name: the id to wait for, and what to send.

        Raises `ValueError`, in words for the model, for a tool that was not listed (boards
        have hidden ones, such as reboot, that answer to their name) and for arguments that do
        not fit; numbers written as text are converted.
        """
        tool = self.tool(name)
        if tool is None:
            raise ValueError(f"there is no tool '{name[:64]}'")
        params = {"name": tool.name, "arguments": fit_arguments(tool, arguments)}
        request = self._request("tools/call", params, now, tool=tool.name, reply_s=reply_s)
        return self._last_id, request

    def forget(self, id: int) -> None:
        """Nobody waits for this call any more; a reply to it will be ignored."""
        self._pending.pop(id, None)

    def receive(self, payload: Mapping[str, Any], now: float) -> list[McpEvent]:
        """Take one payload, whatever it is. Never raises."""
        id = payload.get("id")
        if isinstance(id, float) and id.is_integer():
            id = int(id)
        if isinstance(id, bool) or not isinstance(id, int):
            return [McpIgnored("no numeric id")]
        pending = self._pending.get(id)
        if pending is None or "method" in payload:
            return [McpIgnored(f"nothing is awaited under id {id}")]
        del self._pending[id]
        result, error = payload.get("result"), payload.get("error")
        if pending.method == "tools/call":
            return [_answered(id, pending.tool, result, error)]
        if pending.method == "initialize":
            return [_introduced(result), Send(self.list_tools(now))]
        return self._listed(result, now)

    def expire(self, now: float) -> list[McpEvent]:
        """Give up what is overdue. A board that never answers still gets asked for its tools."""
        events: list[McpEvent] = []
        for id, pending in list(self._pending.items()):
            if pending.deadline > now or id not in self._pending:
                continue
            del self._pending[id]
            if pending.method == "initialize":
                events.append(Send(self.list_tools(now)))
            elif pending.method == "tools/list":
                events.append(ToolsListed(self.tools, complete=False))
            else:
                text = "the device did not answer"
                events.append(ToolAnswered(id, pending.tool, text, is_error=True, timed_out=True))
        return events

    def _request(
        self,
        method: str,
        params: dict[str, Any],
        now: float,
        *,
        tool: str = "",
        reply_s: float | None = None,
    ) -> McpRequest:
        self._last_id += 1
        wait_s = self._reply_s if reply_s is None else reply_s
        self._pending[self._last_id] = _Pending(method, now + wait_s, tool)
        return McpRequest(
            payload={"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        )

    def _listed(self, result: object, now: float) -> list[McpEvent]:
        entries = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(entries, list):
            return [ToolsListed(self.tools, complete=False)]
        for entry in entries[:MAX_TOOLS]:
            tool = read_tool(entry, (t.safe_name for t in self._tools.values()))
            if tool and tool.name not in self._tools and len(self._tools) < MAX_TOOLS:
                self._tools[tool.name] = tool
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return [ToolsListed(self.tools)]
        if cursor in self._cursors or len(self._cursors) + 1 >= MAX_PAGES:
            return [ToolsListed(self.tools, complete=False)]
        self._cursors.add(cursor)
        return [Send(self._request("tools/list", {"cursor": cursor}, now))]


def _introduced(result: object) -> Initialised:
    info = result.get("serverInfo") if isinstance(result, dict) else None
    if not isinstance(info, dict):
        return Initialised()
    name, version = info.get("name"), info.get("version")
    return Initialised(
        name if isinstance(name, str) else "", version if isinstance(version, str) else ""
    )


def _answered(id: int, tool: str, result: object, error: object) -> ToolAnswered:
    if not isinstance(result, dict):
        message = error.get("message") if isinstance(error, dict) else error
        text = message if isinstance(message, str) and message else "the device refused"
        return ToolAnswered(id, tool, text[:MAX_RESULT_LENGTH], is_error=True)
    content = result.get("content")
    parts = [_part(item) for item in content] if isinstance(content, list) else []
    text = "\n".join(part for part in parts if part)[:MAX_RESULT_LENGTH]
    return ToolAnswered(id, tool, text, is_error=result.get("isError") is True)


def _part(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    text = item.get("text")
    if isinstance(text, str):
        return text
    return "[image]" if item.get("type") == "image" else ""
