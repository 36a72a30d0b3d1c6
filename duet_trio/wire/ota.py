"""The OTA endpoint: what a board says of itself at boot, and where we send it.

A board asks once per boot and stores what it is told, so a wrong answer outlives the server
that gave it, and some wrong answers make a board restart for ever. `mistakes_in` knows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from duet_trio.errors import ConfigError, PeerError
from duet_trio.wire.fields import Fields, decode_object, encode_object
from duet_trio.wire.handshake import clean_id

#: NVS keys of the chip are no longer; storing a longer one aborts, at every boot.
MAX_KEY_LENGTH = 15


_UNWANTED: Mapping[str, str] = MappingProxyType(
    {
        "mqtt": "the board would choose it before the WebSocket",
        "activation": "the board would ask for a code for ever",
        "firmware": "a version that is not dotted numbers crashes the board at every boot",
    }
)


@dataclass(frozen=True, slots=True)
class OtaRequest:
    """A board at boot. Everything may be empty; identity is taken from the headers first."""

    device_id: str = ""
    client_id: str = ""
    chip: str = ""  # esp32s3, esp32c3, …
    firmware: str = ""  # 2.4.2
    board: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class OtaAnswer:
    """What a board keeps of an answer."""

    websocket_url: str
    token: str
    version: int


def parse_request(headers: Mapping[str, str], body: bytes) -> OtaRequest:
    """Read a request; never raises. The body may be anything: stock firmware does not escape
    the network's name in it, so one quote in a Wi-Fi name makes it invalid JSON.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        fields = Fields(decode_object(body))
    except PeerError:
        fields = _salvage(body)
    application, board = fields.object("application"), fields.object("board")
    agent_board, agent_version = _user_agent(given.get("user-agent", ""))
    language = given.get("accept-language", "") or fields.text("language")
    return OtaRequest(
        device_id=clean_id(given.get("device-id", "") or fields.text("mac_address")),
        client_id=clean_id(given.get("client-id", "") or fields.text("uuid")),
        chip=clean_id(fields.text("chip_model_name")).lower(),
        firmware=clean_id(application.text("version") or agent_version),
        board=clean_id(board.text("name") or board.text("type") or agent_board),
        language=clean_id(language),
    )


def answer(
    *,
    websocket_url: str,
    token: str,
    version: int = 1,
    timestamp_ms: int,
    timezone_offset_min: int,
) -> dict[str, Any]:
    """The answer to a board: ``websocket`` and ``server_time``, nothing else.

    ``token`` is sent even if empty, since a board keeps an old one that it is not told to
    forget. ``timezone_offset_min``: minutes east of UTC. Raises `ConfigError` if the board
    could not use it (no explicit port, IPv6 literal, unknown version, …).
    """
    result: dict[str, Any] = {
        "server_time": {"timestamp": timestamp_ms, "timezone_offset": timezone_offset_min},
        "websocket": {"url": websocket_url, "token": token, "version": version},
    }
    mistakes = mistakes_in(result)
    if mistakes:
        raise ConfigError(f"{mistakes[0]}; see server.advertise, server.board_url and auth.token")
    return result


def mistakes_in(answer: Mapping[str, Any]) -> list[str]:
    """What would mislead or break a stock board, one phrase each; empty: a good answer."""
    found = [
        f"OTA answer: '{name}' must be left out ({why})"
        for name, why in _UNWANTED.items()
        if name in answer
    ]
    section = answer.get("websocket")
    if not isinstance(section, Mapping):
        return [*found, "OTA answer: no 'websocket' object"]
    found += [
        f"OTA answer: key '{name}' in 'websocket' has over {MAX_KEY_LENGTH} characters"
        for name in section
        if len(name) > MAX_KEY_LENGTH
    ]
    token, version, clock = section.get("token"), section.get("version"), answer.get("server_time")
    if not isinstance(token, str):
        found.append("OTA answer: no string 'token' (send \"\" for none)")
    elif not token.isascii() or (token and not token.isprintable()):
        found.append("OTA answer: the token cannot be sent in a header")
    if not isinstance(version, int) or isinstance(version, bool) or version not in (1, 2, 3):
        found.append("OTA answer: 'version' is not 1, 2 or 3")
    if not isinstance(clock, Mapping):
        found.append("OTA answer: no 'server_time'")
    elif not all(_is_number(clock.get(key)) for key in ("timestamp", "timezone_offset")):
        found.append("OTA answer: 'server_time' needs numbers, in ms and in minutes")
    elif clock["timestamp"] <= 0 or abs(clock["timezone_offset"]) > 16 * 60:
        found.append("OTA answer: 'server_time' is out of range (ms since 1970, minutes)")
    url = section.get("url")
    return [*found, *(_url_mistakes(url) if isinstance(url, str) else ["OTA answer: no 'url'"])]


def _url_mistakes(url: str) -> list[str]:
    where = f"OTA answer: WebSocket address '{url[:80]}'"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return [f"{where} cannot be parsed"]
    if parts.scheme not in ("ws", "wss") or not url.startswith(("ws://", "wss://")):
        return [f"{where} must begin with ws:// or wss://"]
    if not host or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        return [f"{where} needs a plain host name or IPv4 address"]
    if "[" in parts.netloc:
        return [f"{where} is IPv6, which boards cannot parse"]
    if not port:
        return [f"{where} needs an explicit port"]
    return []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _user_agent(value: str) -> tuple[str, str]:
    """``bread-compact-wifi/2.4.2`` → its two parts; anything else → nothing."""
    match = re.fullmatch(r"\s*([^/\s]+)/(\d+(?:\.\d+)+\S*)\s*", value)
    return (match[1], match[2]) if match else ("", "")


def _salvage(body: bytes) -> Fields:
    """What can be had from a body that is not JSON: plain members, wherever they stand.

    Every repetition is bounded, so that no body takes more than linear time.
    """
    text = body[:65_536].decode("utf-8", "replace")

    def member(name: str, after: str = "") -> str:
        match = re.search(rf'{after}"{name}"\s*:\s*"([^"\\]{{1,64}})"', text, re.DOTALL)
        return match[1] if match else ""

    return Fields(
        {
            "mac_address": member("mac_address"),
            "uuid": member("uuid"),
            "language": member("language"),
            "chip_model_name": member("chip_model_name"),
            "application": {"version": member("version", r'"application"\s*:\s*\{[^}]{0,400}?')},
            "board": {"type": member("type", r'"board"\s*:\s*\{[^}]{0,400}?')},
        }
    )


# --- the board's side -----------------------------------------------------------------------


def request(facts: OtaRequest) -> tuple[dict[str, str], bytes]:
    """Headers and body as a board with these facts sends them."""
    headers = {
        "Activation-Version": "1",
        "Device-Id": facts.device_id,
        "Client-Id": facts.client_id,
        "User-Agent": f"{facts.board}/{facts.firmware}",
        "Accept-Language": facts.language,
        "Content-Type": "application/json",
    }
    body = {
        "version": 2,
        "language": facts.language,
        "mac_address": facts.device_id,
        "uuid": facts.client_id,
        "chip_model_name": facts.chip,
        "application": {"name": "xiaozhi", "version": facts.firmware},
        "board": {"type": facts.board, "name": facts.board},
    }
    return headers, encode_object(body).encode()


def read_answer(body: bytes) -> OtaAnswer:
    """Read an answer as a careful board would; `PeerError` names the first mistake in it."""
    values = decode_object(body)
    mistakes = mistakes_in(values)
    if mistakes:
        raise PeerError(mistakes[0])
    section = values["websocket"]
    return OtaAnswer(section["url"], section["token"], section["version"])
