"""Listening sockets, bound before any model is loaded: a taken port is told in under a second."""

from __future__ import annotations

import errno
import socket
import sys

from duet_trio.errors import PortTakenError

BACKLOG = 512  # a hundred boards after a power cut connect at once


def bind(host: str, port: int, key: str) -> list[socket.socket]:
    """Listening TCP sockets on ``host:port`` (port 0: any free one).

    Raises `PortTakenError` with one line that names the owner's likely cause and ``key``, the
    configuration key to change.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise PortTakenError(
            f"{host}: no such address ({error.strerror}); mend server.host"
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there the option lets two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise PortTakenError(_explain(error, host, port, key)) from None
    return [listener]


def _explain(error: OSError, host: str, port: int, key: str) -> str:
    where = f"cannot listen on {host}:{port}"
    change = f"choose another with --set {key}=PORT"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: another program (perhaps another duet) has this port; {change}"
    if error.errno == errno.EACCES:
        # Windows reserves whole ranges (WSAEACCES); elsewhere ports below 1024 need rights.
        return f"{where}: the system does not allow this port; {change}"
    return f"{where}: {error.strerror}; mend server.host or {key}"


def local_address() -> str:
    """Our own address on its network, as boards may reach it; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: only the routing table is asked
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
