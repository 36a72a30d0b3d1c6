"""The start page: what runs here, how a board is pointed here, and a box to hear the voice.

One file, no build step, nothing from another host. Scripts run only with the nonce of this
response, and whatever the page shows of boards goes in as text, never as markup.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import Any

import trio
from quart import Response, jsonify, request
from quart_trio import QuartTrio

from duet_trio import __version__
from duet_trio.server.containers import FORMATS
from duet_trio.server.site import Site, without_paths
from duet_trio.wire.transitions import State

_POLICY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}';"
    " connect-src 'self'; media-src 'self' blob:; img-src 'self' data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)


@cache
def _page() -> str:
    return Path(__file__).with_name("start_page.html").read_text(encoding="utf-8")


def add_routes(app: QuartTrio, site: Site) -> None:
    """``GET /`` and the ``GET /status`` that it asks."""

    @app.get("/")
    async def start() -> Response:
        nonce = secrets.token_urlsafe(12)
        response = Response(_page().replace("{{nonce}}", nonce), mimetype="text/html")
        response.headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
        return response

    @app.get("/favicon.ico")
    async def icon() -> Response:
        return Response(b"", status=204)

    @app.get("/status")
    async def status() -> Response:
        return jsonify(status_of(site, request.host))


def status_of(site: Site, host: str) -> dict[str, Any]:
    """What the page shows. ``host``: as the page was asked for."""
    known = site.facts.known()
    now = trio.current_time()
    sessions = site.boards.sessions
    boards = [
        {
            "device": device,
            "state": _STATES[session.protocol.state],
            "for_s": round(now - session.statistics.opened_at),
            "name": known[device].name if device in known else "",
            "may_speak": session.protocol.may_speak,
        }
        for device, session in sorted(sessions.items())
    ]
    waiting = [
        {"device": device, "name": facts.name, "last_seen": facts.last_seen}
        for device, facts in known.items()
        if device not in sessions and not site.access.board_token(device)
    ]
    scheme = "https" if site.config.server.tls_certificate else "http"
    return {
        "version": __version__,
        "engines": [
            {
                "kind": one.kind,
                "state": one.state,
                "restarts": one.restarts,
                "detail": without_paths(one.detail),
            }
            for one in site.statuses()
        ],
        "boards": boards,
        "waiting": sorted(waiting, key=lambda one: -float(str(one["last_seen"])))[:20],
        "ota_url": f"{scheme}://{site.config.server.advertise or host}/xiaozhi/ota/",
        "formats": list(FORMATS),
    }


_STATES = {
    State.IDLE: "idle",
    State.LISTENING: "listening",
    State.STREAMING: "listening",
    State.SPEAKING: "speaking",
    State.OVERLAP: "speaking",
    State.DUPLEX: "speaking",
}
