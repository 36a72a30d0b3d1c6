"""Output reaches its caller from the reader's task: what if that happens as the caller leaves?"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duet_trio.config import LlmSection, TtsSection
from duet_trio.engines.client import LlmClient, TtsClient
from duet_trio.engines.contracts import Message, SpeechRequest, Spoken, WriteRequest, Written
from duet_trio.engines.pipe import (
    Block,
    Cancel,
    Cancelled,
    DoneSpeak,
    DoneWrite,
    Ready,
    SpeakJob,
    Text,
    WriteJob,
    encode,
)
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import EngineCrashedError

pytestmark = pytest.mark.usefixtures("scheduler_seed")

Serve = Callable[..., Awaitable[EngineService]]
REQUEST = SpeechRequest("x" * 50, generation=1, piece=0, cap_s=60.0)


class UnwelcomeError(Exception):
    """What a callback raises."""


def blocks(job: int, count: int) -> bytes:
    """So many blocks as one chunk; each says its number."""
    return b"".join(encode(Block(job, number.to_bytes(2, "little"))) for number in range(count))


class Caller:
    """Speaks one piece; notes what came, and what came too late."""

    def __init__(self, tts: TtsClient, raise_at: int = -1) -> None:
        self._tts = tts
        self._raise_at = raise_at
        self.scope = trio.CancelScope()
        self.left = trio.Event()
        self.got: list[int] = []
        self.late = 0
        self.outcome = "cancelled"

    def take(self, pcm: bytes) -> None:
        self.late += self.left.is_set()
        self.got.append(int.from_bytes(pcm, "little"))
        if self.got[-1] == self._raise_at:
            raise UnwelcomeError

    async def run(self) -> None:
        try:
            with self.scope:
                await self._tts.speak(REQUEST, self.take)
                self.outcome = "spoken"
        except UnwelcomeError:
            self.outcome = "raised"
        except EngineCrashedError:
            self.outcome = "crashed"
        finally:
            self.left.set()


@pytest.mark.parametrize("raise_at", [-1, 0, 57, 99])
@pytest.mark.parametrize("after", ["crash", "done", "silence"])
async def test_a_hundred_blocks_in_one_chunk(
    autojump_clock: MockClock,
    serve: Serve,
    played: Any,
    nursery: trio.Nursery,
    raise_at: int,
    after: str,
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    caller = Caller(TtsClient(service, TtsSection()), raise_at)
    nursery.start_soon(caller.run)
    job = await peer.next()
    end = encode(DoneSpeak(job.id, Spoken(1.0))) if after == "done" else b""
    await peer.send_raw(blocks(job.id, 100) + end)
    if after == "crash":
        peer.die()
    await trio.testing.wait_all_tasks_blocked()
    assert caller.got == list(range(100 if raise_at < 0 else raise_at + 1))
    if after == "silence" and raise_at < 0:
        caller.scope.cancel()
    await caller.left.wait()
    ends = {"crash": "crashed", "done": "spoken", "silence": "cancelled"}
    assert caller.outcome == (ends[after] if raise_at < 0 else "raised")
    if after == "silence":
        assert isinstance(await peer.next(), Cancel)
        assert service.statistics()["disowned"] == 1
        await peer.send(Cancelled(job.id))
    elif after == "crash":
        peer = await played.peer(Ready())
    await trio.testing.wait_all_tasks_blocked()
    assert service.statistics() == {"queued": 0, "running": 0, "disowned": 0}


async def test_callers_that_leave_in_the_moment_of_delivery(
    autojump_clock: MockClock, serve: Serve, played: Any, scheduler_seed: int
) -> None:
    """Cancels, blocks, the end and the next job at the same instants, in every order."""
    draw = random.Random(scheduler_seed)
    service = await serve("tts", played)
    tts = TtsClient(service, TtsSection())
    peer = await played.peer(Ready())
    outcomes = set()
    for _ in range(60):
        caller = Caller(tts, draw.choice((-1, -1, 3)))
        moments = [draw.choice((0.1, 0.2, 0.2 + 1e-9)) for _ in range(3)]

        async def work(at: list[float] = moments, ends: bool = draw.random() < 0.5) -> None:
            job = await peer.next()
            assert isinstance(job, SpeakJob)
            begun = trio.current_time()
            for moment in sorted(at[:2]):
                await trio.sleep_until(begun + moment)
                await peer.send_raw(blocks(job.id, 5))
            if ends:
                await peer.send(DoneSpeak(job.id, Spoken(1.0)))
            elif await peer.next() == Cancel(job.id):
                await trio.sleep(0.01)
                await peer.send_raw(blocks(job.id, 5))  # before it obeys
                await peer.send(Cancelled(job.id))

        async def leave(one: Caller = caller, at: float = moments[2]) -> None:
            await trio.sleep(at)
            one.scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            nursery.start_soon(caller.run)
            nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        peer.unread()  # a cancel that crossed the end
        outcomes.add(caller.outcome)
        assert caller.late == 0
        assert caller.got == ([*range(5), *range(5)])[: len(caller.got)]
        assert service.statistics() == {"queued": 0, "running": 0, "disowned": 0}
    assert outcomes == {"cancelled", "raised", "spoken"}
    assert service.status().restarts == 0


async def test_text_that_was_delivered_is_not_written_again_after_a_crash(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    """A step whose caller has left, a crash, and the next step of the same stream."""
    service = await serve("llm", played)
    stream = LlmClient(service, LlmSection()).start([Message("user", "?")], generation=1)
    peer = await played.peer(Ready())
    got: list[str] = []

    def take(text: str) -> bool:
        got.append(text)
        return True

    with trio.move_on_after(1.0) as scope:
        nursery.start_soon(_write, peer, scope, ["One, ", "two, "])
        await stream.write(WriteRequest(64), take)
    assert scope.cancelled_caught
    seen = list(got)
    peer.die()
    peer = await played.peer(Ready())
    nursery.start_soon(_finish, peer, "".join(seen))
    await stream.write(WriteRequest(64), take)
    assert got == [*seen, "three."]


async def _write(peer: Any, scope: trio.CancelScope, texts: list[str]) -> None:
    await peer.next()
    await peer.send_raw(b"".join(encode(Text(1, text)) for text in texts))
    scope.cancel()  # at once: the chunk is read, or is not, before the caller leaves


async def _finish(peer: Any, written: str) -> None:
    job = await peer.next()
    assert isinstance(job, WriteJob)
    assert (job.messages, job.written) == ([Message("user", "?")], written)
    await peer.send(Text(job.id, "three."), DoneWrite(job.id, Written(3, finished=True)))
