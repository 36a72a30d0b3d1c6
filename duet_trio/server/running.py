"""A server from its configuration to its exit code, as ``duet serve`` and ``duet demo`` run it."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import trio

from duet_trio.config import Config
from duet_trio.errors import UsageError
from duet_trio.events import NullRecorder, Recorder
from duet_trio.server.app import Addresses, Server
from duet_trio.server.sockets import local_address
from duet_trio.trace.recorder import FileRecorder

log = logging.getLogger(__name__)


@contextmanager
def open_recorder(config: Config) -> Iterator[tuple[Recorder, Callable[[], object]]]:
    """The recorder that the configuration asks for, and what closes it early.

    Within `trio.run`: events are stamped with trio's clock. It outlives everything in the block.
    """
    if not config.trace.path:
        yield NullRecorder(), lambda: None
        return
    digest = hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:16]
    recorder = FileRecorder(Path(config.trace.path), clock=trio.current_time, config_digest=digest)
    try:
        yield recorder, recorder.close
    finally:
        recorder.close()


async def serve(config: Config) -> int:
    """Serve until told to stop; returns the exit code or raises the `UsageError` that ended it."""
    with open_recorder(config) as (recorder, close):
        server = Server(config, recorder, last_words=close)
        async with trio.open_nursery() as nursery:
            addresses: Addresses = await nursery.start(server.run)
            say_where(addresses)
            tell("loading engines …")
            if await until_ready(server):
                spare_what_stays()
                tell("ready")
        return over(server)


def spare_what_stays() -> None:
    """Take what has been loaded out of the garbage collector's rounds.

    A full round over it holds everything up for 50 to 70 ms, which 100 boards bring about every
    dozen seconds (measured); what they allocate themselves is a tenth of that.
    """
    gc.collect()
    gc.freeze()


async def until_ready(server: Server) -> bool:
    """Wait until all engines are ready; False if the server stops first."""
    ready = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when, server.stop.ordered, nursery.cancel_scope)
        with suppress(UsageError):  # `Server.failure` has it
            await server.engines.wait_ready()
            ready = True
            nursery.cancel_scope.cancel()
    return ready


def over(server: Server) -> int:
    """The exit code of a server that has ended; raises what made it end."""
    server.stop.done()
    if server.failure is not None:
        raise server.failure
    return server.stop.code


async def cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    """Cancel ``scope`` once ``event`` is set."""
    await event.wait()
    scope.cancel()


def say_where(addresses: Addresses) -> None:
    """Tell a person where boards are to be pointed."""
    host = local_address() if addresses.host in ("0.0.0.0", "::", "") else addresses.host
    tell(f"boards:  ws://{host}:{addresses.websocket_port}/xiaozhi/v1/")
    tell(f"OTA URL: http://{host}:{addresses.http_port}/xiaozhi/ota/  (enter this on the board)")


def tell(line: str) -> None:
    """Print a line; when nobody can have it any more, say so on stderr, once, and go on.

    ``duet serve | head -1``, a terminal that was closed, a full disk under a log: boards talk to
    the server, not to its standard output, so none of these is a reason to end.
    """
    try:
        print(line, flush=True)
    except OSError as error:
        log.warning("standard output is lost (%s); the server goes on", error.strerror)
        # What is left in the buffer is flushed once more at exit, and would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
