"""Accepting connections for as long as the server lives, whatever ``accept`` says.

Not ``trio.serve_listeners``: an error that is about one connection ends it, and with it the
server (Windows reports a client's reset so, Linux a firewall's "no" and errors of the network);
and when the process has run out of file descriptors it logs a stack ten times a second, until
somebody's disk is full as well.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket as sockets
import sys
from collections.abc import Awaitable, Callable, Sequence

import trio

log = logging.getLogger(__name__)

#: The system is at a limit: it takes a connection that ends to mend it, so we wait …
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
FULL_S = 0.1
#: … and after any other error, in case it is there to stay.
ERROR_S = 0.01
#: One line in the log per listener and minute.
TELL_AGAIN_S = 60.0
#: File descriptors that are asked for: the limits on boards and HTTP together need about 600, and
#: some systems give 256.
WANTED_DESCRIPTORS = 4096

Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def accept_all(listening: Sequence[sockets.socket], handler: Handler) -> None:
    """Accept on these sockets and run ``handler`` for each connection, until cancelled.

    Owns the sockets: they are closed at the end. The handler must not raise.
    """
    async with trio.open_nursery() as nursery:
        for socket in listening:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(socket))
            nursery.start_soon(accept_from, listener, handler)


async def accept_from(listener: trio.abc.Listener[trio.SocketStream], handler: Handler) -> None:
    """`accept_all` for one listener."""
    told_at = -math.inf
    async with listener, trio.open_nursery() as nursery:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if trio.current_time() - told_at >= TELL_AGAIN_S:
                    told_at = trio.current_time()
                    log.warning("a connection could not be accepted: %s", _in_words(error))
                await trio.sleep(FULL_S if error.errno in _FULL else ERROR_S)
            else:
                nursery.start_soon(handler, stream)


def raise_descriptor_limit() -> None:
    """Let this process open as many files as it may need, if the system allows it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # a sandbox's own rules
            log.info("no more than %d file descriptors: %s", soft, error)


def _in_words(error: OSError) -> str:
    words = error.strerror or os.strerror(error.errno or 0)
    return f"{words}; new ones wait" if error.errno in _FULL else words
