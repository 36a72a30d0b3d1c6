"""Who is it? The facts in a board's WebSocket upgrade request, and the request's headers.

Boards say it in headers; web pages cannot set headers and use query parameters of the same
names. A header goes before a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

_BEARER = re.compile(r"bearer(\s+|$)", re.IGNORECASE)
_MAC = re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}", re.IGNORECASE)
_MAX_ID_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a peer says of itself when it connects.

    ``device_id``: a MAC address in lower case with colons, or what the client calls itself,
    or the made-up one (then ``device_id_given`` is false). ``version``: of the binary framing,
    1, 2 or 3; ``None`` if it did not say, or said something unknown: the hello decides then.
    ``token``: without ``Bearer``. ``path``: without the query.
    """

    device_id: str
    client_id: str = ""
    version: int | None = None
    token: str = ""
    path: str = "/"
    device_id_given: bool = True


def read_handshake(
    target: str,
    headers: Iterable[tuple[str | bytes, str | bytes]],
    made_up_id: str,
) -> Handshake:
    """Read a request's target (path and query) and headers. Never raises on what a peer sends."""
    path, query = split_target(target)
    given: dict[str, str] = {}
    for name, value in [*((_text(n), _text(v)) for n, v in headers), *query]:
        if value.strip():
            given.setdefault(name.strip().lower(), value.strip())
    device_id = clean_id(given.get("device-id", ""))
    version = given.get("protocol-version", "")
    return Handshake(
        device_id=device_id or made_up_id,
        client_id=clean_id(given.get("client-id", "")),
        version=int(version) if version in {"1", "2", "3"} else None,
        token=bare_token(given.get("authorization", "")),
        path=path,
        device_id_given=bool(device_id),
    )


def client_headers(
    *, device_id: str, client_id: str, version: int = 1, token: str = ""
) -> list[tuple[str, str]]:
    """The headers of a stock board's request, in its order (the WebSocket's own not included)."""
    headers = [
        ("Client-Id", client_id),
        ("Device-Id", device_id),
        ("Protocol-Version", str(version)),
    ]
    if token:
        value = token if " " in token else f"Bearer {token}"
        headers.insert(0, ("Authorization", value))
    return headers


def bare_token(value: str) -> str:
    """An ``Authorization`` value, or a configured token, without its ``Bearer``.

    A ``Bearer`` with nothing after it is no token: clients that were given none send it.
    """
    value = value.strip()
    match = _BEARER.match(value)
    return value[match.end() :] if match else value


def clean_id(value: str) -> str:
    """An identity fit for logs, file names in a table, and comparison; MACs in one spelling."""
    value = "".join(c for c in value.strip() if c.isprintable())[:_MAX_ID_LENGTH].strip()
    return value.lower().replace("-", ":") if _MAC.fullmatch(value) else value


def is_mac(value: str) -> bool:
    """Is this a MAC address, in any spelling that `clean_id` takes for one?"""
    return _MAC.fullmatch(value.strip()) is not None


def split_target(target: str) -> tuple[str, list[tuple[str, str]]]:
    """A request target as its path and its decoded query parameters, in order."""
    try:
        parts = urlsplit(target)
        query = parse_qsl(parts.query, max_num_fields=50)
    except ValueError:
        return target.partition("?")[0] or "/", []
    return parts.path or "/", query


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
