"""An attacker on the same network, while a board speaks on time."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

import pytest
import trio

from duet_trio.bench.talker import talking
from duet_trio.config import ServerSection
from duet_trio.server.boards import MAX_HALF_OPEN
from duet_trio.server.http_server import HttpServer
from tests.http.house import House, begin, finish, open_house

ATTACKER = str(Path(__file__).with_name("attacker.py"))
STORY = "This is one sentence of a long scripted answer, which takes a while to say. " * 2


async def hang_on(house: House, port: int, data: bytes, opened: list[int]) -> None:
    """Open a connection, say a little, and wait."""
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            opened.append(1)
            await stream.send_all(data)
            while await stream.receive_some():
                pass
    except (OSError, trio.BrokenResourceError):
        opened.append(0)


@pytest.mark.slow
async def test_a_board_speaks_on_time_under_attack(tmp_path: Path) -> None:
    async with open_house(tmp_path, f"llm.script={[STORY]!r}", "server.max_http=150") as house:
        command = [sys.executable, ATTACKER, *map(str, house.ports)]
        async with talking(house.websocket_url, 1) as talker, trio.open_nursery() as nursery:
            await talker.ask("go on")
            await talker.until_packets(3)
            attacker = await nursery.start(
                partial(trio.run_process, command, stdin=PIPE, stdout=PIPE, check=False)
            )
            said = b""
            while not said.endswith(b"\n"):  # an unbuffered stdout comes in bits
                said += await attacker.stdout.receive_some()
            assert said == b"ready\n"
            # A second board gets in, and so does a program.
            async with talking(house.websocket_url, 2) as second:
                await second.ask("and you?")
                await second.until_packets(3)
            reply = await house.ask("POST", "/speak", {"text": "Still here."})
            assert reply.status == 200
            await talker.until_stops(1)
            await attacker.stdin.aclose()
            assert await attacker.stdout.receive_some() == b"", "a request was not refused"
        late = [
            (event["t"] - event["due"]) * 1000
            for event in house.events("sent")
            if event.get("what") == "frame" and event["generation"] == 1
        ]
        assert len(late) > 100
        late.sort()
        assert late[int(0.95 * len(late))] < 40, late[-10:]  # loose: this machine is shared
        gaps = [(after - before) * 1000 for before, after in pairwise(talker.arrivals)]
        assert max(gaps) < 400


async def test_half_open_handshakes_keep_no_board_out(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, trio.open_nursery() as attackers:
        opened: list[int] = []
        for _ in range(MAX_HALF_OPEN + 30):
            attackers.start_soon(hang_on, house, house.ports[0], b"GET / HT", opened)
        await house.until(lambda: len(opened) >= MAX_HALF_OPEN + 30)
        await house.until(lambda: house.boards.connections <= MAX_HALF_OPEN)
        async with talking(house.websocket_url, 1) as talker:
            assert talker.hello_s < 1
        attackers.cancel_scope.cancel()


async def test_a_house_full_of_boards_at_once_is_let_in(tmp_path: Path) -> None:
    """All are connected before the first of them says a word, as after a power cut."""
    head = "GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    head += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    head += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nProtocol-Version: 1\r\n"
    async with open_house(tmp_path) as house, AsyncExitStack() as stack:
        boards = []
        for _ in range(120):
            stream = await trio.open_tcp_stream("127.0.0.1", house.ports[0])
            boards.append(await stack.enter_async_context(stream))
        await house.until(lambda: house.boards.connections == len(boards))
        for number, stream in enumerate(boards):
            device = f"Device-Id: 02:00:00:00:01:{number:02x}\r\n\r\n"
            await stream.send_all((head + device).encode())
        for stream in boards:
            with trio.fail_after(5):
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")


async def test_connections_are_bounded_and_come_back(tmp_path: Path) -> None:
    async with open_house(tmp_path, "server.max_http=5") as house:
        streams = [await house.connect() for _ in range(5)]
        await house.until(lambda: house.http.connections == 5)
        sixth = await house.connect()
        assert await sixth.receive_some() == b""
        assert house.http.refused == 1
        for stream in [*streams, sixth]:
            await stream.aclose()
        await house.until(lambda: house.http.connections == 0)
        assert (await house.ask("GET", "/health")).status == 200


def test_one_address_gets_its_share(tmp_path: Path) -> None:
    server = HttpServer.__new__(HttpServer)
    server._section = ServerSection(max_http=10, max_per_address=2)
    server._addresses = Counter({"192.168.1.9": 2, "127.0.0.1": 5})
    assert not server._has_room("192.168.1.9")
    assert server._has_room("192.168.1.10")
    assert server._has_room("127.0.0.1")
    server._addresses["127.0.0.1"] = 8
    assert not server._has_room("127.0.0.1")


async def test_a_body_that_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duet_trio.server.http.BODY_S", 0.2)
    async with open_house(tmp_path) as house:
        stream = await house.connect()
        async with stream:
            http = await begin(stream, "GET", "/health")
            assert (await finish(stream, http)).status == 200
        stream = await house.connect()
        async with stream:
            await stream.send_all(
                b"POST /speak HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
            )
            with trio.fail_after(3):
                answer = await stream.receive_some()
            assert b" 408 " in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /speak HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /speak HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_ends_itself_alone(data: bytes, tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        stream = await house.connect()
        async with stream:
            await stream.send_all(data)
            with trio.move_on_after(1):
                try:
                    while answer := await stream.receive_some():
                        assert b" 500 " not in answer
                except trio.BrokenResourceError:
                    pass
        assert (await house.ask("GET", "/health")).status == 200
