"""Each firmware generation in each mode: silent soon after an abort, and never left speaking."""

from __future__ import annotations

from typing import Any

import pytest

from duet_trio.board.firmware import FIRMWARES, firmware
from duet_trio.board.script import Action, Question
from duet_trio.lab.lab import open_lab
from tests.protocol.peer import scripted

FRAME_S = 0.06
LEAD = 3
#: What no firmware takes back: the packet that is being decoded, the DMA buffer.
INSIDE_S = 0.12

every_mode = pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
every_firmware = pytest.mark.parametrize("name", FIRMWARES)


@every_firmware
@every_mode
@pytest.mark.parametrize("deed", ["button", "press", "wake_word"])
async def test_an_abort_is_silent_after_the_lead_and_one_packet(
    autojump_clock: object, name: str, mode: Any, deed: Any
) -> None:
    async with open_lab(scripted()) as lab:
        board = lab.board(firmware=name, mode=mode, wake_word_always=True)
        result = await board.run([Question("First?", actions=(Action(deed, after_s=2.0),))])
        (turn,) = result.turns
        assert turn.abort_s is not None
        last_sound_s = max(sound.end_s for sound in result.heard) - result.origin_s
        limit_s = (
            INSIDE_S
            if firmware(name).silent_abort and deed != "press"
            else INSIDE_S + (LEAD + 1) * FRAME_S
        )
        assert last_sound_s - turn.abort_s <= limit_s
        assert board._device.board.state != "speaking"
        assert turn.frames_after_stop == 0
        assert len(lab.events("abort")) == 1


@every_firmware
@every_mode
@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.13, 0.4, 3.0])
async def test_the_answer_after_an_abort_is_heard_whole(
    autojump_clock: object, name: str, mode: Any, after_s: float
) -> None:
    async with open_lab(scripted()) as lab:
        board = lab.board(firmware=name, mode=mode)
        action = Action("button", after="start", after_s=after_s)
        result = await board.run([Question("First?", actions=(action,)), Question("Second?")])
        answer = result.turns[-1]
        (generation,) = {
            e["generation"] for e in lab.events("answer.end") if e["outcome"] == "done"
        }
        frames = [e for e in lab.events("sent", int(str(generation))) if e["what"] == "frame"]
        assert answer.packets_played == len(frames) > 100
        # Head and tail: the sound of all its packets came out of the loudspeaker.
        end_s = max(sound.end_s for sound in result.heard) - result.origin_s
        assert answer.first_packet_s is not None
        assert end_s - answer.first_packet_s >= len(frames) * FRAME_S - 0.001
        assert board._device.board.state != "speaking"
        assert not result.failure


@every_firmware
async def test_a_lost_answer_leaves_no_board_speaking(autojump_clock: object, name: str) -> None:
    """The voice fails in the middle of an answer."""
    from duet_trio.faults.plan import Fault, Plan

    plan = Plan(fault=tuple(Fault(seam="tts.block", effect="error", nth=n) for n in (3, 4)))
    async with open_lab(scripted(), plan=plan) as lab:
        board = lab.board(firmware=name)
        result = await board.run([Question("First?"), Question("Second?")])
        assert board._device.board.state != "speaking"
        assert [turn.stops for turn in result.turns] == [1, 1]
