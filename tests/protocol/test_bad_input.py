"""Whatever a peer sends: bounded memory, the session lives or is closed with a reason, and
nobody else notices.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct
from typing import Any

import pytest
import trio

from duet_trio.board.script import Question
from duet_trio.lab.lab import Lab, loud, open_lab, quiet
from duet_trio.session.backlog import MAX_BACKLOG_MS
from duet_trio.session.connection import BoardSession
from tests.protocol.peer import HELLO, Ears, Peer, meeting, scripted

SPOKEN = quiet(0.5) + loud(0.8) + quiet(1.0)


def the_session(lab: Lab, device_id: str = "02:00:00:00:00:01") -> BoardSession:
    return lab.boards.sessions[device_id]


def framed(version: int, opus: bytes, *, size: int | None = None, kind: int = 0) -> bytes:
    size = len(opus) if size is None else size
    if version == 2:
        return struct.pack(">HHIII", 2, kind, 0, 0, size & 0xFFFF_FFFF) + opus
    return struct.pack(">BBH", kind & 0xFF, 0, size & 0xFFFF) + opus


async def still_hears(peer: Peer) -> None:
    """The session is as good as new."""
    await peer.listen()
    before = len(peer.messages("stt"))
    stops = len(peer.messages("tts", "stop"))
    await peer.speak(SPOKEN)
    await peer.recognised(before + 1)
    await peer.stopped(stops + 1)
    assert peer.closed is None


@pytest.mark.parametrize("seed", range(3))
async def test_a_thousand_random_packets_then_good_ones(autojump_clock: object, seed: int) -> None:
    rng = random.Random(seed)
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen()
        for _ in range(1000):
            await peer.raw(rng.randbytes(rng.choice((0, 1, 2, 60, 160, 1000, 4095))))
        await trio.sleep(3)
        await peer.say("abort")  # what it made of the noise, if anything
        await trio.sleep(1)
        await still_hears(peer)
        # Once each, however many there were.
        assert len(lab.events("peer.error")) <= 3


@pytest.mark.parametrize("version", [2, 3])
async def test_headers_that_lie(autojump_clock: object, version: int) -> None:
    headers = [("Device-Id", "02:00:00:00:00:01"), ("Protocol-Version", str(version))]
    async with open_lab(scripted()) as lab, meeting(lab, headers=headers, version=version) as peer:
        await peer.listen()
        opus = bytes(80)
        lies = [
            framed(version, opus, size=0),
            framed(version, opus, size=79),
            framed(version, opus, size=81),
            framed(version, opus, size=-1),
            framed(version, opus, kind=1),
            framed(version, opus)[:3],
            framed(version, b""),
            framed(version, bytes(4096)),
            framed(version, bytes(4097)),
            opus,
        ]
        for lie in lies:
            await peer.raw(lie)
        await still_hears(peer)
        assert the_session(lab).statistics.bad_input >= 7


ODD_TEXTS = [
    "",
    "{",
    "[]",
    "null",
    '"hello"',
    "[" * 20_000,
    "{}",
    '{"type":1}',
    '{"type":"listen"}',
    '{"type":"listen","state":"start","mode":"telepathy"}',
    '{"type":"listen","state":7}',
    '{"type":"hello","version":99,"audio_params":"none","features":[]}',
    '{"type":"hello","audio_params":{"sample_rate":-1,"frame_duration":1e9}}',
    '{"type":"iot","descriptors":[]}',
    '{"type":"weather"}',
    '{"type":"mcp"}',
    '{"type":"abort","reason":{}}',
    "\x00\x01",
]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: text[:30])
async def test_texts_that_are_no_message(autojump_clock: object, text: str) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.raw(text)
        await still_hears(peer)


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: text[:30])
async def test_odd_texts_before_the_hello(autojump_clock: object, text: str) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=None) as peer:
        await peer.raw(text)
        await peer.raw(json.dumps(HELLO))
        await peer.until(lambda: peer.messages("hello"), 5)
        await still_hears(peer)


@pytest.mark.parametrize(
    "hello",
    [
        {"type": "hello"},
        {"type": "hello", "version": "3"},
        {"type": "hello", "audio_params": None, "features": None},
        {"type": "hello", "audio_params": {"frame_duration": "60"}},
    ],
    ids=str,
)
async def test_hellos_that_leave_things_out(autojump_clock: object, hello: dict[str, Any]) -> None:
    async with open_lab(scripted()) as lab:
        version = 3 if hello.get("version") == "3" else 1
        async with meeting(lab, hello=hello, version=version) as peer:
            await still_hears(peer)


async def test_two_megabytes_of_json_close_the_connection_with_a_reason(
    autojump_clock: object,
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        with contextlib.suppress(trio.BrokenResourceError):
            await peer.say("listen", state="detect", text="x" * 2_000_000)
        await peer.until(lambda: peer.closed is not None, 10)
        assert peer.closed.code == 1009
        result = await lab.ask("Are you there?", number=2)
        assert result.answered


@pytest.mark.parametrize("version", ["0", "4", "99", "two", ""])
async def test_unknown_framing_versions_fall_back_to_the_hello(
    autojump_clock: object, version: str
) -> None:
    headers = [("Device-Id", "02:00:00:00:00:01"), ("Protocol-Version", version)]
    async with open_lab(scripted()) as lab, meeting(lab, headers=headers) as peer:
        await still_hears(peer)


async def test_a_minute_of_audio_in_a_second(autojump_clock: object) -> None:
    """It is heard or dropped and counted, never kept; other boards are answered meanwhile."""
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: peer.speak(loud(60.0), speed=60))
            result = await lab.ask("Are you there?", number=2)
            assert result.answered
        listener = the_session(lab).listener
        assert len(listener._backlog) * 60 <= MAX_BACKLOG_MS
        # Twenty seconds each at most, whatever came.
        assert all(len(item.pcm) / 32000 <= 20.1 for item in ears.ear.heard)
        await peer.stopped()
        await still_hears(peer)


async def test_the_backlog_is_bounded_and_its_losses_are_counted(autojump_clock: object) -> None:
    """Packets that come in one go, faster than the listener's task runs at all."""
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await trio.sleep(0.1)
        session = the_session(lab)
        for _ in range(1000):
            session.listener.packet(b"\x58")
        session.listener.stop()
        for _ in range(1000):
            session.listener.packet(b"\x58")
        statistics = session.listener.statistics
        assert statistics.packets == 2000
        assert statistics.dropped == 2000 - math.ceil(MAX_BACKLOG_MS / 60)
        assert len(lab.events("peer.error")) == 1
        await trio.sleep(1)
        assert not session.listener.in_speech  # the end of the key was not among the losses


