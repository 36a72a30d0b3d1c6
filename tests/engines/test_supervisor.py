"""A supervised worker on the mock clock: deadlines, kills, restarts, slots, and who gets what."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duet_trio.config import AsrSection, TtsSection
from duet_trio.engines.client import AsrClient, TtsClient
from duet_trio.engines.contracts import Inject, ListenRequest, SpeechRequest, Spoken, Transcript
from duet_trio.engines.pipe import (
    Block,
    Cancel,
    Cancelled,
    DoneSpeak,
    DoneTranscribe,
    Failed,
    LoadFailed,
    Ready,
    SpeakJob,
    Text,
    TranscribeJob,
)
from duet_trio.engines.restart import backoff_s
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import (
    EngineCrashedError,
    EngineError,
    EngineFailedError,
    EngineHungError,
    EngineUnavailableError,
    MissingFileError,
)

pytestmark = pytest.mark.usefixtures("scheduler_seed")

Serve = Callable[..., Awaitable[EngineService]]


class CountingHold:
    """A hold that knows whether it is in use, and when it was let go."""

    def __init__(self) -> None:
        self.attached = 0
        self.let_go_at = -1.0

    def attach(self) -> None:
        assert self.attached == 0
        self.attached = 1

    def detach(self) -> None:
        assert self.attached == 1
        self.attached = 0
        self.let_go_at = trio.current_time()


def drop(_pcm: bytes) -> None:
    """A caller that does not look."""


def voice(service: EngineService) -> TtsClient:
    return TtsClient(service, TtsSection())


def piece(effect: str = "", at: int = 0, value: float = 0.0, text: str = "x" * 50) -> SpeechRequest:
    inject = Inject(effect, at, value) if effect else None
    return SpeechRequest(text, generation=1, piece=0, cap_s=6.0, inject=inject)


async def speak_for(
    tts: TtsClient, seconds: float, request: SpeechRequest, hold: Any = None
) -> list[bytes]:
    """Speak and be cancelled after that time; returns what had come."""
    got: list[bytes] = []
    with trio.move_on_after(seconds) as scope:
        await tts.speak(request, got.append, hold)
    assert scope.cancelled_caught
    return got


async def test_a_piece_is_spoken(autojump_clock: MockClock, scripted: Any) -> None:
    service, _ = await scripted("tts")
    got: list[bytes] = []
    spoken = await voice(service).speak(piece(), got.append)
    assert spoken == Spoken(3.0)
    assert len(b"".join(got)) == 3 * 48_000


async def test_cancel_of_a_queued_job_never_reaches_the_worker(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    hold = CountingHold()
    nursery.start_soon(voice(service).speak, piece(), drop)
    assert isinstance(await peer.next(), SpeakJob)
    await speak_for(voice(service), 0.5, piece(), hold)
    await peer.send(DoneSpeak(1, Spoken(1.0)))
    await trio.testing.wait_all_tasks_blocked()
    assert peer.unread() == []
    assert hold.let_go_at == -1.0
    assert service.statistics() == {"queued": 0, "running": 0, "disowned": 0}


async def test_a_cancelled_job_keeps_slot_and_hold_until_idle(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("tts", slots=1)
    hold = CountingHold()
    got = await speak_for(voice(service), 0.35, piece("late", 0, 1.0), hold)
    begun = trio.current_time()
    assert got
    assert hold.attached
    assert service.statistics()["disowned"] == 1
    assert service.state == "busy"
    late = len(got)
    await voice(service).speak(piece(text=""), drop)  # waits for the slot
    assert hold.let_go_at == pytest.approx(begun + 1.0)
    assert trio.current_time() >= begun + 1.0
    assert len(got) == late, "nothing of a cancelled job may reach its callback"
    assert carrier.starts == 1


async def test_a_deaf_job_within_its_deadline_does_not_cost_the_worker(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("tts")
    hold = CountingHold()
    await speak_for(voice(service), 0.2, piece("deaf"), hold)
    await trio.sleep(10)
    assert hold.let_go_at == pytest.approx(0.1 + 14 * 0.2 * 0.5)
    assert carrier.starts == 1


@pytest.mark.parametrize(("at", "passes_at"), [(0, 5.0), (2, 0.1 + 0.1 + 3.0)])
@pytest.mark.parametrize("effect", ["hang", "stop"])
async def test_a_passed_deadline_kills(
    autojump_clock: MockClock, scripted: Any, log: Any, effect: str, at: int, passes_at: float
) -> None:
    service, carrier = await scripted("tts", reap_s=0.3)
    hold = CountingHold()
    with pytest.raises(EngineHungError) as caught:
        await voice(service).speak(piece(effect, at), drop, hold)
    assert trio.current_time() == pytest.approx(passes_at)
    assert caught.value.reason == "the voice stopped responding"
    assert hold.attached, "not before the process has been reaped"
    assert service.state == "restarting"
    assert await voice(service).speak(piece(), drop) == Spoken(3.0)
    assert hold.let_go_at == pytest.approx(passes_at + 0.3)
    assert carrier.starts == 2
    states = [entry["state"] for entry in log.of("engine")]
    assert states == ["loading", "ready", "restarting", "ready"]
    assert [entry["effect"] for entry in log.of("fault")] == [effect]


async def test_a_voice_that_never_ends_hangs_at_the_piece_deadline(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())

    async def trickle() -> None:
        job = await peer.next()
        while not peer.handle.scope.cancel_called:
            await peer.send(Block(job.id, b"\0\0"))
            await trio.sleep(1.0)

    nursery.start_soon(trickle)
    with pytest.raises(EngineHungError):
        await voice(service).speak(piece(), drop)
    assert trio.current_time() == pytest.approx(3.0 + 1.5 * 6.0)
    await peer.handle.wait()


async def test_a_disowned_job_that_hangs_is_bounded_too(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("tts")
    hold = CountingHold()
    await speak_for(voice(service), 0.5, piece("hang"), hold)
    await trio.sleep(20)
    assert hold.let_go_at == pytest.approx(5.0), "its remaining deadline"
    hold = CountingHold()
    begun = trio.current_time()
    await speak_for(voice(service), 4.5, piece("hang"), hold)
    await trio.sleep(20)
    assert hold.let_go_at == pytest.approx(begun + 4.5 + 2.0), "but at least two seconds"
    assert carrier.starts == 3


async def test_a_dropped_speculation_kills_only_at_its_own_deadline(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("asr")
    asr = AsrClient(service, AsrSection())
    request = ListenRequest(b"", speculative=True, inject=Inject("hang"))
    with trio.move_on_after(0.2):
        await asr.transcribe(request)
    await trio.sleep(9.7)
    assert carrier.starts == 1
    await trio.sleep(0.2)
    assert carrier.starts == 2


async def test_a_crash_fails_its_jobs_and_keeps_the_queue(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("tts", slots=2)
    outcomes: list[str] = []

    async def say(request: SpeechRequest) -> None:
        try:
            await voice(service).speak(request, drop)
        except EngineCrashedError as error:
            outcomes.append(f"{error.reason}: {'SIGABRT' in str(error)}")
        else:
            outcomes.append("spoken")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say, piece("crash", 2))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(say, piece())
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(say, piece())
    assert outcomes == ["the voice crashed: True"] * 2 + ["spoken"]
    assert carrier.starts == 2
    assert service.status().restarts == 1


async def test_an_error_leaves_the_worker_alive(
    autojump_clock: MockClock, scripted: Any, log: Any
) -> None:
    service, carrier = await scripted("tts")
    with pytest.raises(EngineFailedError, match="injected error"):
        await voice(service).speak(piece("error"), drop)
    assert await voice(service).speak(piece(), drop) == Spoken(3.0)
    assert carrier.starts == 1
    (fault,) = log.of("fault")
    assert (fault["generation"], fault["seam"], fault["effect"]) == (1, "tts.start", "error")


async def test_garbage_ends_the_worker(autojump_clock: MockClock, scripted: Any) -> None:
    service, carrier = await scripted("tts")
    with pytest.raises(EngineCrashedError, match="not the pipe protocol"):
        await voice(service).speak(piece("garbage", 1), drop)
    assert await voice(service).speak(piece(), drop) == Spoken(3.0)
    assert carrier.starts == 2


@pytest.mark.parametrize(
    "bad",
    [
        [Block(2, b"\0\0")],  # a job that never was
        [Text(1, "x")],  # output of another kind
        [DoneTranscribe(1, Transcript("x"))],  # a result of another kind
        [Ready()],
        [Block(1, b"\0" * 4)] * 30_000,  # flood of its own job
        [DoneSpeak(1, Spoken(0.0)), *[Cancelled(1)] * 1100],  # flood of an old one
    ],
    ids=["foreign", "item", "result", "ready", "flood", "stale flood"],
)
async def test_a_mad_worker_is_killed(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery, bad: list[Any]
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())

    async def misbehave() -> None:
        await peer.next()
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await peer.send(*bad)

    nursery.start_soon(misbehave)
    if isinstance(bad[0], DoneSpeak):
        await voice(service).speak(piece(), drop)
    else:
        with pytest.raises(EngineCrashedError):
            await voice(service).speak(piece(), drop)
    await played.peer(Ready())
    await service.wait_ready()
    assert service.status().restarts == 1


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("", "the voice reported an error"),
        ("this voice cannot read the text", "this voice cannot read the text"),
    ],
)
async def test_an_adapters_own_words_for_people_arrive(
    autojump_clock: MockClock, serve: Serve, played: Any, told: str, reason: str
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(EngineFailedError) as caught:
                await voice(service).speak(piece(), drop)
            assert (str(caught.value), caught.value.reason) == ("tts: nothing there", reason)

        nursery.start_soon(ask)
        await peer.next()
        await peer.send(Failed(1, "tts: nothing there", reason=told))


async def test_late_messages_of_old_jobs_are_ignored(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    got: list[bytes] = []
    nursery.start_soon(voice(service).speak, piece(), got.append)
    await peer.next()
    await peer.send(Block(1, b"\1\1"), DoneSpeak(1, Spoken(0.0)))
    await peer.send(Block(1, b"\2\2"), Cancelled(1), Failed(1, "x"))
    await trio.testing.wait_all_tasks_blocked()
    assert got == [b"\1\1"]
    assert len(played.start_times) == 1


async def test_never_more_jobs_than_slots_and_real_ones_first(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("asr", played)
    asr = AsrClient(service, AsrSection())
    peer = await played.peer(Ready(slots=2))
    for speculative, pcm in ((False, b"1"), (False, b"2"), (True, b"3"), (False, b"4")):
        nursery.start_soon(asr.transcribe, ListenRequest(pcm, speculative=speculative))
        await trio.testing.wait_all_tasks_blocked()
    assert service.statistics()["queued"] == 2
    seen = []
    for number in range(1, 5):
        await trio.testing.wait_all_tasks_blocked()
        jobs = peer.unread()
        seen += [job.pcm for job in jobs]
        assert len(seen) - (number - 1) <= 2
        await peer.send(DoneTranscribe(number, Transcript("x")))
    assert seen == [b"1", b"2", b"4", b"3"]


async def test_a_cancel_asks_the_worker_once(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    await speak_for(voice(service), 0.1, piece())
    assert [type(m) for m in (await peer.next(), await peer.next())] == [SpeakJob, Cancel]
    await peer.send(Cancelled(1))
    await trio.testing.wait_all_tasks_blocked()
    assert peer.unread() == []
    assert service.statistics()["running"] == 0


async def test_the_load_has_a_deadline(
    autojump_clock: MockClock, serve: Serve, played: Any
) -> None:
    service = await serve("tts", played, load_s=7.0)
    peer = await played.peer()
    await peer.handle.wait()
    assert trio.current_time() == pytest.approx(7.0)
    await played.peer(Ready())
    await service.wait_ready()


async def test_what_only_the_user_can_mend_is_failed_for_good(
    autojump_clock: MockClock, serve: Serve, played: Any
) -> None:
    service = await serve("tts", played)
    peer = await played.peer()
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(EngineUnavailableError, match="no such model"):
                await voice(service).speak(piece(), drop)

        nursery.start_soon(ask)  # asked while it loads
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(LoadFailed("tts.model: no such model; pull it", "file"))
        with pytest.raises(MissingFileError, match="no such model; pull it"):
            await service.wait_ready()
    with pytest.raises(EngineUnavailableError):
        await voice(service).speak(piece(), drop)
    await trio.sleep(1000)
    assert len(played.start_times) == 1
    assert service.status().state == "failed"
    assert service.status().restarts == 0


async def test_restarts_back_off_and_a_good_minute_forgives(
    autojump_clock: MockClock, serve: Serve, played: Any
) -> None:
    await serve("tts", played)
    for _ in range(9):
        peer = await played.peer(Ready())
        peer.die()
    times = played.start_times
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps == pytest.approx([0, 0.5, 1, 2, 4, 8, 16, 30], abs=0.01)
    peer = await played.peer(Ready())
    await trio.sleep(61)
    died_at = trio.current_time()
    peer.die()
    await played.peer(Ready())
    assert times[-1] == pytest.approx(died_at)


def test_backoff_has_an_end() -> None:
    assert backoff_s(10_000) == 30.0


async def test_a_call_waits_for_a_restart_but_not_for_ever(
    autojump_clock: MockClock, serve: Serve, played: Any
) -> None:
    service = await serve("tts", played)
    with pytest.raises(EngineUnavailableError, match="loading for more than 30 s"):
        await voice(service).speak(piece(), drop)
    assert trio.current_time() == pytest.approx(30.0)
    assert service.statistics()["queued"] == 0


async def test_a_request_that_fits_no_message_fails_alone(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("asr")
    asr = AsrClient(service, AsrSection())
    with pytest.raises(EngineFailedError, match="too long"):
        await asr.transcribe(ListenRequest(bytes(9 * 1024 * 1024)))
    assert (await asr.transcribe(ListenRequest(b""))).text == ""
    assert carrier.starts == 1


async def test_a_callback_that_raises_hurts_only_its_caller(
    autojump_clock: MockClock, scripted: Any
) -> None:
    service, carrier = await scripted("tts")
    hold = CountingHold()
    calls = []

    def bad(pcm: bytes) -> None:
        calls.append(pcm)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await voice(service).speak(piece(), bad, hold)
    await trio.testing.wait_all_tasks_blocked()
    assert len(calls) == 1
    assert not hold.attached
    assert await voice(service).speak(piece(), drop) == Spoken(3.0)
    assert carrier.starts == 1


async def test_a_callback_that_raises_cancels_its_job(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: trio.Nursery
) -> None:
    service = await serve("tts", played)
    peer = await played.peer(Ready())
    calls: list[bytes] = []

    def bad(pcm: bytes) -> None:
        calls.append(pcm)
        raise KeyError("mine")

    async def speak() -> None:
        with pytest.raises(KeyError):
            await voice(service).speak(piece(), bad)

    nursery.start_soon(speak)
    assert isinstance(await peer.next(), SpeakJob)
    for _ in range(3):  # in one chunk: all are read before the caller can leave
        await peer.send(Block(1, bytes(960)))
    assert await peer.next() == Cancel(1)
    assert len(calls) == 1
    assert service.statistics()["disowned"] == 1
    await peer.send(Cancelled(1))
    await trio.testing.wait_all_tasks_blocked()
    assert service.state == "ready"


async def test_shutdown_in_mid_job_ends_everything(autojump_clock: MockClock, log: Any) -> None:
    from duet_trio.engines.in_process import InProcessCarrier

    service = EngineService("tts", {}, InProcessCarrier("tts", {}, reap_s=0.2), recorder=log)
    hold = CountingHold()
    with trio.move_on_after(1.0):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            nursery.start_soon(voice(service).speak, piece("hang"), drop, hold)
    assert trio.current_time() == pytest.approx(1.2)
    assert not hold.attached


async def test_random_callers_cancels_and_faults(
    autojump_clock: MockClock, scripted: Any, scheduler_seed: int
) -> None:
    """Whatever happens: holds are balanced, slots are kept, and it works again at the end."""
    import random

    rng = random.Random(scheduler_seed)
    service, carrier = await scripted("tts", {"rtf": 0.3}, slots=2, reap_s=0.05)
    holds: list[CountingHold] = []
    outcomes: set[str] = set()
    effects = ["", "", "", "hang", "error", "crash", "stop", "garbage", "late", "deaf", "slow"]

    async def caller() -> None:
        await trio.sleep(rng.uniform(0, 60))
        hold = CountingHold()
        holds.append(hold)
        request = piece(rng.choice(effects), rng.randrange(4), rng.uniform(0, 3))
        try:
            with trio.move_on_after(rng.choice([0.0, 0.1, 0.5, 2.0, 100.0])) as scope:
                await voice(service).speak(request, drop, hold)
            outcomes.add("cancelled" if scope.cancelled_caught else "spoken")
        except EngineError as error:
            outcomes.add(type(error).__name__)
        assert sum(h.attached for h in holds) <= 2 * carrier.starts

    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(caller)
    await trio.sleep(30)
    assert not any(hold.attached for hold in holds)
    assert service.statistics() == {"queued": 0, "running": 0, "disowned": 0}
    assert await voice(service).speak(piece(), drop) == Spoken(3.0)
    assert outcomes >= {"cancelled", "spoken", "EngineHungError", "EngineCrashedError"}


async def test_jobs_know_their_kind_in_the_pipe(
    autojump_clock: MockClock, serve: Serve, played: Any, nursery: Any
) -> None:
    service = await serve("asr", played)
    peer = await played.peer(Ready())
    nursery.start_soon(
        AsrClient(service, AsrSection()).transcribe, ListenRequest(b"ab", language="en")
    )
    assert await peer.next() == TranscribeJob(1, b"ab", "en")
    await peer.send(DoneTranscribe(1, Transcript("hi")))
