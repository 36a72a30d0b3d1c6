"""The HTTP side: the application, its door, and where boards are sent.

Handlers are thin. Whatever they start runs in the nursery of their request (`DuetRequest`), which
ends when the response is complete and when the client goes away, so that nothing of a request
outlives it.
"""

from __future__ import annotations

import logging
import time
from typing import Any, cast

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from quart import Response, jsonify, request
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from duet_trio.engines.contracts import EngineStatus
from duet_trio.server import metrics, openai_api, openapi, speak, start_page
from duet_trio.server.boards import PATHS
from duet_trio.server.containers import ConverterFailedError
from duet_trio.server.site import (
    DuetRequest,
    RefusalError,
    Site,
    Turnstile,
    request_body,
    without_paths,
)
from duet_trio.server.sockets import local_address
from duet_trio.server.speak_answer import CutOffError
from duet_trio.wire import ota

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 20
BODY_S = 20.0  # for a request's body to come
#: Boards and whoever watches over a server come without a token.
OPEN_PATHS = ("/xiaozhi/ota", "/health")
#: Never cached, never framed, nothing from elsewhere.
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Connection(TrioASGIHTTPConnection):
    """Gives each request its nursery."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Handle one request to its end."""
        await cast(Application, self.app).turnstile.through()
        try:
            await super().__call__(receive, send)
        except* (CutOffError, ConverterFailedError) as group:
            # Without its last chunk: that is how a client learns that something is missing.
            log.info("response broken off: %s", group.exceptions[0])

    async def handle_request(  # type: ignore[override]
        self, nursery: trio.Nursery, request: TrioRequest, send: ASGISendCallable
    ) -> None:
        """Handle it; what it has started ends with it."""
        cast(DuetRequest, request).nursery = nursery
        await super().handle_request(nursery, request, send)


class Application(QuartTrio):
    """Quart on trio with our request."""

    asgi_http_class = Connection
    request_class = DuetRequest
    turnstile: Turnstile


def make_app(site: Site) -> QuartTrio:
    """The application with its routes."""
    app = Application("duet_trio", static_folder=None)
    app.turnstile = site.turnstile
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["BODY_TIMEOUT"] = BODY_S
    # quart cuts a stream silently at this time (default 60 s); our streams have deadlines.
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.strict_slashes = False
    _add_door(app, site)
    _add_board_routes(app, site)
    speak.add_routes(app, site)
    openai_api.add_routes(app, site)
    metrics.add_routes(app, site.metrics)
    start_page.add_routes(app, site)
    openapi.add_routes(app)
    return app


def _add_door(app: QuartTrio, site: Site) -> None:
    @app.before_request
    async def door() -> Response | None:
        refusal = _refusal(site)
        if refusal is None:
            return None
        site.metrics.refused(refusal.status)
        return refusal.response()

    @app.after_request
    async def seal(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.errorhandler(RefusalError)
    async def refuse(refusal: RefusalError) -> Response:
        return refusal.response()

    @app.errorhandler(HTTPException)
    async def fail(error: HTTPException) -> Response:
        status = error.code or 500
        methods = error.valid_methods if isinstance(error, MethodNotAllowed) else None
        headers = {"Allow": ", ".join(sorted(methods))} if methods else {}
        message = "something went wrong" if status >= 500 else error.name.lower()
        return RefusalError(status, message, headers=headers).response()


def _refusal(site: Site) -> RefusalError | None:
    """What keeps this request out, if anything."""
    access, peer = site.access, cast(DuetRequest, request).peer
    if not access.is_own_host(peer):
        return RefusalError(
            421, "this host name is not ours; see server.names", code="unknown_host"
        )
    page = request.path == "/" and request.method in ("GET", "HEAD")
    if access.is_foreign_page(peer) and not page:
        return RefusalError(403, "a page of another site may not do this", code="foreign_origin")
    if request.path.rstrip("/") in OPEN_PATHS or access.may_use_api(peer):
        return None
    challenge = {"WWW-Authenticate": 'Bearer realm="duet-trio"'}
    if request.method in ("GET", "HEAD"):  # a browser asks for a password: any name, the token
        challenge = {"WWW-Authenticate": 'Basic realm="duet-trio", charset="UTF-8"'}
    return RefusalError(
        401,
        "a token is needed: Authorization: Bearer TOKEN (auth.token, or the file 'token' in"
        " server.state_dir)",
        code="invalid_api_key",
        headers=challenge,
    )


def _add_board_routes(app: QuartTrio, site: Site) -> None:
    @app.route("/xiaozhi/ota/", methods=["GET", "POST"])
    async def boards_ask() -> Response:
        if request.method != "POST":
            return Response(
                f"duet-trio is here. Boards are sent to {websocket_url(site)}\n",
                mimetype="text/plain",
            )
        asked = ota.parse_request(dict(request.headers), await request_body())
        site.facts.saw(asked)
        now = time.time()
        answer = ota.answer(
            websocket_url=websocket_url(site),
            token=_token_for(site, asked),
            timestamp_ms=int(now * 1000),
            timezone_offset_min=int(time.localtime(now).tm_gmtoff // 60),
        )
        return jsonify(answer)

    @app.get("/health")
    async def health() -> tuple[Response, int]:
        body, ready = health_of(site)
        if not site.access.may_use_api(cast(DuetRequest, request).peer):
            body = {"status": body["status"]}
        return jsonify(body), 200 if ready else 503


def _token_for(site: Site, asked: ota.OtaRequest) -> str:
    """The board's own token, or none if it is not (or no longer) let in."""
    access, peer = site.access, cast(DuetRequest, request).peer
    token = access.board_token(asked.device_id)
    if access.is_local(peer):
        return token
    if token and site.facts.is_bound(asked, access.approval(asked.device_id)):
        return token
    if asked.device_id:
        log.warning(
            "board %s (%s) wants to be let in; if it is yours: duet boards approve %s",
            asked.device_id,
            peer.address,
            asked.device_id,
        )
    return ""


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
                "detail": without_paths(status.detail),
                **{name: without_paths(text) for name, text in status.info.items()},
            }
            for status in statuses
        },
        "boards": len(site.boards.sessions),
    }, ready


def websocket_url(site: Site) -> str:
    """The address that a board is given: as configured, else as it reached *us*."""
    server = site.config.server
    if server.board_url:
        return server.board_url
    host = server.advertise or (request.host or "").rpartition(":")[0]
    host = host or request.host or local_address()
    if host.startswith("["):  # boards cannot parse IPv6
        host = local_address()
    scheme = "wss" if server.tls_certificate else "ws"
    return f"{scheme}://{host}:{site.websocket_port}{PATHS[1]}"
