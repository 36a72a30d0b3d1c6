"""Field reports, "TTS / LLM timeouts, hangs, runaway": one test per row, the number in its name."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import trio

from duet_trio.engines.contracts import Hold, WriteRequest, Written
from duet_trio.faults.plan import Fault
from duet_trio.speech.caps import audio_cap_s
from tests.faults.talk import LONG, STORY, Talk, talk

DEADLINE_S = 5.0  # tts.first_s


async def failed(it: Talk) -> float:
    """Wait until the answer under way has failed; seconds from the fault to its stop."""
    await it.until(lambda: it.board.parts and not it.board.speaking)
    part = it.board.parts[-1]
    assert part.alerts
    assert part.stopped_at is not None
    return part.stopped_at - float(it.lab.recorder.select("fault")[0]["t"])


async def test_row_24_a_hang_in_the_last_sentence_ends_within_its_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hang = Fault(seam="tts.start", effect="hang", match="Then it ends")
    async with talk(faults=[hang], story=LONG + " Then it ends here.") as it:
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("fault"))
        assert await failed(it) <= DEADLINE_S + 0.5
        it.story = LONG + " Then it ends here."
        it.check()


@pytest.mark.parametrize("effect", ["hang", "garbage", "error"])
async def test_row_25_every_call_has_a_deadline_and_what_is_no_audio_is_an_error(
    autojump_clock: trio.testing.MockClock, effect: str
) -> None:
    faults = [
        Fault(seam=seam, effect=effect, generation=generation, times=2)
        for generation, seam in ((1, "tts.start"), (2, "llm.piece"))
    ]
    async with talk(faults=faults) as it:
        for number in (1, 2):
            it.board.ask(f"question {number}")
            await it.begun(number)
            await it.until(lambda: not it.board.speaking, limit_s=15)
            part = it.board.parts[-1]
            assert part.alerts
            assert all(whose is not None for _at, whose in part.packets)
        await it.hear_whole()
        it.check()


async def test_row_26_a_good_call_after_ten_timeouts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hang = Fault(seam="tts.start", effect="hang", times=10)
    async with talk("tts.first_s=1", faults=[hang], boards=2) as it:
        for number in range(10):
            it.board.ask(f"question {number}")
            await it.begun(number + 1)
            await it.until(lambda: not it.board.speaking)
        await it.until(lambda: it.lab.engines.ready)
        for board in it.boards:
            board.connect()  # the restarts took longer than an idle connection lasts
            await trio.sleep(0.1)
            await it.hear_whole(board)
        it.check()
        assert it.restarts() == 10


async def test_row_27_two_hundred_aborted_streams_leave_none_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    opened: list[int] = []
    closed: list[int] = []

    class Counting:
        """A stream that counts its closing."""

        def __init__(self, inner: object, number: int) -> None:
            self._inner = inner
            self._number = number
            opened.append(number)

        async def write(
            self, request: WriteRequest, on_text: object, hold: Hold | None = None
        ) -> Written:
            return await self._inner.write(request, on_text, hold)  # type: ignore[attr-defined, no-any-return]

        def close(self) -> None:
            closed.append(self._number)
            self._inner.close()  # type: ignore[attr-defined]

    class CountingLlm:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def start(self, messages: object, *, generation: int) -> Counting:
            inner = self._inner.start(messages, generation=generation)  # type: ignore[attr-defined]
            return Counting(inner, generation)

        async def control_tokens(self) -> list[str]:
            return []

    async with talk(
        wrap=lambda services: replace(services, llm=CountingLlm(services.llm))  # type: ignore[arg-type]
    ) as it:
        for number in range(200):
            it.board.ask(f"question {number}")
            await trio.sleep(0.05 + number % 5 * 0.05)
            it.board.abort()
        await it.hear_whole()
        await it.quiet()
        assert len(opened) > 200
        assert opened == closed
        assert it.restarts() == 0


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_row_29_success_without_sound_is_a_failure_and_blocks_nothing(
    autojump_clock: trio.testing.MockClock, times: int
) -> None:
    empty = Fault(seam="tts.start", effect="empty", times=times)
    async with talk(faults=[empty]) as it:
        it.board.ask("a question")
        await it.until(lambda: it.board.parts and not it.board.speaking, limit_s=60)
        # Once: a second attempt with another seed; twice: the answer ends with a word why.
        assert it.board.parts[0].alerts == ([] if times == 1 else ["the voice made no sound"])
        await it.hear_whole()
        it.check()
        assert it.restarts() == 0


@pytest.mark.parametrize("text", ["", "   ", "<think>only a thought</think>", "**"])
async def test_row_30_an_answer_without_words_ends(
    autojump_clock: trio.testing.MockClock, text: str
) -> None:
    async with talk(stories=[text, STORY]) as it:
        it.board.ask("a question")
        await it.until(lambda: it.board.parts and not it.board.speaking, limit_s=5)
        assert not it.lab.recorder.select("tts.start", 1)
        assert it.board.parts[0].packets == []
        it.story = STORY
        await it.hear_whole()
        it.check()


@pytest.mark.parametrize(
    "moment", ["queued", "answer.start", "llm.first", "tts.start", "pcm", "sent", "llm.end"]
)
async def test_row_31_a_cancelled_answer_always_ends(
    autojump_clock: trio.testing.MockClock, moment: str, scheduler_seed: int
) -> None:
    async with talk() as it:
        it.board.ask("a question")
        if moment != "queued":
            await it.until(lambda: it.lab.recorder.select(moment, 1))
        it.board.abort()
        await trio.sleep(0.001)
        await it.hear_whole()
        it.check()


async def test_row_32_a_voice_without_end_is_cut_and_the_answer_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    endless = Fault(seam="tts.block", effect="endless", generation=1, nth=2)
    async with talk(faults=[endless], story=LONG) as it:
        it.board.ask("a question")
        await it.until(lambda: it.board.parts and not it.board.speaking)
        assert it.outcomes() == ["done"]
        ends = it.lab.recorder.select("tts.end", 1)
        assert [end["capped"] for end in ends] == [True] + [False] * (len(ends) - 1)
        first = str(it.lab.recorder.select("tts.start", 1)[0]["text"])
        assert ends[0]["audio_ms"] == pytest.approx(1000 * audio_cap_s(first), abs=1)
        assert len(ends) > 2
        it.check()
        assert it.restarts() == 0


async def test_row_33_a_job_that_cannot_be_cancelled_goes_with_its_worker(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hang = Fault(seam="tts.start", effect="hang", generation=1)
    async with talk(faults=[hang], load_s=0.5) as it:
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("fault"))
        at = trio.current_time()
        it.board.abort()
        await trio.sleep(0.1)
        assert it.lab.engines.gpu_turn.statistics()["holder"] == "tts"  # not yet: it computes
        await it.until(lambda: it.lab.engines.gpu_turn.statistics()["holder"] is None)
        killed_after = trio.current_time() - at
        await it.until(lambda: it.lab.engines.ready)
        assert killed_after <= DEADLINE_S
        assert trio.current_time() - at - killed_after <= 0.5 + 0.3  # its load, and a moment
        await it.hear_whole()
        it.check()


async def test_row_35_stop_and_play_again_a_hundred_times(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(gpu=False) as it:
        for number in range(100):
            it.board.ask(f"question {number}")
            await it.begun(number + 1)
            await it.packets(1 + number % 4)
            it.board.abort()
        await it.hear_whole()
        it.check()
        assert it.restarts() == 0


async def test_row_36_a_slow_writer_is_heard_from_its_first_sentence_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk("llm.tokens_per_s=5", "tts.seconds_per_character=0.06", story=LONG) as it:
        it.board.ask("a question")
        await it.packets(1)
        first_s = trio.current_time() - it.board.parts[0].started_at
        written = "".join(it.answers[1].pieces)
        assert len(written) < len(LONG) / 3
        assert first_s < 60 / 4 / 5 * 2 + 1  # about two sentences of 14 tokens at 5 a second
        await it.quiet()
        assert it.outcomes() == ["done"]
        it.check()


async def test_a_hang_of_the_recogniser_is_told_and_the_next_utterance_is_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    from duet_trio.lab.lab import loud

    hang = Fault(seam="asr.call", effect="hang")
    async with talk(faults=[hang]) as it:
        await it.board.speak(loud(0.8))
        await it.until(lambda: it.board.alerts, limit_s=12)
        assert it.board.alerts[0][1] == "speech recognition stopped responding"
        await it.board.speak(loud(0.8))
        await it.until(lambda: it.board.parts and not it.board.speaking)
        assert len(it.board.parts[0].packets) == math.ceil(len(STORY) / 2) or it.answers
        it.check()
