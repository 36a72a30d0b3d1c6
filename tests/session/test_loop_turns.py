"""Encoding in turns: few at a time, the poorest first, nothing lost to a cancel."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from duet_trio.session.loop_turns import AT_ONCE, LoopTurns
from duet_trio.session.speech_line import STORE, SpeechLine


class Counting:
    """An encoder that counts; ``frame_bytes`` of any sound."""

    frame_ms = 60
    frame_bytes = 2880

    def __init__(self) -> None:
        self.made = 0

    def encode(self, pcm: bytes) -> bytes:
        self.made += 1
        return b"x"


async def test_few_encode_in_one_pass_and_the_poorest_go_first() -> None:
    turns = LoopTurns()
    order: list[int] = []

    async def encode(stored: int) -> None:
        async with turns.turn(lambda: stored):
            order.append(stored)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(encode, 99)  # come in at once
        await trio.testing.wait_all_tasks_blocked()
        holders = [turns.turn(lambda: 0) for _ in range(AT_ONCE)]
        for holder in holders:
            await holder.__aenter__()
        order.clear()
        for stored in (7, 3, 9, 1, 5):
            nursery.start_soon(encode, stored)
        await trio.testing.wait_all_tasks_blocked()
        assert order == []
        await holders[0].__aexit__(None, None, None)
        await trio.testing.wait_all_tasks_blocked()
        assert order == [1, 3, 5, 7, 9]
        for holder in holders[1:]:
            await holder.__aexit__(None, None, None)


async def test_a_cancel_gives_the_turn_back(scheduler_seed: int) -> None:
    turns = LoopTurns()
    done = 0

    async def encode() -> None:
        nonlocal done
        async with turns.turn(lambda: 0):
            done += 1

    for _ in range(20):
        async with trio.open_nursery() as nursery:
            for _ in range(3 * AT_ONCE):
                nursery.start_soon(encode)
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    done = 0
    async with trio.open_nursery() as nursery:
        for _ in range(3 * AT_ONCE):
            nursery.start_soon(encode)
    assert done == 3 * AT_ONCE


@pytest.mark.parametrize("pieces", [1, 3])
async def test_no_more_than_the_store_is_encoded_in_advance(pieces: int) -> None:
    encoder = Counting()
    line = SpeechLine(encoder)
    packets = 3 * STORE
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        for index in range(pieces):
            line.begin(index, "text")
            line.block(b"\x10\x10" * (packets * 1440))
            line.end()
            assert line.pieces[-1].total == packets
        line.finish()
        whole_s = line.ahead_s
        assert whole_s == pytest.approx(pieces * packets * 0.06)
        await trio.testing.wait_all_tasks_blocked()
        assert encoder.made == STORE
        assert line.ahead_s == pytest.approx(whole_s)  # encoded or not, it waits
        count = 0
        while await line.next_packet() is not None:
            count += 1
            await trio.testing.wait_all_tasks_blocked()
            assert encoder.made == min(STORE + count, pieces * packets)
    assert count == pieces * packets
    assert line.ahead_s == 0


async def test_a_piece_can_be_dropped_while_its_encoder_waits_for_room() -> None:
    line = SpeechLine(Counting())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.encode)
        line.begin(0, "first")
        line.block(b"\x10\x10" * (4 * STORE * 1440))
        await trio.testing.wait_all_tasks_blocked()
        assert line.drop()
        assert line.ahead_s == 0
        line.begin(0, "again")
        line.block(b"\x10\x10" * 1440)
        line.end()
        line.finish()
        packet = await line.next_packet()
        assert packet is not None
        assert (packet.sequence, packet.piece.text) == (0, "again")
        assert await line.next_packet() is None
