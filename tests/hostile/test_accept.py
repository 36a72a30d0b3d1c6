"""A server goes on accepting whatever the system says, and does not fill the log with it."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections import deque

import pytest
import trio
import trio.testing

from duet_trio.server.accept import accept_all, accept_from, raise_descriptor_limit


class Door(trio.abc.Listener[trio.SocketStream]):
    """A listener that gives what it was told to: a connection, or an error."""

    def __init__(self, *entries: int | trio.SocketStream) -> None:
        self._entries = deque(entries)

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if not self._entries:
            await trio.sleep_forever()
        entry = self._entries.popleft()
        if isinstance(entry, int):
            raise OSError(entry, os.strerror(entry))
        return entry

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    "number",
    [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ECONNRESET, errno.EPERM, errno.EPROTO],
)
async def test_an_error_of_one_accept_is_not_the_end(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    ours, theirs = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    served: list[trio.SocketStream] = []

    async def serve(one: trio.SocketStream) -> None:
        await trio.lowlevel.checkpoint()
        served.append(one)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_from, Door(*[number] * 500, stream), serve)
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    await stream.aclose()
    theirs.close()
    assert served == [stream]
    assert 1 <= len(caplog.records) <= 2  # 500 failures, 50 seconds of them at most
    assert os.strerror(number) in caplog.text
    assert "Traceback" not in caplog.text


async def test_all_sockets_are_served_and_closed_at_the_end() -> None:
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for one in listening:
        one.setblocking(False)
    ports = [one.getsockname()[1] for one in listening]

    async def echo(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(await stream.receive_some(10))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_all, listening, echo)
        for port in ports:
            async with await trio.open_tcp_stream("127.0.0.1", port) as client:
                await client.send_all(b"hello")
                assert await client.receive_some(10) == b"hello"
        nursery.cancel_scope.cancel()
    assert [one.fileno() for one in listening] == [-1, -1]


def test_the_limit_on_open_files_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(4096, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
