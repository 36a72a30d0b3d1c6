"""The send queue of a board: bounded for audio, in order for everything."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio_websocket import WebSocketConnection, wrap_server_stream

from duet_trio.board.link import SEND_QUEUE_PACKETS, Identity, Link, parse_address, shake_hands
from duet_trio.errors import ConnectionLostError
from duet_trio.wire.messages import Abort, Hello, ServerHello, encode

ADDRESS = parse_address("ws://board.test:8000/xiaozhi/v1/")


async def linked(nursery: trio.Nursery) -> tuple[Link, WebSocketConnection]:
    """A link, and the server's end of it."""
    ours, theirs = trio.testing.memory_stream_pair()
    sockets: list[WebSocketConnection] = []

    async def accept() -> None:
        request = await wrap_server_stream(nursery, theirs)
        sockets.append(await request.accept())
        await sockets[0].get_message()
        await sockets[0].send_message("noise before the hello")
        await sockets[0].send_message(b"noise")
        await sockets[0].send_message(encode(ServerHello(session_id="s9"), ""))

    nursery.start_soon(accept)
    link = await shake_hands(nursery, ours, ADDRESS, Identity(), Hello())
    assert link.hello == ServerHello(session_id="s9")
    return link, sockets[0]


async def test_a_full_queue_loses_the_oldest_packets_and_no_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        link, server = await linked(nursery)
        link.audio(bytes([0]))
        link.say(Abort())
        for number in range(1, SEND_QUEUE_PACKETS + 2):
            link.audio(bytes([number]))
        assert link.packets_dropped == 2
        nursery.start_soon(link.write_all)
        received = [await server.get_message() for _ in range(SEND_QUEUE_PACKETS + 1)]
        await link.flushed()
        nursery.cancel_scope.cancel()
    assert received[0] == '{"type":"abort","session_id":"s9"}'
    assert received[1:] == [bytes([number]) for number in range(2, SEND_QUEUE_PACKETS + 2)]


async def test_a_close_of_the_server_ends_reading_and_writing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        link, server = await linked(nursery)
        nursery.start_soon(server.aclose)
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            await link.receive()
        link.say(Abort())
        await link.write_all()  # returns, since there is nobody left
        nursery.cancel_scope.cancel()
