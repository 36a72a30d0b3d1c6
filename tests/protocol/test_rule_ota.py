"""Rule 1: what a board is told when it boots; and what the server keeps of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from duet_trio.bench.processes import CONFIG_FOLDER, RunningServer, serving

BODY = {
    "version": 2,
    "mac_address": "02:00:00:00:00:07",
    "chip_model_name": "esp32s3",
    "application": {"name": "xiaozhi", "version": "2.4.2"},
    "board": {"type": "bread-compact-wifi", "name": "bread", "ssid": "home"},
}
HEADERS = {
    "Device-Id": "02:00:00:00:00:07",
    "Client-Id": "00000000-0000-4000-8000-000000000007",
    "User-Agent": "bread/2.4.2",
    "Activation-Version": "1",
}


async def http(
    server: RunningServer, method: str, path: str, body: bytes = b"", headers: Any = HEADERS
) -> tuple[int, bytes]:
    """One request as a board makes it; status and body."""
    host = f"127.0.0.1:{server.http_port}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    stream = await trio.open_tcp_stream("127.0.0.1", server.http_port)
    async with stream:
        await stream.send_all("\r\n".join(lines).encode() + body)
        received = b""
        with trio.fail_after(10):
            while not _complete(received) and (chunk := await stream.receive_some()):
                received += chunk
    head, _, rest = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


def _complete(received: bytes) -> bool:
    """Boards count bytes; so must the server."""
    head, end, rest = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end) and len(rest) >= int(lengths[0].split(b":")[1])


def check(answer: dict[str, Any], server: RunningServer) -> None:
    assert set(answer) <= {"server_time", "websocket", "firmware"}
    websocket = answer["websocket"]
    assert websocket["url"] == server.url
    assert websocket["version"] in (1, 2, 3)
    assert isinstance(websocket["token"], str)
    assert all(len(key) <= 15 for key in websocket)
    assert isinstance(answer["server_time"]["timestamp"], int)
    assert abs(answer["server_time"]["timezone_offset"]) <= 14 * 60


@pytest.mark.slow
async def test_rule_01_ota(tmp_path: Path) -> None:
    async with serving(CONFIG_FOLDER / "scripted.toml", [], tmp_path) as server:
        bodies = [
            json.dumps(BODY).encode(),
            b'{"board":{"ssid":"my "home""},"chip_model_name":"esp32s3"}',  # as boards send it
            b"",
        ]
        for body in bodies:
            for path in ("/xiaozhi/ota/", "/xiaozhi/ota"):
                status, answer = await http(server, "POST", path, body)
                assert status == 200
                check(json.loads(answer), server)
        status, text = await http(server, "GET", "/xiaozhi/ota/", headers={})
        assert status == 200
        assert server.url.encode() in text
    known = json.loads((tmp_path / "boards.json").read_bytes())["02:00:00:00:00:07"]
    assert (known["chip"], known["firmware"]) == ("esp32s3", "2.4.2")
    assert known["last_seen"] > 1.6e9
