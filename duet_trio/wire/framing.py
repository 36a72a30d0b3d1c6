"""Binary framing: how one Opus packet lies in one binary WebSocket message.

Both directions of a connection use the version that the board announced. All fields are
big-endian. The firmware believes the size field without a check and would read past its
buffer, so `pack` is the only way that audio is framed here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from duet_trio.errors import PeerError

VERSIONS = (1, 2, 3)
#: Longest Opus packet taken. Old firmware caps its own at 1000 bytes, speech is 50 to 250;
#: libopus never makes more than 1275 bytes per frame, 3825 for 60 ms.
MAX_PACKET_BYTES = 4096

_V2 = struct.Struct(">HHIII")  # version, type, reserved, timestamp in ms, payload size
_V3 = struct.Struct(">BBH")  # type, reserved, payload size
_OPUS = 0  # type 1 (JSON) is defined in version 2 and never used


@dataclass(frozen=True, slots=True)
class Packet:
    """One Opus packet. ``timestamp_ms`` is 0 where the framing carries none.

    Uplink, version 2: the stamp of the downlink packet that was being played when this one
    was recorded (boards built for echo cancellation on the server), else 0.
    """

    opus: bytes
    timestamp_ms: int = 0


def unpack(version: int, data: bytes) -> Packet:
    """Take one binary message apart. `PeerError`: truncated, wrong size or type, too long.

    An empty message is an empty packet in every version: silence may be sent so.
    """
    _check_version(version)
    if version == 1 or not data:
        return _packet(data, 0)
    header = _V2 if version == 2 else _V3
    if len(data) < header.size:
        raise PeerError(f"{len(data)} bytes are less than the header of framing {version}")
    timestamp_ms = 0
    if version == 2:
        stated, kind, _reserved, timestamp_ms, size = _V2.unpack_from(data)
        if stated != 2:
            raise PeerError(f"packet says version {stated} in framing 2")
    else:
        kind, _reserved, size = _V3.unpack_from(data)
    if kind != _OPUS:
        raise PeerError(f"packet of type {kind}; only Opus ({_OPUS}) is known")
    opus = data[header.size :]
    if size != len(opus):
        raise PeerError(f"header says {size} bytes, {len(opus)} came")
    return _packet(opus, timestamp_ms)


def pack(version: int, opus: bytes, timestamp_ms: int = 0) -> bytes:
    """Frame one Opus packet. The stamp wraps at 32 bits; framings 1 and 3 do not carry it."""
    _check_version(version)
    if len(opus) > MAX_PACKET_BYTES:
        raise ValueError(f"Opus packet of {len(opus)} bytes; the limit is {MAX_PACKET_BYTES}")
    if version == 1:
        return opus
    if version == 2:
        return _V2.pack(2, _OPUS, 0, timestamp_ms & 0xFFFF_FFFF, len(opus)) + opus
    return _V3.pack(_OPUS, 0, len(opus)) + opus


def _packet(opus: bytes, timestamp_ms: int) -> Packet:
    if len(opus) > MAX_PACKET_BYTES:
        raise PeerError(f"Opus packet of {len(opus)} bytes; the limit is {MAX_PACKET_BYTES}")
    return Packet(bytes(opus), timestamp_ms)


def _check_version(version: int) -> None:
    if version not in VERSIONS:
        raise ValueError(f"framing version {version}; known are 1, 2 and 3")
