"""A WebSocket echo on trio that does nothing else: what the machine gives anybody.

``python -m duet_trio.bench.echo`` prints its port and echoes until it is ended. Its accept path,
its library and its options are those of the server, so that the difference between the two is
what the server itself adds.
"""

from __future__ import annotations

import signal
import socket
import sys

import trio
from trio_websocket import ConnectionClosed, wrap_server_stream


async def echo(stream: trio.SocketStream) -> None:
    """Echo whole messages on one connection."""
    stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with trio.open_nursery() as nursery:
        request = await wrap_server_stream(nursery, stream)
        connection = await request.accept()
        try:
            while True:
                await connection.send_message(await connection.get_message())
        except ConnectionClosed:
            nursery.cancel_scope.cancel()


async def main() -> None:
    """Serve on a free port of loopback."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sys.stdout.write(f"{listeners[0].socket.getsockname()[1]}\n")
    sys.stdout.flush()
    await trio.serve_listeners(echo, listeners)


if __name__ == "__main__":
    # Ctrl-C in a terminal is for the bench, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trio.run(main)