async def test_a_peer_that_never_reads_is_dropped_and_others_are_answered(
    autojump_clock: object,
) -> None:
    """Memory streams take everything, so the full window is made by a transport that waits."""
    stuck = trio.Event()

    class Deaf:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def send(self, data: str | bytes) -> None:
            if isinstance(data, bytes):
                await stuck.wait()
            await self._inner.send(data)

        async def receive(self) -> str | bytes:
            received: str | bytes = await self._inner.receive()
            return received

    async with open_lab(scripted()) as lab:
        wrap = lab.boards._wrap
        lab.boards._wrap = lambda transport, board: (
            Deaf(transport) if board.endswith(":01") else wrap(transport, board)
        )
        async with meeting(lab) as peer:
            await peer.listen()
            await peer.say("listen", state="detect", text="A story, please.")
            result = await lab.board(2).run([Question("Are you there?")])
            assert result.answered
            await peer.until(lambda: peer.closed is not None, 30)
            assert lab.boards.sessions.keys() <= {"02:00:00:00:00:02"}


async def test_a_flood_of_controls_that_nobody_reads_is_bounded(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, reads=False) as peer:
        await trio.sleep(0.1)
        session = the_session(lab)
        with trio.move_on_after(60):
            for _ in range(5000):
                await peer.say("ping")
                assert session.outbox.statistics().controls <= 512
