"""What the HTTP handlers answer from, and how they say that something is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import trio
from quart import Response, jsonify, request
from quart_trio.wrappers import TrioRequest

from duet_trio.config import Config
from duet_trio.engines.contracts import EngineStatus
from duet_trio.server.board_facts import FactStore
from duet_trio.server.boards import Boards
from duet_trio.server.metrics import Metrics
from duet_trio.server.security import Access, Peer
from duet_trio.server.speak_gate import PoliteGate
from duet_trio.session.services import Services


class Turnstile:
    """Lets HTTP work through one at a time, with a turn of the event loop in between.

    Fifty programs whose audio comes in the same moment are 40 ms of work; done in one go, every
    board's packet would be that late. (A lock passes to the next in line in the next turn.)
    """

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def through(self) -> None:
        """Wait for a turn; first come, first served. A checkpoint."""
        async with self._lock:
            await trio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class Site:
    """One server, as the handlers see it. ``gate``: HTTP answers pass it to reach an engine."""

    config: Config
    services: Services
    boards: Boards
    facts: FactStore
    access: Access
    metrics: Metrics
    gate: PoliteGate
    websocket_port: int
    statuses: Callable[[], Sequence[EngineStatus]]
    turnstile: Turnstile = field(default_factory=Turnstile)


class DuetRequest(TrioRequest):
    """A request with a nursery: what it starts ends with it, and when its client goes away."""

    nursery: trio.Nursery

    @property
    def peer(self) -> Peer:
        """Where it comes from."""
        client = self.scope.get("client") or ("", 0)
        server = self.scope.get("server") or ("", 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Peer(str(client[0]), str(server[0]), headers)


async def request_body() -> bytes:
    """The body of the request that is being handled, within the limits of size and time.

    (Not ``await request.body``: that one waits for ever.)
    """
    return bytes(cast(bytes, await request.get_data()))


class RefusalError(Exception):
    """An answer that is no success; its text is for people.

    The body has the shape that clients of the OpenAI API read:
    ``{"error": {"message", "type", "param", "code"}}``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        param: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers or {}

    def response(self) -> Response:
        """As it is sent."""
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        body: dict[str, Any] = {
            "message": without_paths(str(self)),
            "type": kind.get(
                self.status, "invalid_request_error" if self.status < 500 else "server_error"
            ),
            "param": self.param or None,
            "code": self.code or None,
        }
        response: Response = jsonify({"error": body})
        response.status_code = self.status
        response.headers.update(self.headers)
        return response


_PATH = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\",;()]+[\\/])+")


def without_paths(text: str) -> str:
    """The text with ``…/`` for the folders of absolute paths: they are nobody's business."""
    return _PATH.sub("…/", text)
