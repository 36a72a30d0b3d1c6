"""A peer that sends as fast as it can, of any kind of frame, is read slowly."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from duet_trio.board.link import parse_address
from duet_trio.lab.lab import URL, open_lab
from duet_trio.server.brake import BURST_BYTES, BYTES_PER_S, SEND_BYTES, Brake, BrakedStream
from tests.protocol.peer import scripted

UPGRADE = (
    b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MASK = b"\x80\0\0\0\0"


async def test_an_allowance_grows_back(autojump_clock: object) -> None:
    brake = Brake(10, 20)
    brake.spend(25)
    await brake.released()
    assert trio.current_time() == pytest.approx(0.5)
    await trio.sleep(100)
    brake.spend(20)  # never more than the burst, however long it was quiet
    await brake.released()
    assert trio.current_time() == pytest.approx(100.5)
    brake.spend(5)
    await brake.released()
    assert trio.current_time() == pytest.approx(101.0)


@pytest.mark.parametrize(
    ("begin", "frame", "cost"),
    [
        pytest.param(b"", b"\x89" + MASK, 6 + SEND_BYTES, id="pings"),
        pytest.param(b"", b"\x8a" + MASK, 6, id="pongs"),
        pytest.param(b"\x01" + MASK, b"\x00" + MASK, 6, id="fragments without an end"),
    ],
)
async def test_what_is_no_message_is_braked_too(
    autojump_clock: object, begin: bytes, frame: bytes, cost: float
) -> None:
    extra_s = 3.0
    async with open_lab(scripted()) as lab:
        stream = await lab.connect(parse_address(URL))
        await stream.send_all(UPGRADE)
        assert b"101" in await stream.receive_some(1000)
        before = trio.current_time()
        # As it would be on a socket: what is not read does not leave the sender.
        data = begin + frame * int((BURST_BYTES + extra_s * BYTES_PER_S) / cost)
        await stream.send_all(data + b"\x88" + MASK)  # then it closes
        with trio.fail_after(60):
            while lab.boards.sessions:  # noqa: ASYNC110 - until the server has read it all
                await trio.sleep(0.01)
        # What stands in the last chunk that is read (4 KB) is not waited for.
        assert trio.current_time() - before >= extra_s / 2
        await trio.aclose_forcefully(stream)


async def test_a_braked_stream_passes_everything_on(autojump_clock: object) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    braked = BrakedStream(ours)
    await theirs.send_all(bytes(1000))
    await braked.wait_send_all_might_not_block()
    await braked.send_all(b"answer")
    assert await theirs.receive_some(10) == b"answer"
    assert await braked.receive_some(600) == bytes(600)
    assert await braked.receive_some() == bytes(400)
    await braked.aclose()
    assert await theirs.receive_some(10) == b""
