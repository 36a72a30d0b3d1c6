"""The lead counts what the board itself holds, on a slow connection as well."""

from __future__ import annotations

import pytest
import trio

from duet_trio.session.outbox import Control, Outbox
from duet_trio.session.pacer import FRAME_S, Pacer
from duet_trio.session.speech_line import SpeechLine
from duet_trio.trace.recorder import ListRecorder

LEAD = 3


class Silence:
    """An encoder whose packets are empty."""

    frame_ms = 60
    frame_bytes = 2880

    def encode(self, pcm: bytes) -> bytes:
        return b"x"


@pytest.mark.parametrize("stall_s", [0.0, 0.15, 0.4, 3.0])
@pytest.mark.parametrize("send_s", [0.0, 0.02, 0.05])
async def test_the_board_never_holds_more_than_the_lead(
    autojump_clock: object, scheduler_seed: int, send_s: float, stall_s: float
) -> None:
    recorder = ListRecorder(clock=trio.current_time)
    outbox = Outbox(recorder, "board")
    line = SpeechLine(Silence())
    pacer = Pacer(
        line, outbox, recorder,
        board="board", generation=1, lead=LEAD, earliest=0.0, start_hold_s=lambda _text: 0.0,
    )  # fmt: skip
    written: list[float] = []

    async def write() -> None:
        while True:
            item = await outbox.take()
            if isinstance(item, Control):
                continue
            await trio.sleep(stall_s if len(written) == 20 else send_s)
            written.append(trio.current_time())
            item.on_sent(item.sequence, trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(line.encode)
        line.begin(0, "A long piece.")
        line.block(b"\x10\x10" * (Silence.frame_bytes // 2) * 120)
        line.end()
        line.finish()
        await pacer.run()
        nursery.cancel_scope.cancel()

    assert len(written) == 120
    ends: list[float] = []
    end = 0.0
    for at in written:
        end = max(end, at) + FRAME_S
        ends = [other for other in ends if other > at + 1e-9] + [end]
        assert len(ends) <= LEAD, f"{len(ends)} packets on the board at {at:.3f}"
