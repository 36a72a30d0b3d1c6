"""Pulling text: steps, pauses, and every way in which a sequence can be lost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duet_trio.config import LlmSection
from duet_trio.engines.client import LlmClient
from duet_trio.engines.contracts import Inject, Message, WriteRequest, Written
from duet_trio.engines.gpu_turn import GpuTurn
from duet_trio.engines.pipe import (
    Cancel,
    Cancelled,
    CloseStream,
    DoneWrite,
    Failed,
    Pause,
    Ready,
    Text,
    WriteJob,
)
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import EngineCrashedError, EngineFailedError, EngineHungError

pytestmark = pytest.mark.usefixtures("scheduler_seed")

PROMPT = [Message("user", "tell me a story")]
STORY = "Once upon a time there was a small board that could speak. It spoke all day long."


def writer(service: EngineService, **settings: Any) -> LlmClient:
    return LlmClient(service, LlmSection(**settings))


def keep(into: list[str]) -> Any:
    def on_text(text: str) -> bool:
        into.append(text)
        return True

    return on_text


async def test_steps_go_on_where_they_stopped(autojump_clock: MockClock, scripted: Any) -> None:
    service, _ = await scripted("llm", {"script": [STORY]})
    stream = writer(service).start(PROMPT, generation=1)
    got: list[str] = []
    steps: list[Written] = []
    while not steps or not steps[-1].finished:
        steps.append(await stream.write(WriteRequest(4), keep(got)))
    assert "".join(got) == STORY
    assert len(steps) > 3
    assert all(step.tokens <= 4 for step in steps)
    assert [bool(step.prompt_tokens) for step in steps] == [True] + [False] * (len(steps) - 1)
    assert not any(step.reevaluated_tokens for step in steps)


async def test_a_refusal_pauses_and_loses_no_text(autojump_clock: MockClock, scripted: Any) -> None:
    service, _ = await scripted("llm", {"script": [STORY]})
    stream = writer(service).start(PROMPT, generation=1)
    got: list[str] = []

    def three_at_a_time(text: str) -> bool:
        got.append(text)
        return len(got) % 3 != 0

    finished = False
    steps = 0
    while not finished:
        finished = (await stream.write(WriteRequest(64), three_at_a_time)).finished
        steps += 1
    assert "".join(got) == STORY
    assert steps > 3


async def test_two_streams_interleave(autojump_clock: MockClock, scripted: Any) -> None:
    service, _ = await scripted("llm", {"script": ["a" * 40, "b" * 40]}, slots=1)
    llm = writer(service)
    texts: dict[str, str] = {}

    async def answer(name: str) -> None:
        stream = llm.start(PROMPT, generation=1)
        got: list[str] = []
        while not (await stream.write(WriteRequest(2), keep(got))).finished:
            pass
        texts[name] = "".join(got)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, "one")
        nursery.start_soon(answer, "two")
    assert sorted(texts.values()) == ["a" * 40, "b" * 40]


@pytest.mark.parametrize("effect", ["crash", "hang", "garbage"])
async def test_after_a_restart_the_prompt_goes_again(
    autojump_clock: MockClock, scripted: Any, log: Any, effect: str
) -> None:
    service, carrier = await scripted("llm", {"script": [STORY]})
    stream = writer(service).start(PROMPT, generation=7)
    got: list[str] = []
    await stream.write(WriteRequest(5), keep(got))
    with pytest.raises((EngineCrashedError, EngineHungError)):
        await stream.write(WriteRequest(5, Inject(effect, 2)), keep(got))
    assert len(got) == 7, "what had come before the fault was delivered"
    gate = GpuTurn(log)
    async with gate.turn("llm", board=None, generation=7, urgency=lambda: 1.0) as hold:
        written = await stream.write(WriteRequest(500), keep(got), hold)
    assert "".join(got) == STORY
    assert written.reevaluated_tokens > 0
    assert log.of("turn")[0]["reevaluated_tokens"] == written.reevaluated_tokens
    assert carrier.starts == 2


async def test_a_lost_sequence_is_sent_again(autojump_clock: MockClock, scripted: Any) -> None:
    service, carrier = await scripted("llm", {"script": [STORY, "other"]}, sequences=1)
    llm = writer(service)
    stream, other = (llm.start(PROMPT, generation=n) for n in (1, 2))
    got: list[str] = []
    await stream.write(WriteRequest(5), keep(got))
    await other.write(WriteRequest(1), keep([]))
    written = await stream.write(WriteRequest(500), keep(got))
    assert "".join(got) == STORY
    assert written.reevaluated_tokens > 0
    assert carrier.starts == 1


async def test_lost_although_the_prompt_was_sent_is_an_error(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)
    peer = await played.peer(Ready())

    async def lose() -> None:
        for number in (1, 2):
            await peer.next()
            await peer.send(Failed(number, "lost", lost=True))

    nursery.start_soon(lose)
    stream = writer(service).start(PROMPT, generation=1)
    with pytest.raises(EngineFailedError, match="although the prompt was sent"):
        await stream.write(WriteRequest(5), keep([]))


async def test_what_the_worker_is_told(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)
    peer = await played.peer(Ready())
    stream = writer(service).start(PROMPT, generation=1)
    got: list[str] = []

    async def step(number: int, *texts: str) -> Any:
        nursery.start_soon(stream.write, WriteRequest(9), keep(got))
        job = await peer.next()
        await peer.send(*(Text(number, text) for text in texts))
        await peer.send(DoneWrite(number, Written(len(texts), False)))
        await trio.testing.wait_all_tasks_blocked()
        return job

    assert await step(1, "a", "b") == WriteJob(1, 1, 9, PROMPT)
    assert await step(2, "c") == WriteJob(2, 1, 9)
    # Cancelled in mid-step: the worker may be ahead of what anybody got.
    with trio.move_on_after(1):
        await stream.write(WriteRequest(9), keep(got))
    assert [await peer.next(), await peer.next()] == [WriteJob(3, 1, 9), Cancel(3)]
    await peer.send(Text(3, "lost"), Cancelled(3))
    assert await step(4) == WriteJob(4, 1, 9, PROMPT, "abc")
    assert got == ["a", "b", "c"]
    stream.close()
    stream.close()
    assert await peer.next() == CloseStream(1)
    await trio.testing.wait_all_tasks_blocked()
    assert peer.unread() == []


async def test_one_refusal_is_one_pause(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)
    peer = await played.peer(Ready())
    stream = writer(service).start(PROMPT, generation=1)
    got: list[str] = []

    def refuse(text: str) -> bool:
        got.append(text)
        return False

    nursery.start_soon(stream.write, WriteRequest(9), refuse)
    await peer.next()
    await peer.send(Text(1, "a"))
    assert await peer.next() == Pause(1)
    await peer.send(Text(1, "b"), Text(1, "c"), DoneWrite(1, Written(3, False)))
    await trio.testing.wait_all_tasks_blocked()
    assert got == ["a", "b", "c"]
    assert peer.unread() == []


@pytest.mark.parametrize(
    ("at", "passes_at"),
    # 600 characters count as 200 tokens: 1 s more until the first text.
    [(0, 10.0 + 1.0), (3, 3 / 60 + 5.0)],
)
async def test_deadlines_of_a_step(
    autojump_clock: MockClock, scripted: Any, at: int, passes_at: float
) -> None:
    service, _ = await scripted("llm", {"script": [STORY]})
    stream = writer(service).start([Message("user", "x" * 600)], generation=1)
    with pytest.raises(EngineHungError) as caught:
        await stream.write(WriteRequest(64, Inject("hang", at)), keep([]))
    assert trio.current_time() == pytest.approx(passes_at)
    assert caught.value.reason == "the language model stopped responding"


async def test_a_disowned_writer_cannot_go_on_for_ever(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)
    peer = await played.peer(Ready())

    async def babble() -> None:
        job = await peer.next()
        while not peer.handle.scope.cancel_called:
            await peer.send(Text(job.id, "x"))
            await trio.sleep(0.5)

    nursery.start_soon(babble)
    with trio.move_on_after(1):
        await writer(service).start(PROMPT, generation=1).write(WriteRequest(400), keep([]))
    await peer.handle.wait()
    assert trio.current_time() == pytest.approx(1 + 10, abs=0.2)


async def test_control_tokens_wait_for_the_engine(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)

    async def later() -> None:
        await trio.sleep(3)
        await played.peer(Ready(control_tokens=["<|turn>"]))

    nursery.start_soon(later)
    assert await writer(service).control_tokens() == ("<|turn>",)
    assert trio.current_time() == pytest.approx(3)


async def test_a_fresh_worker_is_told_everything_at_once(
    autojump_clock: MockClock, serve: Any, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("llm", played)
    peer = await played.peer(Ready())
    stream = writer(service).start(PROMPT, generation=1)
    nursery.start_soon(stream.write, WriteRequest(9), keep([]))
    await peer.next()
    await peer.send(Text(1, "ab"), DoneWrite(1, Written(1, False)))
    await trio.testing.wait_all_tasks_blocked()
    peer.die()  # between two steps of ours
    peer = await played.peer(Ready())
    nursery.start_soon(stream.write, WriteRequest(9), keep([]))
    assert await peer.next() == WriteJob(1, 1, 9, PROMPT, "ab")
    await peer.send(DoneWrite(1, Written(0, True)))
    await trio.testing.wait_all_tasks_blocked()
    stream.close()
    assert await peer.next() == CloseStream(1)
