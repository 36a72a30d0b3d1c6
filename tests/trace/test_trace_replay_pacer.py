"""A replay agrees with the real pacer, not only with the golden traces' own sender."""

from __future__ import annotations

import math
import struct

import pytest
import trio
from trio.testing import MockClock

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.opus import Encoder
from duet_trio.session.outbox import Outbox
from duet_trio.session.pacer import Pacer
from duet_trio.session.speech_line import SpeechLine
from duet_trio.session.writer import Writer
from duet_trio.trace.gather import Gatherer
from duet_trio.trace.recorder import ListRecorder
from duet_trio.trace.replay import SenderSettings, replay
from duet_trio.trace.statistics import evaluate

BOARD = "02:00:00:00:00:01"

#: Per piece: (pause before the block, audio). Bursts, a starved stretch, an odd last packet.
PIECES = [
    [(0.45, 1.0), (0.19, 0.26), (0.19, 0.32), (0.19, 0.32), (0.19, 0.07)],
    [(0.9, 0.2), (0.5, 0.1), (0.4, 0.4), (0.1, 1.0)],
    [(0.3, 1.21)],
]


def tone(seconds: float) -> bytes:
    """Loud enough that no part of it is a quiet tail."""
    wave = (
        int(12_000 * math.sin(2 * math.pi * 440 * n / SPEECH_RATE_HZ))
        for n in range(round(seconds * SPEECH_RATE_HZ))
    )
    return b"".join(struct.pack("<h", sample) for sample in wave)


async def record(lead: int) -> ListRecorder:
    recorder = ListRecorder(trio.current_time)
    outbox = Outbox(recorder, BOARD)

    async def send(_: str | bytes) -> None:
        await trio.lowlevel.checkpoint()

    writer = Writer(
        outbox,
        send,
        recorder,
        board=BOARD,
        session_id="s",
        version=lambda: 1,
        deadline_s=5.0,
        on_sent=lambda _: None,
    )
    line = SpeechLine(Encoder())
    recorder.emit("answer.start", board=BOARD, generation=1, question="q")
    pacer = Pacer(
        line,
        outbox,
        recorder,
        board=BOARD,
        generation=1,
        lead=lead,
        earliest=trio.current_time() + 0.12,
        start_hold_s=lambda _: 0.0,
    )

    async def speak() -> None:
        for index, blocks in enumerate(PIECES):
            line.begin(index, f"Piece {index}.")
            recorder.emit("tts.start", board=BOARD, generation=1, piece=index, text="x")
            for pause, audio_s in blocks:
                await trio.sleep(pause)
                pcm = tone(audio_s)
                recorder.emit(
                    "pcm", board=BOARD, generation=1, piece=index, audio_ms=audio_s * 1000
                )
                line.block(pcm)
            recorder.emit(
                "tts.end", board=BOARD, generation=1, piece=index, audio_ms=0, capped=False
            )
            line.end()
        line.finish()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        nursery.start_soon(line.encode)
        nursery.start_soon(speak)
        await pacer.run()
        nursery.cancel_scope.cancel()
    return recorder


@pytest.mark.parametrize("lead", [2, 3])
@pytest.mark.usefixtures("scheduler_seed")
async def test_replay_and_pacer_agree(autojump_clock: MockClock, lead: int) -> None:
    gatherer = Gatherer()
    for event in await record(lead):
        gatherer.add(event)
    (answer,) = gatherer.finish()
    found = replay(answer, SenderSettings(lead=lead))
    assert found is not None
    assert found.replayed.packets == found.recorded.packets > 70
    assert found.difference_s is not None
    assert found.difference_s < 1e-3
    assert found.replayed.underruns == found.recorded.underruns > 0
    assert found.replayed.stall_s == pytest.approx(found.recorded.stall_s, abs=2e-3)
    statistics = evaluate(answer)
    assert statistics.packet_stall_s == pytest.approx(found.recorded.stall_s, abs=1e-6)
    assert statistics.underruns == statistics.packet_stalls
