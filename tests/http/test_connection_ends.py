"""A connection ends with the response that says so, and what cannot be read is the client's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio

from tests.http.house import open_house

SPEAK = b'{"text": "Hello."}'
LAST = [
    b"GET /health HTTP/1.1\r\nConnection: close\r\n",
    b"GET /health HTTP/1.0\r\n",
    b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n",
    b"POST /speak HTTP/1.1\r\nConnection: close\r\nContent-Length: 18\r\n",  # streamed
    b"POST /speak HTTP/1.0\r\nContent-Length: 18\r\n",
    b"POST /speak HTTP/1.1\r\nConnection: close\r\nContent-Length: 900000000\r\n",  # refused
]


@pytest.mark.parametrize("head", LAST)
async def test_the_last_response_closes_its_connection(tmp_path: Path, head: bytes) -> None:
    async with open_house(tmp_path) as house:
        stream = await house.connect()
        async with stream:
            body = SPEAK if b"Content-Length" in head else b""
            await stream.send_all(head + b"Host: 127.0.0.1\r\n\r\n" + body)
            said = bytearray()
            with trio.fail_after(5):  # an idle connection stays for longer
                while part := await stream.receive_some():
                    said += part
            assert said.startswith(b"HTTP/1.1 ")
            # Before this end of it is closed: nobody holds a place by waiting.
            await house.until(lambda: house.http.connections == 0)


async def test_a_connection_that_may_stay_takes_the_next_request(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        stream = await house.connect()
        async with stream:
            for _ in range(3):
                await stream.send_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                said = bytearray()
                with trio.fail_after(5):
                    while not said.endswith(b"}\n"):
                        said += await stream.receive_some()
            assert house.http.connections == 1


@pytest.mark.parametrize("target", ["/speak", "/v1/chat/completions", "/v1/audio/speech"])
async def test_a_body_of_brackets_is_no_fault_of_ours(
    target: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("POST", target, b'{"y":' + b"[" * 50_000)
    assert reply.status == 400
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
