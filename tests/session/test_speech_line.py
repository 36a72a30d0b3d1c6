"""PCM in, packets out: nothing voiced is held back, a piece can be dropped while unheard."""

from __future__ import annotations

import numpy as np
import trio
import trio.testing

from duet_trio.opus import Encoder
from duet_trio.session.speech_line import Packet, SpeechLine

FRAME_BYTES = 2 * 24_000 * 60 // 1000


def tone(seconds: float) -> bytes:
    times = np.arange(int(24_000 * seconds)) / 24_000
    return bytes((8000 * np.sin(2 * np.pi * 440 * times)).astype("<i2").tobytes())


async def collect(line: SpeechLine) -> list[Packet]:
    packets = []
    while (packet := await line.next_packet()) is not None:
        packets.append(packet)
    return packets


async def test_a_packet_leaves_as_soon_as_it_is_full(autojump_clock: object) -> None:
    line = SpeechLine(Encoder())
    line.begin(0, "Hello.")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.block(tone(0.13))
        await trio.testing.wait_all_tasks_blocked()
        first, second = await line.next_packet(), await line.next_packet()
        assert first is not None
        assert second is not None
        # The rest, less than a packet, waits for more of its piece, and leaves at its end.
        assert line.pieces[0].packets == 2
        line.end()
        last = await line.next_packet()
        assert last is not None
        assert line.pieces[0].packets == 3
        line.finish()
        assert await line.next_packet() is None


async def test_pieces_and_packets_coincide(autojump_clock: object, scheduler_seed: int) -> None:
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        for index, seconds in enumerate((0.1, 0.3, 0.05)):
            line.begin(index, f"piece {index}")
            line.block(tone(seconds))
            line.end()
        line.finish()
        packets = await collect(line)
    assert [packet.sequence for packet in packets] == list(range(2 + 5 + 1))
    assert [piece.packets for piece in line.pieces] == [2, 5, 1]
    assert [piece.first_sequence for piece in line.pieces] == [0, 2, 7]
    assert all(piece.ended for piece in line.pieces)


async def test_an_unheard_piece_can_be_dropped(autojump_clock: object, scheduler_seed: int) -> None:
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.begin(0, "Heard.")
        line.block(tone(0.12))
        line.end()
        line.begin(1, "Broken.")
        line.block(tone(0.3))
        await trio.testing.wait_all_tasks_blocked()
        assert line.drop()
        line.begin(1, "Again.")
        line.block(tone(0.06))
        line.end()
        line.finish()
        packets = await collect(line)
    assert [packet.piece.text for packet in packets] == ["Heard.", "Heard.", "Again."]
    assert [packet.sequence for packet in packets] == [0, 1, 2]


async def test_a_piece_that_has_been_fetched_cannot_be_dropped(autojump_clock: object) -> None:
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.begin(0, "Half heard.")
        line.block(tone(0.3))
        assert await line.next_packet() is not None
        assert not line.drop()
        line.end()
        line.finish()
        assert len(await collect(line)) == 4


async def test_an_answer_without_audio_ends(autojump_clock: object) -> None:
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.finish()
        assert await line.next_packet() is None
    assert line.audible_or_over.is_set()


async def test_room_opens_when_packets_are_fetched(
    autojump_clock: object, scheduler_seed: int
) -> None:
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.begin(0, "Long.")
        line.block(tone(1.2))
        line.end()
        with trio.move_on_after(5) as waiting:
            await line.room(0.5)
        assert waiting.cancelled_caught
        for _ in range(12):
            assert await line.next_packet() is not None
        await line.room(0.5)
        assert line.ahead_s <= 0.5
        line.finish()


async def test_room_opens_when_a_long_quiet_tail_is_dropped(
    autojump_clock: object, scheduler_seed: int
) -> None:
    """A voice that ran on in silence until its cap: nothing of that is ever sent."""
    line = SpeechLine(Encoder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.begin(0, "Word.")
        line.block(tone(0.3))
        for _ in range(50):
            line.block(bytes(FRAME_BYTES * 4))
        await trio.testing.wait_all_tasks_blocked()
        while line._packets:  # the pacer has fetched all that there is
            assert await line.next_packet() is not None
        with trio.fail_after(60):
            async with trio.open_nursery() as waiting:
                waiting.start_soon(line.room, 10.0)
                await trio.testing.wait_all_tasks_blocked()
                assert line.ahead_s > 10.0
                line.end()
        assert line.ahead_s < 1.0
        line.finish()
