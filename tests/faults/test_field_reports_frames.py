"""Field reports, "Frames": one test per row, the number in its name."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import trio

from duet_trio.faults.plan import Fault
from duet_trio.lab.lab import loud
from duet_trio.lab.puppet import spoken_packets
from tests.faults.talk import LONG, STORY, talk


@pytest.mark.parametrize("slow_s", [0.0, 0.02, 0.05, 0.2])
async def test_row_37_the_stop_comes_after_the_last_word(
    autojump_clock: trio.testing.MockClock, slow_s: float
) -> None:
    """Also on a connection that is slow: found by the search, where the last packet vanished."""
    async with talk(slow_s=slow_s) as it:
        part = await it.hear_whole()
        assert part.stopped_at is not None
        assert part.stopped_at >= part.plays_until
        assert part.stopped_at <= part.plays_until + 0.3 + 3 * slow_s
        it.check()


async def test_row_38_never_more_than_the_lead_however_fast_the_voice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(
        "tts.rtf=0.001", "tts.first_audio_s=0", "tts.seconds_per_character=0.06", story=LONG
    ) as it:
        it.board.ask("a question")
        await it.quiet()
        part = it.board.parts[0]
        assert len(part.packets) * 0.06 > 55
        ends = part.played_at
        ahead = [
            sum(end > at + 1e-6 for end in ends[: index + 1])
            for index, (at, _) in enumerate(part.packets)
        ]
        assert max(ahead) == 3
        it.check()


async def test_row_39_eight_boards_keep_time(autojump_clock: trio.testing.MockClock) -> None:
    async with talk(gpu=False, slots=256, boards=8, story=LONG) as it:
        for board in it.boards:
            board.ask("a question")
        await it.quiet()
        it.check()
        for board in it.boards:
            arrivals = [at for at, _whose in board.parts[0].packets]
            gaps = [after - before for before, after in pairwise(arrivals)][3:]
            assert max(gaps) <= 0.065


async def test_row_39_a_connection_of_fifty_ms_a_send_keeps_time_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Found by the search: a pacer that waited for each write lost its lead for good."""
    async with talk("tts.rtf=0.05", slow_s=0.05, story=LONG) as it:
        it.board.ask("a question")
        await it.quiet()
        it.check()
        arrivals = [at for at, _whose in it.board.parts[0].packets]
        whole_s = arrivals[-1] - arrivals[0]
        # A title per sentence costs a send as well; the voice lasts 60 ms a packet.
        assert whole_s <= 0.06 * len(arrivals) + 0.05 * 20
        assert it.lab.recorder.select("underrun") == []


async def test_row_43_a_voice_that_starts_slowly_does_not_stall_while_the_llm_has_more_to_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """LLM and TTS in turns: RTF 1.3 is the engine alone; no turn of the LLM comes on top."""
    slow = Fault(seam="tts.start", effect="slow", value=1.3, generation=1)
    async with talk("tts.rtf=0.5", story=LONG, faults=[slow]) as it:
        it.board.ask("a question")
        await it.quiet()
        it.check()
        turns = it.lab.recorder.select("turn", 1)
        first_tts = next(turn for turn in turns if turn["who"] == "tts")
        begun = float(first_tts["t"]) - float(first_tts["held_ms"]) / 1000
        during = [
            turn
            for turn in turns
            if turn["who"] == "llm" and begun + 0.001 < float(turn["t"]) < float(first_tts["t"])
        ]
        assert during == []


@pytest.mark.parametrize("packet", [b"", b"\x00", b"\xff" * 3, random.Random(1).randbytes(4096)])
async def test_row_44_a_bad_packet_is_skipped_and_counted(
    autojump_clock: trio.testing.MockClock, packet: bytes
) -> None:
    async with talk() as it:
        it.board.raw(packet)
        for good in spoken_packets(loud(0.8)):
            it.board.raw(good)
            await trio.sleep(0.06)
        await it.until(lambda: it.board.parts and not it.board.speaking)
        assert it.outcomes() == ["done"]
        it.check()


async def test_row_45_after_a_thousand_bad_packets_a_good_utterance_is_understood(
    autojump_clock: trio.testing.MockClock,
) -> None:
    draw = random.Random(45)
    async with talk('asr.script=["what time is it"]') as it:
        for _ in range(1000):
            it.board.raw(bytes([0xFF]) + draw.randbytes(draw.randrange(1, 400)))
            await trio.sleep(0.01)
        errors = it.lab.recorder.select("peer.error")
        assert len(errors) == 1  # told once, not a thousand times
        await trio.sleep(3)
        await it.quiet()
        await trio.sleep(1)
        before = len(it.board.parts)
        await it.board.speak(loud(0.8))
        await it.until(lambda: len(it.board.parts) > before and not it.board.speaking)
        assert it.lab.recorder.select("stt")[-1]["text"] == "what time is it"
        it.story = STORY
        await it.hear_whole()
