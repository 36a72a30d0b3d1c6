"""Field reports, "Abort, barge-in, stale audio": one test per row, the number in its name."""

from __future__ import annotations

import random

import pytest
import trio

from duet_trio.faults.plan import Fault
from duet_trio.lab.lab import loud
from tests.faults.talk import LONG, STORY, talk


async def test_row_01_nothing_of_the_old_answer_after_a_new_question(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk("tts.first_audio_s=0", "tts.rtf=0.01", stories=[LONG, STORY]) as it:
        it.board.ask("tell me a long story")
        await it.packets(10)
        await trio.sleep(3)
        it.board.ask("and now something else")
        await it.quiet()
        it.check()
        old, new = it.board.parts
        assert {whose for _at, whose in old.packets} == {1}
        assert {whose for _at, whose in new.packets} == {2}
        assert len(new.packets) > 30


@pytest.mark.parametrize("at_s", [0.0, 0.5, 1.0, 1.99])
async def test_row_02_an_abort_before_any_sound_is_not_lost(
    autojump_clock: trio.testing.MockClock, at_s: float
) -> None:
    async with talk("llm.tokens_per_s=0.5", "llm.stall_s=100") as it:
        it.board.ask("a question")
        await trio.sleep(at_s)
        it.board.abort()
        await trio.sleep(0.1)
        assert it.lab.engines.services["llm"].statistics()["running"] == 0
        await trio.sleep(20)
        it.check()
        # At 0.0 s the question may not even have been taken up: then there is no start either.
        assert len(it.board.parts) == 1 or (at_s == 0 and not it.board.parts)
        assert all(not part.packets and part.stopped_at is not None for part in it.board.parts)
        assert it.restarts() == 0


async def test_row_03_the_turn_after_an_abort_is_complete(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk() as it:
        it.board.ask("weather A")
        await it.packets(5)
        it.board.abort()
        part = await it.hear_whole(text="weather B")
        assert part.sentences
        it.check()


async def test_row_04_only_the_last_of_many_answers_is_heard(
    autojump_clock: trio.testing.MockClock,
) -> None:
    draw = random.Random(4)
    async with talk() as it:
        for number in range(10):
            it.board.ask(f"question {number}")
            await trio.sleep(draw.uniform(0, 2))
            it.board.abort()
        part = await it.hear_whole()
        assert {whose for _at, whose in part.packets} == {11}
        it.check()
        await it.quiet()
        assert it.restarts() == 0


async def test_row_05_a_cancelled_job_leaves_nothing_in_the_next_one_and_history_stays_in_step(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The worker goes on with the cancelled job for 1.5 s: its rest must reach nobody."""
    late = Fault(seam="tts.start", effect="late", value=1.5, times=5)
    async with talk(faults=[late]) as it:
        for number in range(5):
            it.board.ask(f"question {number}")
            await it.begun(number + 1)
            await it.packets(8)
            it.board.abort()
        await it.hear_whole(text="the last question")
        it.check()
        roles = [message.role for message in it.prompts.prompts[6]]
        assert roles == ["system", *["user", "assistant"] * 5, "user"]
        assert it.restarts() == 0


async def test_row_06_a_stop_for_every_start_at_two_hundred_abort_times(
    autojump_clock: trio.testing.MockClock,
) -> None:
    draw = random.Random(6)
    async with talk(gpu=False, slots=256) as it:
        for number in range(200):
            it.board.ask(f"question {number}")
            await trio.sleep(draw.choice((draw.uniform(0, 0.4), draw.uniform(0, 3), 0.06 * 20)))
            it.board.abort()
            await trio.sleep(0.01)
            assert not it.board.speaking
        it.check()
        assert len(it.board.parts) == 200
        assert it.board.worst_stop_s <= 0.15
        assert it.restarts() == 0  # 200 cancels of healthy engines kill none


async def test_row_07_a_wake_word_right_behind_an_interrupt_does_not_block(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk("tts.rtf=0.01", story=LONG, slots=256) as it:
        it.board.ask("tell me a long story")
        await it.packets(10)
        it.board.abort()
        await trio.sleep(0.05)
        it.board.abort("wake_word_detected")
        await it.hear_whole()
        it.check()


async def test_row_08_sound_after_fifty_interrupts(autojump_clock: trio.testing.MockClock) -> None:
    async with talk() as it:
        for number in range(50):
            it.board.ask(f"question {number}")
            await it.begun(number + 1)
            await it.packets(1 + number % 7)
            it.board.abort()
        await it.hear_whole()
        it.check()


async def test_row_09_late_sound_of_a_voice_that_ignores_its_cancel_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    late = Fault(seam="tts.block", effect="late", value=10.0, generation=1)
    async with talk(story=LONG, faults=[late], slots=256) as it:
        it.board.ask("tell me a long story")
        await it.packets(5)
        it.board.abort()
        before = len(it.lab.recorder.select("pcm", 1))
        await it.hear_whole()
        assert len(it.lab.recorder.select("pcm", 1)) == before
        it.check()


async def test_row_10_an_abort_between_synthesis_and_the_first_packet(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk("tts.first_audio_s=0.3") as it:
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("tts.start", 1))
        await trio.sleep(0.2)
        assert not it.board.parts[0].packets
        it.board.abort()
        await it.hear_whole()
        assert not it.board.parts[0].packets
        it.check()


async def test_row_11_messages_of_an_older_job_end_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The cancelled job's own end arrives in the middle of the next one (many slots)."""
    late = Fault(seam="tts.start", effect="late", value=0.5, generation=1)
    async with talk(faults=[late], slots=256, gpu=False) as it:
        it.board.ask("a question")
        await it.packets(3)
        it.board.abort()
        await it.hear_whole()
        it.check()


async def test_row_13_a_disconnect_ends_the_answer_and_the_new_connection_hears_nothing_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hang = Fault(seam="llm.token", effect="slow", value=30.0, generation=1)
    async with talk("llm.stall_s=60", faults=[hang]) as it:
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("fault"))
        it.board.drop()
        await trio.sleep(0.2)
        assert it.lab.engines.services["llm"].statistics()["running"] == 0
        it.board.connect()
        await trio.sleep(0.1)
        await it.hear_whole()
        assert it.board.complaints == []


async def test_row_14_after_an_interrupt_only_what_the_board_has_is_heard(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(story=LONG) as it:
        it.board.ask("tell me a long story")
        await it.packets(30)
        at, before = trio.current_time(), len(it.board.parts[-1].packets)
        it.board.abort()
        await it.quiet()
        part = it.board.parts[0]
        assert len(part.packets) - before <= 1
        assert part.plays_until - at <= (3 + 1) * 0.06
        it.check()


@pytest.mark.parametrize("moment", ["thinking", "first packet", "middle"])
async def test_row_15_one_wake_word_is_enough(
    autojump_clock: trio.testing.MockClock, moment: str
) -> None:
    async with talk('asr.script=["what time is it"]') as it:
        it.board.ask("a question")
        await it.begun(1)
        if moment == "first packet":
            await it.packets(1)
        elif moment == "middle":
            await it.packets(20)
        it.board.abort("wake_word_detected")
        await trio.sleep(0.6)  # what lies in the board's buffer is played, then it listens
        await it.board.speak(loud(0.8))
        await it.quiet()
        it.check()
        assert it.answers[2].question == "what time is it"
        assert len(it.board.parts[1].packets) > 30


async def test_row_16_a_ten_minute_answer_can_be_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk("llm.max_tokens=4000", stories=[LONG * 20, STORY], gpu=False) as it:
        it.board.ask("tell me everything")
        await trio.sleep(5)
        it.board.abort()
        await trio.sleep(0.05)
        assert not it.board.speaking
        assert it.board.worst_stop_s < 0.05
        await it.hear_whole()
        it.check()


async def test_row_17_an_abort_does_not_wait_for_an_engine_that_blocks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    block = Fault(seam="tts.start", effect="hang", generation=1)
    async with talk(faults=[block]) as it:
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("fault"))
        await trio.sleep(1)
        it.board.abort()
        await trio.sleep(0.01)
        assert it.board.worst_stop_s < 0.2
        assert not it.board.speaking
        await it.hear_whole()
        it.check()
