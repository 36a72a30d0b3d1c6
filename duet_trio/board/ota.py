"""The request that a board makes at boot, to learn where its server is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import h11
import trio

from duet_trio.board.link import Identity
from duet_trio.errors import ConnectionLostError, PeerError, UsageError
from duet_trio.wire.fields import Fields, decode_object, encode_object
from duet_trio.wire.ota import OtaAnswer, mistakes_in

#: The firmware waits as long for the header and for the body.
WAIT_S = 30.0
_LARGEST = 65_536


async def ask_ota(url: str, identity: Identity, *, firmware: str, chip: str) -> OtaAnswer:
    """POST what a board says of itself; return where it shall connect.

    A checkpoint. Raises `UsageError` for an address that is not plain HTTP,
    `ConnectionLostError` if nobody answers, `PeerError` for an answer that would mislead or
    break a stock board.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"'{url}' is no OTA address; write http://HOST:8003/xiaozhi/ota/")
    body = encode_object(_body(identity, firmware, chip)).encode()
    request = h11.Request(
        method="POST",
        target=parts.path or "/",
        headers=[
            ("Host", parts.netloc),
            ("Activation-Version", "1"),
            ("Device-Id", identity.device_id),
            ("Client-Id", identity.client_id),
            ("User-Agent", f"simulated/{_dotted(firmware)}"),
            ("Accept-Language", "en-US"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ],
    )
    try:
        with trio.fail_after(WAIT_S):
            stream = await trio.open_tcp_stream(parts.hostname, parts.port or 80)
            async with stream:
                status, answer = await _exchange(stream, request, body)
    except (OSError, trio.TooSlowError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
        raise ConnectionLostError(f"{url}: no OTA answer ({str(error) or 'timed out'})") from None
    if status != 200:
        raise PeerError(f"{url}: OTA answer {status}; a board needs 200")
    return _read(decode_object(answer))


def _read(answer: Mapping[str, Any]) -> OtaAnswer:
    mistakes = mistakes_in(answer)
    if mistakes:
        raise PeerError(mistakes[0])
    section = Fields(answer).object("websocket")
    return OtaAnswer(
        websocket_url=section.text("url"),
        token=section.text("token"),
        version=section.whole("version", 1, 1, 3),
    )


async def _exchange(
    stream: trio.SocketStream, request: h11.Request, body: bytes
) -> tuple[int, bytes]:
    http = h11.Connection(h11.CLIENT)
    await stream.send_all(
        (http.send(request) or b"")
        + (http.send(h11.Data(data=body)) or b"")
        + (http.send(h11.EndOfMessage()) or b"")
    )
    status, answer = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive_some(4096))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            answer += event.data
            if len(answer) > _LARGEST:
                raise PeerError(f"OTA answer of more than {_LARGEST} bytes")
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return status, bytes(answer)


def _body(identity: Identity, firmware: str, chip: str) -> dict[str, Any]:
    return {
        "version": 2,
        "language": "en-US",
        "mac_address": identity.device_id,
        "uuid": identity.client_id,
        "chip_model_name": chip,
        "application": {"name": "xiaozhi", "version": _dotted(firmware)},
        "board": {"type": "simulated", "name": "simulated", "mac": identity.device_id},
    }


def _dotted(firmware: str) -> str:
    """A version with three parts, as real boards have."""
    return firmware if firmware.count(".") >= 2 else f"{firmware}.0"
