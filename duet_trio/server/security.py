"""Who may do what: tokens, our own names, foreign pages.

Four different dangers, and what stands against each:

* somebody else in the network uses the API or plays a board: a token, except from loopback;
* a web page that the user looks at sends requests from *his* machine, which is loopback: its
  ``Origin`` or ``Sec-Fetch-Site`` tells, and it is refused on everything that acts;
* a page whose host name is pointed to our address (DNS rebinding) looks like our own: the
  ``Host`` must be a name or an address of ours;
* a proxy on this machine makes all the world look like loopback: what carries a forwarding
  header, or asks for another host than loopback, is not local (and ``auth.loopback = false``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from duet_trio.config import Config
from duet_trio.server.approvals import Approvals
from duet_trio.wire.handshake import bare_token

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a request comes from and what it says of that. Header names in lower case."""

    address: str  # of the other end; empty: no socket (a stream in memory), which is local
    local_address: str  # the address of ours that it was sent to
    headers: Mapping[str, str]

    def header(self, name: str) -> str:
        """A header's value, or nothing."""
        return self.headers.get(name, "").strip()


def is_loopback(address: str) -> bool:
    """Is this an address of loopback? (``::ffff:127.0.0.1`` is one.)"""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address == ""
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def split_host(value: str) -> tuple[str, int | None]:
    """``Host`` as name (lower case, no brackets; ``""`` if unusable) and port."""
    try:
        parts = urlsplit(f"//{value.strip()}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return "", None
    return name.rstrip("."), port


class Access:
    """The rules, over one configuration and its token. Everything here is synchronous."""

    def __init__(
        self, config: Config, token: str, approvals: Approvals, *, ports: tuple[int, int]
    ) -> None:
        """``ports``: those that we listen on; pages from there are our own."""
        self._auth = config.auth
        self._token = token
        self._approvals = approvals
        self._ports = ports
        given = {config.server.advertise, *config.server.names} - {""}
        self._given_names = {name.lower().rstrip(".") for name in given}
        own = socket.gethostname().lower()
        self._names = self._given_names | LOOPBACK_NAMES | {own, f"{own.partition('.')[0]}.local"}
        self._allowed = {one.lower() for one in config.auth.allow} | {
            one.lower() for one in config.boards
        }

    # --- where it comes from

    def is_local(self, peer: Peer) -> bool:
        """Does it come from this machine, and from no proxy on it? Then it needs no token."""
        if not self._auth.loopback or not is_loopback(peer.address):
            return False
        if any(peer.header(name) for name in FORWARDING):
            return False
        host = split_host(peer.header("host"))[0]
        return not peer.header("host") or host in LOOPBACK_NAMES or is_loopback(host or "?")

    def is_own_host(self, peer: Peer) -> bool:
        """Is ``Host`` a name or an address of ours? None at all (HTTP/1.0) is no page's doing."""
        value = peer.header("host")
        if not value:
            return True
        name = split_host(value)[0]
        return bool(name) and (
            name in self._names or name == peer.local_address or is_loopback(name)
        )

    def is_foreign_page(self, peer: Peer) -> bool:
        """Was it sent by a web page that is not ours? (Programs send none of these headers.)"""
        if peer.header("sec-fetch-site").lower() in ("cross-site", "same-site"):
            # Boards' port and this one are the same site for a browser; only WebSockets, which
            # come with an Origin, may cross.
            return not peer.header("origin") or not self._is_own_origin(peer)
        return bool(peer.header("origin")) and not self._is_own_origin(peer)

    def _is_own_origin(self, peer: Peer) -> bool:
        try:
            parts = urlsplit(peer.header("origin"))
            name = (parts.hostname or "").rstrip(".")
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not name:
            return False
        if name in self._given_names:
            return True  # behind a proxy the port is not ours
        ours = name in self._names or name == peer.local_address or is_loopback(name)
        return ours and port in self._ports

    # --- tokens

    def may_use_api(self, peer: Peer) -> bool:
        """Is it local, or does it show the token (Bearer, or the password of Basic)?"""
        return self.is_local(peer) or self.is_token(given_token(peer.header("authorization")))

    def is_token(self, given: str) -> bool:
        """Is this the token? In constant time."""
        return bool(self._token) and hmac.compare_digest(given.encode(), self._token.encode())

    def may_be_board(self, peer: Peer, device_id: str, given: str) -> bool:
        """May a board with this id and this token open its WebSocket?"""
        if self.is_local(peer) or self.is_token(given):
            return True
        expected = self.board_token(device_id)
        return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())

    def board_token(self, device_id: str) -> str:
        """The token of one board; empty if it may not connect.

        Good for that board alone, and until its approval ends: it opens no other door.
        """
        number = self._approval_number(device_id)
        if number is None or not self._token or not device_id:
            return ""
        message = f"board\n{device_id}\n{number}".encode()
        return hmac.new(self._token.encode(), message, hashlib.sha256).hexdigest()[:40]

    def approval(self, device_id: str) -> str:
        """What a board's Client-Id is bound to: the number of its approval, if it has one."""
        found = self._approvals.of(device_id)
        return found.number if found is not None else ""

    def is_allowed(self, device_id: str) -> bool:
        """Is it let in by the configuration, whatever was approved?"""
        return not self._auth.pairing or device_id.lower() in self._allowed

    def _approval_number(self, device_id: str) -> str | None:
        found = self._approvals.of(device_id)
        if found is not None:
            return found.number
        return "" if self.is_allowed(device_id) else None


def given_token(authorization: str) -> str:
    """The token in an ``Authorization`` header: Bearer, or any user's password in Basic."""
    kind, _, value = authorization.strip().partition(" ")
    if kind.lower() != "basic":
        return bare_token(authorization)
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]
