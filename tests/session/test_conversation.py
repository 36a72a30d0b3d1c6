"""Whole answers on the mock clock: the order on the wire, aborts at any moment, failures."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
import trio

from duet_trio.board.result import BoardResult
from duet_trio.board.script import Action, Question
from duet_trio.config import Config, load
from duet_trio.errors import EngineFailedError
from duet_trio.lab.lab import Lab, loud, open_lab, quiet
from duet_trio.session.answer import Question as Asked

TWO_PIECES = (
    "This is a scripted answer whose first sentence is long enough to be a piece. "
    "And here comes its second sentence, which is a piece of its own as well."
)


def settings(*assignments: str) -> Config:
    return load(
        None,
        [
            "asr.engine=scripted",
            "llm.engine=scripted",
            "tts.engine=scripted",
            f"llm.script=[{TWO_PIECES!r}]",
            "llm.tokens_per_s=50",
            *assignments,
        ],
    )


def wire(lab: Lab) -> list[tuple[str, int | None]]:
    """What left the writer, packets of one answer in a row as one."""
    seen: list[tuple[str, int | None]] = []
    for event in lab.recorder:
        if event["event"] == "sent":
            item = (str(event["what"]), event["generation"])
            if not (seen and seen[-1] == item and item[0] == "frame"):
                seen.append(item)
    return seen


def assert_clean(lab: Lab) -> None:
    """One stop per start, nothing of an answer behind its stop, nothing left over."""
    balance: dict[int, int] = {}
    over: set[int] = set()
    for event in lab.recorder:
        if event["event"] != "sent" or event["generation"] is None:
            continue
        generation, what = event["generation"], event["what"]
        assert generation not in over, f"{what} of answer {generation} after its stop"
        if what == "tts.start":
            balance[generation] = balance.get(generation, 0) + 1
        elif what == "tts.stop":
            balance[generation] -= 1
            over.add(generation)
    assert all(value == 0 for value in balance.values()), balance
    assert lab.services.admission.statistics()["speaking"] == 0
    assert lab.engines.gpu_turn.statistics()["waiting"] in (0, [], ())


def outcomes(lab: Lab) -> list[tuple[Any, Any]]:
    return [(event["outcome"], event["cause"]) for event in lab.recorder.select("answer.end")]


async def test_an_answer_has_the_order_that_boards_rely_on(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(settings()) as lab:
        result = await lab.ask("hello")
        assert wire(lab) == [
            ("hello", None),
            ("stt", 1),
            ("tts.start", 1),
            ("sentence_start", 1),
            ("frame", 1),
            ("sentence_start", 1),
            ("frame", 1),
            ("tts.stop", 1),
        ]
        assert_clean(lab)
    assert outcomes(lab) == [("done", "")]
    assert result.turns[0].answer == TWO_PIECES
    assert result.stalls == []
    assert result.packets_refused == 0


async def test_a_board_is_shown_its_text_in_one_line(autojump_clock: object) -> None:
    script = r"llm.script=['Once it rained\r\n\r\nand then  it stopped.']".replace("'", '"')
    async with open_lab(settings(script)) as lab:
        result = await lab.ask("hello")
    shown = " ".join(text for _, text in result.turns[0].sentences)
    assert shown == "Once it rained and then it stopped."


async def test_the_board_hears_every_packet_before_the_stop(autojump_clock: object) -> None:
    async with open_lab(settings()) as lab:
        result = await lab.ask("hello")
        stop = lab.recorder.select("sent")[-1]
        assert stop["what"] == "tts.stop"
        frames = [event for event in lab.recorder.select("sent") if event["what"] == "frame"]
        spoken_ms = sum(event["audio_ms"] for event in lab.recorder.select("pcm"))
        assert len(frames) * 60 >= spoken_ms - 60 * 2
        # Playback ends a packet after the last one was due to be played; then a margin of two.
        assert stop["t"] - frames[-1]["t"] >= 3 * 0.06
    turn = result.turns[0]
    assert turn.packets_played == len(turn.arrivals_s) == len(frames)


async def test_the_first_packet_keeps_its_distance_from_tts_start(autojump_clock: object) -> None:
    async with open_lab(settings("tts.first_audio_s=0", "llm.tokens_per_s=100000")) as lab:
        await lab.ask("hello")
        sent = lab.recorder.select("sent")
        start = next(event["t"] for event in sent if event["what"] == "tts.start")
        first = next(event["t"] for event in sent if event["what"] == "frame")
    assert 0.12 <= first - start <= 0.13


async def test_the_lead_never_exceeds_three_packets(autojump_clock: object) -> None:
    async with open_lab(settings("tts.rtf=0.01", "tts.first_audio_s=0")) as lab:
        await lab.ask("hello")
        times = [e["t"] for e in lab.recorder.select("sent") if e["what"] == "frame"]
    ends: list[float] = []
    end = 0.0
    largest = 0
    for at in times:
        end = max(end, at) + 0.06
        ends = [other for other in ends if other > at + 1e-6] + [end]
        largest = max(largest, len(ends))
    assert largest == 3


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 0.39, 0.41, 0.7, 1.3, 3.0])
async def test_an_abort_at_any_moment_is_one_stop_and_silence(
    autojump_clock: object, after_s: float
) -> None:
    async with open_lab(settings("llm.gpu=true", "tts.gpu=true")) as lab:
        question = Question(text="first", actions=(Action("abort", after_s, "question"),))
        result = await lab.ask(question, "second")
        assert_clean(lab)
        starts = [item for item in wire(lab) if item[0] == "tts.start"]
        stops = [item for item in wire(lab) if item[0] == "tts.stop"]
        assert len(starts) == 2
        assert len(stops) == 2
    assert outcomes(lab) == [("aborted", "button"), ("done", "")]
    assert result.turns[-1].answer == TWO_PIECES
    assert {mark for _at, mark in result.heard_fingerprints()} <= {None, 1, 2}


@pytest.mark.parametrize("seed", range(6))
async def test_fifty_interrupts_then_one_answer_is_heard_whole(
    autojump_clock: object, seed: int
) -> None:
    rng = random.Random(seed)
    questions: list[Question | str] = [
        Question(text=f"q{n}", actions=(Action("abort", rng.uniform(0, 2), "question"),))
        for n in range(12)
    ]
    async with open_lab(settings("llm.gpu=true", "tts.gpu=true")) as lab:
        result = await lab.ask(*questions, "last")
        assert_clean(lab)
    assert result.turns[-1].answer == TWO_PIECES
    assert outcomes(lab)[-1] == ("done", "")


async def test_an_abort_without_an_answer_gets_a_bare_stop(autojump_clock: object) -> None:
    async with open_lab(settings()) as lab:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lab.ask, "hello")
            await trio.sleep(1.0)
            session = next(iter(lab.boards.sessions.values()))
            session.conversation.abort("button")
            session.conversation.abort("button")
        assert [item for item in wire(lab) if item[0] == "tts.stop"] == [
            ("tts.stop", 1),
            ("tts.stop", None),
        ]


async def test_a_voice_that_fails_once_is_asked_again(autojump_clock: object) -> None:
    """Nothing was heard yet, so the piece is simply made again."""
    plan = settings()
    async with open_lab(plan, wrap=lambda services: _failing(services, times=1)) as lab:
        result = await lab.ask("hello")
        assert_clean(lab)
    assert outcomes(lab) == [("done", "")]
    assert result.turns[0].answer == TWO_PIECES


async def test_the_second_try_goes_before_more_text(
    autojump_clock: object, scheduler_seed: int
) -> None:
    config = settings("llm.gpu=true", "tts.gpu=true")
    async with open_lab(config, wrap=lambda services: _failing(services, times=1)) as lab:
        await lab.ask("hello")
        holds = [event["who"] for event in lab.recorder.select("turn")]
    assert holds[:3] == ["llm", "tts", "tts"]


async def test_a_voice_that_fails_twice_ends_the_answer_with_an_alert(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(settings(), wrap=lambda services: _failing(services, times=2)) as lab:
        result = await lab.ask("hello", "again")
        assert_clean(lab)
    assert outcomes(lab) == [("failed", "out of order"), ("done", "")]
    assert result.turns[0].alerts == ["out of order"]
    assert result.turns[1].answer == TWO_PIECES


@pytest.mark.parametrize("script", ["", "   \n ", "*** --- ***", "<think>only a thought</think>"])
async def test_an_answer_without_words_still_ends(autojump_clock: object, script: str) -> None:
    async with open_lab(settings(f"llm.script={json.dumps([script])}")) as lab:
        result = await lab.ask("hello")
        assert wire(lab)[-3:] == [("stt", 1), ("tts.start", 1), ("tts.stop", 1)]
    assert outcomes(lab) == [("done", "")]
    assert result.turns[0].stops == 1


async def test_disconnecting_ends_the_answer_and_its_engines(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(settings("llm.gpu=true", "tts.gpu=true")) as lab:
        await lab.ask(Question(text="first", actions=(Action("disconnect", 0.5, "audio"),)))
        await trio.sleep(1)
        assert outcomes(lab) == [("aborted", "disconnect")]
        assert lab.boards.sessions == {}
        assert all(status.state == "ready" for status in lab.engines.statuses())
        result = await lab.ask("second", number=2)
    assert result.turns[0].answer == TWO_PIECES


async def test_history_holds_what_was_heard(autojump_clock: object) -> None:
    """Aborted in its second piece: the first is heard whole, the second by its share."""
    async with open_lab(settings()) as lab:
        await lab.ask(Question(text="first", actions=(Action("abort", 6.0, "audio"),)))
        heard = lab.recorder.select("answer.end")[0]["heard"]
    first, second = TWO_PIECES.split(". ")
    assert heard.startswith(first + ".")
    assert 0 < len(heard) - len(first) < len(second)
    assert TWO_PIECES.startswith(heard)


async def test_a_spoken_question_is_recognised_and_answered(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(settings('asr.script=["what time is it"]')) as lab:
        result = await lab.ask(Question(pcm=quiet(0.3) + loud(0.8) + quiet(0.3)))
        assert_clean(lab)
    assert result.turns[0].transcript == "what time is it"
    assert result.turns[0].answer == TWO_PIECES


async def test_two_boards_do_not_mix(autojump_clock: object, scheduler_seed: int) -> None:
    results: dict[int, BoardResult] = {}
    async with open_lab(settings()) as lab:

        async def talk(number: int) -> None:
            results[number] = await lab.ask("one", "two", "three", number=number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, 1)
            nursery.start_soon(talk, 2)
        assert_clean(lab)
        owner = {
            event["generation"]: event["board"] for event in lab.recorder.select("answer.start")
        }
        for number, result in results.items():
            own = {g for g, board in owner.items() if board == result.device_id}
            heard = {mark for _at, mark in result.heard_fingerprints() if mark is not None}
            assert heard == own, number


async def test_the_new_answer_begins_when_the_old_one_is_gone(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(settings()) as lab:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lab.ask, "first")
            await trio.sleep(1.0)  # on the mock clock: in mid-answer
            session = next(iter(lab.boards.sessions.values()))
            session.conversation.ask(Asked("second", trio.current_time()))
        assert_clean(lab)
        order = [
            (event["event"], event["generation"])
            for event in lab.recorder
            if event["event"] in ("answer.start", "answer.end")
        ]
    assert order == [
        ("answer.start", 1),
        ("answer.end", 1),
        ("answer.start", 2),
        ("answer.end", 2),
    ]
    assert outcomes(lab)[0] == ("aborted", "replaced")


class _FailingVoice:
    def __init__(self, inner: Any, times: int) -> None:
        self._inner = inner
        self._left = times

    @property
    def slots(self) -> int:
        return int(self._inner.slots)

    async def speak(self, request: Any, on_block: Any, hold: Any = None) -> Any:
        if self._left:
            self._left -= 1
            await trio.sleep(0.05)
            raise EngineFailedError("scripted failure", engine="tts", reason="out of order")
        return await self._inner.speak(request, on_block, hold)


def _failing(services: Any, *, times: int) -> Any:
    return replace(services, tts=_FailingVoice(services.tts, times))
