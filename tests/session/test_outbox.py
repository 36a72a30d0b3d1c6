"""The outbox: order, room for one packet, and an abort as one step."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from duet_trio.session.outbox import Control, Frame, Item, Outbox, RetiredError
from duet_trio.trace.recorder import ListRecorder
from duet_trio.wire.messages import SentenceStart, TtsStart, TtsStop


def make_outbox() -> Outbox:
    return Outbox(ListRecorder(clock=trio.current_time), "board")


def make_frame(generation: int, sequence: int) -> Frame:
    return Frame(generation, sequence, b"opus", 0.0, 0, lambda _sequence, _at: None)


async def drain(outbox: Outbox) -> list[Item]:
    taken: list[Item] = []
    with trio.move_on_after(0.01):
        while True:
            taken.append(await outbox.take())
    return taken


async def test_items_leave_in_the_order_they_came(autojump_clock: object) -> None:
    outbox = make_outbox()
    outbox.control(TtsStart(), 1)
    await outbox.frame(make_frame(1, 0))
    outbox.control(TtsStop(), 1)
    taken = await drain(outbox)
    assert [type(item) for item in taken] == [Control, Frame, Control]


async def test_a_second_packet_waits_for_room(autojump_clock: object, scheduler_seed: int) -> None:
    outbox = make_outbox()
    await outbox.frame(make_frame(1, 0))
    with trio.move_on_after(1) as waiting:
        await outbox.frame(make_frame(1, 1))
    assert waiting.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.frame, make_frame(1, 2))
        first = await outbox.take()
    second = await outbox.take()
    assert isinstance(first, Frame)
    assert isinstance(second, Frame)
    # The packet whose waiter was cancelled left nothing behind.
    assert (first.sequence, second.sequence) == (0, 2)


async def test_an_abort_leaves_only_the_stop(autojump_clock: object) -> None:
    outbox = make_outbox()
    await outbox.frame(make_frame(7, 0))
    outbox.control(SentenceStart("Hello."), 7)
    assert outbox.retire(7) == 2
    outbox.control(TtsStop(), 7, lasting=True)
    assert not outbox.control(SentenceStart("late"), 7)
    with pytest.raises(RetiredError):
        await outbox.frame(make_frame(7, 1))
    taken = await drain(outbox)
    assert [item.message for item in taken if isinstance(item, Control)] == [TtsStop()]
    assert len(taken) == 1


async def test_a_retired_answer_s_waiter_is_refused(
    autojump_clock: object, scheduler_seed: int
) -> None:
    outbox = make_outbox()
    await outbox.frame(make_frame(3, 0))
    refused: list[int] = []

    async def wait_for_room() -> None:
        try:
            await outbox.frame(make_frame(3, 1))
        except RetiredError:
            refused.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_room)
        await trio.testing.wait_all_tasks_blocked()
        outbox.retire(3)
    assert refused == [1]
    assert await drain(outbox) == []


async def test_the_next_generation_is_not_refused(autojump_clock: object) -> None:
    outbox = make_outbox()
    outbox.retire(3)
    assert not outbox.control(TtsStart(), 2)  # an older one is over as well
    assert outbox.control(TtsStart(), 4)
    await outbox.frame(make_frame(4, 0))
    assert len(await drain(outbox)) == 2


async def test_controls_pile_up_to_a_limit_only(autojump_clock: object) -> None:
    from duet_trio.errors import ConnectionLostError
    from duet_trio.session.outbox import MAX_CONTROLS

    outbox = make_outbox()
    for _ in range(MAX_CONTROLS + 5):
        outbox.control(TtsStop())
    assert outbox.statistics().controls == MAX_CONTROLS
    with pytest.raises(ConnectionLostError):
        await outbox.take()
