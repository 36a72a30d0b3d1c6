"""A stalled model's text goes to the voice at the very moment at which something else happens."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
import trio

from duet_trio.lab.lab import loud
from tests.faults.talk import Talk, talk

#: Four characters a token, and each is followed by a stall that is longer than `llm.flush_s`.
SLOW = ("llm.tokens_per_s=0.8", "llm.stall_s=100", "llm.first_s=100")
STORY = "Yes. It is so. No doubt. Well, now."


def pieces_of(it: Talk, generation: int) -> list[float]:
    """When its pieces were made, counted from its start."""
    (start,) = it.lab.events("answer.start", generation)
    return [float(str(e["t"])) - float(str(start["t"])) for e in it.lab.events("piece", generation)]


def question(it: Talk) -> None:
    it.board.ask("something else")


def hang_up(it: Talk) -> None:
    it.board.drop()
    it.board.connect()


def duplicate(it: Talk) -> None:
    it.board.vanish()
    it.board.connect()


ENDS: dict[str, Callable[[Talk], None]] = {
    "button": lambda it: it.board.abort(),
    "wake word": lambda it: it.board.abort("wake_word_detected"),
    "talk key": lambda it: it.board.press(),
    "question": question,
    "hang up": hang_up,
    "duplicate": duplicate,
}


@pytest.mark.parametrize("name", ENDS)
async def test_an_answer_that_ends_as_it_is_flushed(
    name: str, autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk(*SLOW, story=STORY, gpu=False) as it:
        await it.hear_whole()
        flushed = pieces_of(it, 1)
        assert len(flushed) > 2
        assert all(later - earlier >= 1.0 for earlier, later in pairwise(flushed))
        for at_s in flushed:
            for offset_s in (0.0, -1e-6, 1e-6):
                it.board.ask("a question")
                await it.until(lambda: it.board.speaking)
                begun = trio.current_time()
                await trio.sleep_until(begun + at_s + offset_s)
                ENDS[name](it)
                if name != "question":
                    await trio.sleep(0.01)
                    assert not it.board.speaking
        it.board.abort()
        await it.quiet()
        await it.hear_whole()
        it.check()
        assert it.restarts() == 0


async def test_barge_in_and_endpoint_while_the_model_stalls(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    draw = random.Random(scheduler_seed)
    settings = (*SLOW, "voice.barge_in=true", "asr.script=['stop it']")
    async with talk(*settings, story=STORY, gpu=False) as it:
        it.board.mode = "realtime"
        it.board.connect()
        await trio.sleep(0.1)
        for _ in range(8):
            it.board.ask("a question")
            await it.until(lambda: it.board.speaking)
            await trio.sleep(draw.uniform(0, 8))
            await it.board.speak(loud(0.6))
            await it.until(lambda: it.board.speaking)
            it.board.abort()
            await trio.sleep(0.01)
            assert not it.board.speaking
        assert "barge_in" in {str(event["cause"]) for event in it.lab.events("abort")}
        it.board.mode = "auto"
        it.board.connect()
        await it.quiet()
        await it.hear_whole()
        it.check()


async def test_random_ends_of_answers_of_many_boards(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async with talk(*SLOW, "llm.flush_s=0.2", story=STORY, gpu=False, boards=6, slots=256) as it:

        async def trouble(number: int) -> None:
            draw = random.Random(100 * scheduler_seed + number)
            board = it.boards[number]
            for _ in range(25):
                board.ask("a question")
                await trio.sleep(
                    draw.choice((draw.uniform(0, 12), 1.25 * draw.randint(0, 9) + 0.2))
                )
                if draw.random() < 0.8:
                    board.abort(draw.choice(("", "wake_word_detected")))
                    await trio.sleep(0.001)
                    assert not board.speaking
                elif draw.random() < 0.5:
                    board.drop()
                    board.connect()
            board.abort()

        async with trio.open_nursery() as nursery:
            for number in range(len(it.boards)):
                nursery.start_soon(trouble, number)
        await it.quiet()
        for board in it.boards:
            await it.hear_whole(board)
        it.check()
        assert it.restarts() == 0


async def test_engines_that_share_a_card_take_turns_as_ever(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    """No flush: with any ``llm.flush_s`` the same pieces and turns at the same moments."""
    runs = []
    for flush_s in ("0.001", "1000"):
        async with talk(*SLOW, f"llm.flush_s={flush_s}", story=STORY) as it:
            await it.hear_whole()
            held = [(e["who"], e["held_ms"]) for e in it.lab.events("turn", 1)]
            runs.append((pieces_of(it, 1), held))
    (made, turns), (other, other_turns) = runs
    assert made == pytest.approx(other)
    assert turns == other_turns
    assert len(made) == 1
