"""Field reports, "Several boards, connections, leaks": one test per row, the number in its name."""

from __future__ import annotations

import gc
import os
from dataclasses import replace

import pytest
import trio

from duet_trio.errors import EngineFailedError
from duet_trio.faults.plan import Fault
from duet_trio.session.services import Services
from tests.faults.talk import LONG, STORY, Talk, talk


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def gone(it: Talk, before: int) -> None:
    with trio.fail_after(2):
        while tasks() > before or it.lab.boards.sessions:  # noqa: ASYNC110
            await trio.sleep(0.05)


async def test_row_47_a_hundred_rounds_of_two_boards_never_mix(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(gpu=False, slots=256, boards=2) as it:
        for number in range(100):
            for board in it.boards:
                board.ask(f"question {number}")
            await it.quiet()
            assert [len(board.parts) for board in it.boards] == [number + 1] * 2
        it.check()
        for board in it.boards:
            mine = [a.generation % 40 for a in it.answers.values() if a.board == board.device_id]
            assert [part.generation for part in board.parts] == mine
        assert it.outcomes() == ["done"] * 200


async def test_row_48_two_boards_share_the_voice_fairly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At RTF 0.4 both may speak at once; neither runs dry for longer than a moment."""
    async with talk("tts.rtf=0.4", "llm.tokens_per_s=400", story=LONG, boards=2) as it:
        await it.hear_whole()  # the measured factor lets two in
        await it.quiet()
        for board in it.boards:
            board.ask("a question")
        await it.quiet()
        it.check()
        for board in it.boards:
            part = board.parts[-1]
            ends = zip(part.packets[1:], part.played_at, strict=False)
            assert max(at - end for (at, _whose), end in ends) < 0.7


async def test_row_48_a_board_that_has_to_wait_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk("tts.rtf=0.8", story=LONG, boards=2) as it:
        for board in it.boards:
            board.ask("a question")
        await it.quiet()
        controls = it.lab.recorder.select("control")
        assert any(event["what"] == "emotion" for event in controls)
        it.check()


async def test_row_50_five_hundred_reconnects_leave_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(gpu=False, slots=256) as it:
        it.board.drop()
        await gone(it, 0 if tasks() == 0 else tasks())
        await trio.sleep(1)
        base, files = tasks(), len(os.listdir("/proc/self/fd"))
        for number in range(500):
            it.board.connect()
            await trio.sleep(0.02)
            if number % 2:
                it.board.ask("a question")
                await trio.sleep(0.3)
            if number % 3 == 0:
                it.board.abort()
            it.board.drop()
        await gone(it, base)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= files
        assert it.restarts() == 0
        it.board.connect()
        await trio.sleep(0.1)
        await it.hear_whole()


async def test_row_51_a_board_that_is_switched_off_ends_its_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stall = Fault(seam="socket.send", effect="half_open", nth=20, value=100)
    async with talk(faults=[stall], story=LONG) as it:
        before = tasks()
        it.board.ask("a question")
        await it.until(lambda: it.lab.recorder.select("fault"))
        await it.until(lambda: not it.lab.boards.sessions, limit_s=10)
        ends = it.lab.recorder.select("answer.end")
        assert [end["cause"] for end in ends] == ["disconnect"]
        await trio.sleep(1)
        assert tasks() < before
        assert it.lab.engines.services["tts"].statistics()["running"] == 0


@pytest.mark.parametrize(
    "moment", ["nothing", "answer.start", "llm.first", "tts.start", "pcm", "sent", "llm.end"]
)
async def test_row_52_a_disconnect_in_any_phase_ends_everything(
    autojump_clock: trio.testing.MockClock, moment: str, scheduler_seed: int
) -> None:
    async with talk() as it:
        it.board.drop()
        await trio.sleep(0.5)
        before = tasks()
        it.board.connect()
        await trio.sleep(0.1)
        if moment != "nothing":
            it.board.ask("a question")
            await it.until(lambda: it.lab.recorder.select(moment, 1))
        it.board.drop()
        await trio.sleep(1)
        assert tasks() == before
        assert not it.lab.boards.sessions
        await it.quiet()
        assert it.restarts() == 0


@pytest.mark.parametrize("where", ["start", "write", "speak", "tokens", "encode"])
@pytest.mark.parametrize("error", [ValueError("a defect"), EngineFailedError("no", reason="no")])
async def test_row_54_a_defect_in_one_answer_ends_only_that_answer(
    autojump_clock: trio.testing.MockClock,
    where: str,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fails = [True]

    def broken(services: Services) -> Services:
        llm, tts, make = services.llm, services.tts, services.make_encoder

        def once(name: str) -> None:
            if where == name and fails:
                fails.clear()
                raise error

        class Stream:
            def __init__(self, inner: object) -> None:
                self._inner = inner

            async def write(self, *args: object) -> object:
                once("write")
                return await self._inner.write(*args)  # type: ignore[attr-defined]

            def close(self) -> None:
                self._inner.close()  # type: ignore[attr-defined]

        class Llm:
            slots = 1

            def start(self, messages: object, *, generation: int) -> Stream:
                once("start")
                return Stream(llm.start(messages, generation=generation))  # type: ignore[arg-type]

            async def control_tokens(self) -> object:
                once("tokens")
                return await llm.control_tokens()

        class Tts:
            slots = 1

            async def speak(self, *args: object) -> object:
                once("speak")
                return await tts.speak(*args)  # type: ignore[arg-type]

        class Encoder:
            def __init__(self) -> None:
                self._inner = make()
                self.frame_ms = self._inner.frame_ms
                self.frame_bytes = self._inner.frame_bytes

            def encode(self, pcm: bytes) -> bytes:
                once("encode")
                return self._inner.encode(pcm)

        return replace(services, llm=Llm(), tts=Tts(), make_encoder=Encoder)  # type: ignore[arg-type]

    async with talk(wrap=broken, boards=2, gpu=False, slots=256) as it:
        for board in it.boards:
            board.ask("a question")
        await it.quiet()
        assert not fails
        assert it.lab.boards.sessions.keys() == {board.device_id for board in it.boards}
        for board in it.boards:
            await it.hear_whole(board)
        it.check()
    retried = where == "speak" and isinstance(error, EngineFailedError)
    assert sorted(it.outcomes()) == ["done"] * (3 + retried) + ["failed"] * (not retried)


async def test_row_55_the_newest_connection_of_an_id_wins_and_the_old_one_ends_cleanly(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talk(story=LONG) as it:
        old = it.board._wire
        assert old is not None
        it.board.ask("a question")
        await it.packets(5)
        it.board.connect()
        await trio.sleep(0.1)
        assert old.gone.is_set()
        closes = it.lab.recorder.select("board.close")
        assert [event["reason"] for event in closes] == ["replaced by a newer connection"]
        assert len(it.lab.boards.sessions) == 1
        it.story = LONG
        await it.hear_whole()
        assert it.board.complaints == []
        assert STORY
