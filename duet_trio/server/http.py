"""The HTTP side: where boards are sent, and how the server is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from quart import Response, jsonify, request
from quart_trio import QuartTrio

from duet_trio.config import Config
from duet_trio.engines.contracts import EngineStatus
from duet_trio.server.board_facts import FactStore
from duet_trio.server.boards import PATHS, Boards
from duet_trio.server.sockets import local_address
from duet_trio.wire import ota

MAX_BODY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Site:
    """What the handlers answer from."""

    config: Config
    boards: Boards
    facts: FactStore
    websocket_port: int
    statuses: Any  # Callable[[], Sequence[EngineStatus]]


def make_app(site: Site) -> QuartTrio:
    """The application with its routes; handlers are thin and never wait for an engine."""
    app = QuartTrio("duet_trio")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    # quart cuts a stream silently at this time (default 60 s); our streams have deadlines.
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.strict_slashes = False

    @app.route("/xiaozhi/ota/", methods=["GET", "POST"])
    async def boards_ask() -> Response | tuple[Response, int]:
        if request.method == "GET":
            return Response(
                f"duet-trio is here. Boards are sent to {_websocket_url(site)}\n",
                mimetype="text/plain",
            )
        asked = ota.parse_request(dict(request.headers), bytes(await request.body))
        site.facts.saw(asked)
        now = time.time()
        answer = ota.answer(
            websocket_url=_websocket_url(site),
            token=site.config.auth.token,
            timestamp_ms=int(now * 1000),
            timezone_offset_min=int(time.localtime(now).tm_gmtoff // 60),
        )
        return jsonify(answer)

    @app.get("/health")
    async def health() -> tuple[Response, int]:
        body, ready = health_of(site)
        return jsonify(body), 200 if ready else 503

    return app


def health_of(site: Site) -> tuple[dict[str, Any], bool]:
    """The body of ``/health``, and whether everything is ready."""
    statuses: list[EngineStatus] = list(site.statuses())
    ready = all(status.state in ("ready", "busy") for status in statuses)
    failed = any(status.state == "failed" for status in statuses)
    return {
        "status": "ok" if ready else "failed" if failed else "loading",
        "engines": {
            status.kind: {
                "state": status.state,
                "restarts": status.restarts,
                "detail": status.detail,
                **status.info,
            }
            for status in statuses
        },
        "boards": len(site.boards.sessions),
    }, ready


def _websocket_url(site: Site) -> str:
    """The address that a board is given: as configured, else as it reached *us*."""
    host = site.config.server.advertise or (request.host or "").rpartition(":")[0]
    host = host or request.host or local_address()
    if host.startswith("["):  # boards cannot parse IPv6
        host = local_address()
    return f"ws://{host}:{site.websocket_port}{PATHS[1]}"
