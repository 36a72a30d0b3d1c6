"""What the log is told once per board and server run."""

from __future__ import annotations

import logging

import pytest
import trio.testing

from duet_trio.lab.lab import open_lab
from duet_trio.session.once import MOST, Once
from tests.protocol.peer import meeting, scripted


async def test_a_board_that_connects_again_is_not_told_of_barge_in_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_lab(scripted("voice.barge_in=true")) as lab:
            for number in (1, 1, 2, 1):
                device = ("Device-Id", f"02:00:00:00:00:{number:02x}")
                async with meeting(lab, headers=[device]) as peer:
                    await peer.listen("auto")
                    await trio.testing.wait_all_tasks_blocked()
    told = [record for record in caplog.records if "no effect" in record.getMessage()]
    assert len(told) == 2


def test_invented_boards_fill_neither_memory_nor_log() -> None:
    once = Once()
    assert sum(once.is_first(f"board {number}") for number in range(2 * MOST)) == MOST
    assert not once.is_first("board 0")
