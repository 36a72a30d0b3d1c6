"""Framing: exact layouts, sizes checked, nothing but PeerError for what a peer sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duet_trio.errors import PeerError
from duet_trio.wire.framing import MAX_PACKET_BYTES, VERSIONS, Packet, pack, unpack


def test_rule_3_layouts_are_big_endian() -> None:
    assert pack(1, b"opus", 7) == b"opus"
    assert (
        pack(2, b"opus", 0x01020304)
        == bytes.fromhex("0002 0000 00000000 01020304 00000004") + b"opus"
    )
    assert pack(3, b"opus", 7) == bytes.fromhex("00 00 0004") + b"opus"


@given(
    st.sampled_from(VERSIONS),
    st.binary(max_size=300),
    st.integers(min_value=0, max_value=2**32 - 1),
)
def test_round_trip(version: int, opus: bytes, timestamp_ms: int) -> None:
    stamp = timestamp_ms if version == 2 else 0
    assert unpack(version, pack(version, opus, timestamp_ms)) == Packet(opus, stamp)


@given(st.sampled_from(VERSIONS), st.binary(max_size=64))
def test_any_bytes_are_a_packet_or_a_peer_error(version: int, data: bytes) -> None:
    try:
        packet = unpack(version, data)
    except PeerError:
        assert version != 1
    else:
        assert data.endswith(packet.opus)


@given(st.sampled_from([2, 3]), st.binary(max_size=40), st.data())
def test_a_cut_or_padded_packet_is_refused(version: int, opus: bytes, data: st.DataObject) -> None:
    whole = pack(version, opus)
    cut = data.draw(st.integers(min_value=1, max_value=len(whole) - 1))
    with pytest.raises(PeerError):
        unpack(version, whole[:cut])
    with pytest.raises(PeerError):
        unpack(version, whole + b"\0")


def test_wrong_type_and_wrong_version_inside_the_header() -> None:
    with pytest.raises(PeerError, match="type 1"):
        unpack(2, bytes.fromhex("0002 0001 00000000 00000000 00000000"))
    with pytest.raises(PeerError, match="version 3"):
        unpack(2, bytes.fromhex("0003 0000 00000000 00000000 00000000"))
    with pytest.raises(PeerError, match="type 9"):
        unpack(3, bytes.fromhex("09 00 0000"))


@pytest.mark.parametrize("version", VERSIONS)
def test_rule_4_empty_and_tiny_packets(version: int) -> None:
    assert unpack(version, b"") == Packet(b"")
    assert unpack(version, pack(version, b"")) == Packet(b"")
    assert unpack(version, pack(version, b"\xf8")) == Packet(b"\xf8")


@pytest.mark.parametrize("version", VERSIONS)
def test_packet_limit(version: int) -> None:
    longest = bytes(MAX_PACKET_BYTES)
    assert unpack(version, pack(version, longest)).opus == longest
    with pytest.raises(ValueError, match="limit"):
        pack(version, longest + b"\0")
    raw = {1: b"", 2: bytes.fromhex("0002 0000 00000000 00000000 00001001"),
           3: bytes.fromhex("00 00 1001")}[version]  # fmt: skip
    with pytest.raises(PeerError, match="limit"):
        unpack(version, raw + longest + b"\0")


def test_the_stamp_wraps() -> None:
    assert unpack(2, pack(2, b"x", 2**32 + 5)).timestamp_ms == 5


@pytest.mark.parametrize("version", [0, 4, -1])
def test_an_unknown_version_is_our_own_mistake(version: int) -> None:
    with pytest.raises(ValueError, match="version"):
        pack(version, b"")
    with pytest.raises(ValueError, match="version"):
        unpack(version, b"")
