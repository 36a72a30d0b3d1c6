"""Field reports, "History after an interruption": one test per row, the number in its name."""

from __future__ import annotations

import pytest
import trio

from duet_trio.faults.plan import Fault
from duet_trio.lab.judge import judge_heard, judge_prompts
from tests.faults.talk import LONG, Talk, talk

SIX = (
    "This is the first sentence of six. Now comes the second one of them. Here the third one"
    " follows it. The fourth one is as long. Then there is a fifth one too. And the sixth one ends."
)


def told(it: Talk, generation: int) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in it.prompts.prompts[generation][1:]]


def check_heard(it: Talk) -> None:
    assert list(judge_heard(it.answers, it.board, 2.0, exact=True)) == []
    assert list(judge_prompts(it.answers, it.prompts.prompts)) == []


async def test_row_18_only_what_was_heard_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with talk("tts.rtf=0.01", "tts.first_audio_s=0", story=SIX) as it:
        it.board.ask("count for me")
        await it.packets(27)  # 24 heard: the first sentence and a part of the second
        it.board.abort()
        await it.hear_whole(text="go on")
        it.check()
        check_heard(it)
        (_, asked), (_, heard), (_, now) = told(it, 2)
        assert (asked, now) == ("count for me", "go on")
        assert heard == "This is the first sentence of six. Now comes the …"


async def test_row_18_nothing_is_told_twice_after_several_interruptions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(story=SIX) as it:
        for number in range(3):
            it.board.ask(f"question {number}")
            await it.begun(number + 1)
            await it.packets(20)
            it.board.abort()
        await it.hear_whole(text="and now?")
        check_heard(it)
        assert [role for role, _ in told(it, 4)] == ["user", "assistant"] * 3 + ["user"]


@pytest.mark.parametrize("more", [0, 1, 2, 3])
async def test_row_21_a_sentence_heard_to_its_end_is_told_whole(
    autojump_clock: trio.testing.MockClock, more: int
) -> None:
    """The abort comes just when the last packet of a sentence has been played."""
    first = "This is the first sentence of six."
    async with talk("tts.rtf=0.01", "tts.first_audio_s=0", story=SIX) as it:
        it.board.ask("count for me")
        await it.until(
            lambda: it.board.parts and it.board.parts[0].played(trio.current_time()) == 17 + more
        )
        it.board.abort()
        await it.hear_whole(text="go on")
        check_heard(it)
        assert told(it, 2)[1][1].startswith(first)
        assert len(told(it, 2)[1][1]) <= len(first) + 2 * more + 3


async def test_row_22_a_voice_that_falls_silent_is_told_to_the_user_and_not_to_the_model(
    autojump_clock: trio.testing.MockClock,
) -> None:
    silent = Fault(seam="tts.start", effect="hang", generation=1)
    async with talk(faults=[silent]) as it:
        it.board.ask("are you here?")
        await it.until(lambda: it.board.parts and not it.board.speaking)
        assert it.board.parts[0].alerts == ["the voice stopped responding"]
        assert trio.current_time() < 17
        await it.hear_whole(text="and now?")
        it.check()
        assert told(it, 2) == [("user", "are you here?\nand now?")]


async def test_row_23_an_answer_that_nobody_heard_leaves_no_empty_line(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk("tts.first_audio_s=1") as it:
        for text in ("one", "two"):
            it.board.ask(text)
            await trio.sleep(0.5)
            it.board.abort()
            await it.quiet()
        await it.hear_whole(text="three")
        it.check()
        assert told(it, 3) == [("user", "one\ntwo\nthree")]


async def test_an_answer_heard_to_its_end_is_told_whole_and_unmarked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk() as it:
        await it.hear_whole(text="one")
        await it.hear_whole(text="two")
        assert told(it, 2) == [("user", "one"), ("assistant", it.story), ("user", "two")]


@pytest.mark.parametrize("effect", ["error", "hang", "crash", "garbage"])
async def test_a_failed_answer_is_told_as_far_as_it_was_heard(
    autojump_clock: trio.testing.MockClock, effect: str
) -> None:
    fault = Fault(seam="tts.start", effect=effect, generation=1, nth=2, times=2)
    async with talk(story=SIX, faults=[fault]) as it:
        it.board.ask("count for me")
        await it.until(lambda: it.board.parts and not it.board.speaking)
        assert it.outcomes() == ["failed"]
        await it.hear_whole(text="go on")
        check_heard(it)
        heard = told(it, 2)[1][1]
        assert heard.endswith(" …")
        assert SIX.startswith(heard.removesuffix(" …"))


async def test_a_disconnect_starts_a_new_conversation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(story=LONG) as it:
        it.board.ask("a secret")
        await it.packets(20)
        it.board.drop()
        it.board.connect()
        await trio.sleep(0.1)
        await it.hear_whole(text="hello")
        assert told(it, 2) == [("user", "hello")]
        end = it.lab.recorder.select("answer.end", 1)[0]
        assert end["cause"] == "disconnect"
        assert str(end["heard"]).startswith("This is sentence number 0")
