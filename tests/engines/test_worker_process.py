"""Real worker processes: what only an operating system can show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from duet_trio.config import AsrSection, LlmSection, TtsSection
from duet_trio.engines.client import AsrClient, LlmClient, TtsClient
from duet_trio.engines.contracts import (
    EngineKind,
    Inject,
    ListenRequest,
    Message,
    SpeechRequest,
    Spoken,
    WriteRequest,
)
from duet_trio.engines.process import ProcessCarrier, exit_in_words
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import (
    EngineCrashedError,
    EngineError,
    EngineFailedError,
    EngineHungError,
    MissingFileError,
    UsageError,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and /proc")

Start = Callable[..., Awaitable[EngineService]]

ADAPTERS = '''
import os, subprocess, sys, threading, time
from duet_trio.engines.adapter import Loaded, SequenceLostError
from duet_trio.engines.contracts import Spoken, Transcript, Written
from duet_trio.errors import EngineFailedError, MissingFileError

class Base:
    def load(self, settings):
        print("printed while loading")
        os.write(1, b"written to fd 1 while loading")
        subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        assert "trio" not in sys.modules and "quart" not in sys.modules
        self.switch = threading.Event()
        if settings.get("model") == "missing":
            raise MissingFileError("asr.model: missing: no such folder; pull it")
        if settings.get("model") == "broken":
            raise RuntimeError("out of memory")
        return Loaded(slots=settings.get("slots", 1), longest_step_ms=20.0,
                      info={"main": str(threading.current_thread() is threading.main_thread())})
    def cancel_now(self):
        self.switch.set()

class Asr(Base):
    """Its text says who ran it; the language chooses what it does."""
    def transcribe(self, job, cancelled):
        self.switch.clear()
        print("printed while working", flush=True)
        if job.language == "sleep":
            time.sleep(job.pcm[0] / 10)
        if job.language == "switch" and not cancelled():
            self.switch.wait()
        if job.language == "fail":
            raise ZeroDivisionError("what a bug looks like")
        if job.language == "die":
            print("the last words", file=sys.stderr, flush=True)
            os._exit(7)
        return Transcript(threading.current_thread().name)

class Llm(Base):
    def load(self, settings):
        self.streams = {}
        return super().load(settings)
    def write(self, job, emit_text, should_pause, cancelled):
        if job.messages is not None:
            self.streams[job.stream] = len(job.written)
        if job.stream not in self.streams:
            raise SequenceLostError
        tokens = 0
        while tokens < job.max_tokens and not should_pause() and not cancelled():
            emit_text("%d " % self.streams[job.stream])
            self.streams[job.stream] += 1
            tokens += 1
            time.sleep(0.002)
        return Written(tokens, False)
    def close_stream(self, stream):
        self.streams.pop(stream, None)

class Tts(Base):
    def speak(self, job, emit_block, cancelled):
        for _ in job.text:
            if cancelled():
                break
            emit_block(b"\\0\\1" * 2400)
            time.sleep(0.005)
        return Spoken(0.0)
'''


@pytest.fixture
def start(
    nursery: trio.Nursery, log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Start a worker with one of the adapters above, or with ``engine="scripted"``."""
    (tmp_path / "worker_test_adapters.py").write_text(ADAPTERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def start(kind: EngineKind, *, ready: bool = True, **settings: Any) -> EngineService:
        settings.setdefault("engine", f"worker_test_adapters:{kind.title()}")
        service = EngineService(kind, settings, ProcessCarrier(kind), recorder=log, load_s=60.0)
        await nursery.start(service.run)
        if ready:
            await service.wait_ready()
        return service

    return start


def asr(service: EngineService, deadline_s: float = 10.0) -> AsrClient:
    return AsrClient(service, AsrSection(deadline_s=deadline_s))


def tts(service: EngineService, **settings: Any) -> TtsClient:
    return TtsClient(service, TtsSection(**settings))


def drop(_pcm: bytes) -> None:
    """A caller that does not look."""


def piece(effect: str = "", at: int = 0, value: float = 0.0, **fields: Any) -> SpeechRequest:
    inject = Inject(effect, at, value) if effect else None
    fields = {"text": "x" * 10, "generation": 1, "piece": 0, "cap_s": 5.0, **fields}
    return SpeechRequest(inject=inject, **fields)


async def until(condition: Callable[[], bool], within_s: float) -> None:
    """Poll a real state; fails when it does not come."""
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - the state is the system's, it has no event
            await trio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def open_files(pid: int) -> dict[str, str]:
    return {fd.name: os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}


async def test_a_library_that_prints_harms_nothing(start: Start) -> None:
    service = await start("asr")
    transcript = await asr(service).transcribe(ListenRequest(b"\0\0"))
    assert transcript.text == "MainThread"
    assert service.status().info["main"] == "True"


async def test_errors_in_words_and_a_worker_that_lives(start: Start) -> None:
    service = await start("asr")
    pid = service.status().pid
    with pytest.raises(EngineFailedError, match="ZeroDivisionError: what a bug looks like"):
        await asr(service).transcribe(ListenRequest(b"", language="fail"))
    await asr(service).transcribe(ListenRequest(b""))
    assert service.status().pid == pid


async def test_the_last_words_reach_the_error(start: Start) -> None:
    service = await start("asr")
    with pytest.raises(EngineCrashedError, match=r"exit code 7: .*the last words"):
        await asr(service).transcribe(ListenRequest(b"", language="die"))
    await asr(service).transcribe(ListenRequest(b""))


async def test_an_adapter_that_hangs_is_killed_at_its_deadline(start: Start) -> None:
    service = await start("asr")
    pid = service.status().pid
    assert pid is not None
    with pytest.raises(EngineHungError):
        await asr(service, 0.3).transcribe(ListenRequest(bytes([200]), language="sleep"))
    await asr(service).transcribe(ListenRequest(b""))
    assert not alive(pid)
    assert service.status().restarts == 1


async def test_the_switch_ends_a_job_that_never_asks(start: Start) -> None:
    service = await start("asr")
    with trio.move_on_after(0.2):
        await asr(service).transcribe(ListenRequest(b"", language="switch"))
    await until(lambda: service.statistics()["running"] == 0, 2.0)
    assert service.status().restarts == 0


async def test_slots_above_one_run_side_by_side(start: Start) -> None:
    service = await start("asr", slots=3)
    assert service.slots == 3
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(asr(service).transcribe, ListenRequest(bytes([5]), language="sleep"))
    assert trio.current_time() - began < 1.4, "one after the other takes 1.5 s"


async def test_what_the_user_must_mend(start: Start) -> None:
    service = await start("asr", ready=False, model="missing")
    with pytest.raises(MissingFileError, match="no such folder; pull it"):
        await service.wait_ready()
    service = await start("asr", ready=False, engine="nonsense")
    with pytest.raises(UsageError, match="unknown engine 'nonsense'"):
        await service.wait_ready()
    service = await start("asr", ready=False, engine="no_such_module:X")
    with pytest.raises(UsageError, match="no_such_module"):
        await service.wait_ready()


async def test_a_load_that_fails_is_tried_again(start: Start) -> None:
    service = await start("asr", ready=False, model="broken")
    await until(lambda: service.status().restarts >= 2, 20.0)
    assert "out of memory" in service.status().detail


async def test_a_writer_pauses_and_goes_on(start: Start) -> None:
    service = await start("llm")
    stream = LlmClient(service, LlmSection()).start([Message("user", "?")], generation=1)
    got: list[str] = []

    def refuse_the_third(text: str) -> bool:
        got.append(text)
        return len(got) != 3

    first = await stream.write(WriteRequest(1000), refuse_the_third)
    assert 3 <= first.tokens == len(got) < 1000
    await stream.write(WriteRequest(5), refuse_the_third)
    assert got == [f"{n} " for n in range(first.tokens + 5)]


async def test_effects_around_an_adapter(start: Start) -> None:
    service = await start("tts")
    voice = tts(service, stall_s=0.5)
    assert await voice.speak(piece(), drop) == Spoken(1.0)
    assert await voice.speak(piece("empty", 2), drop) == Spoken(0.2)
    assert (await voice.speak(piece("short"), drop)).audio_s == pytest.approx(0.046)
    assert await voice.speak(piece("endless", 2, cap_s=1.5), drop) == Spoken(1.5, capped=True)
    assert await voice.speak(piece(cap_s=0.55), drop) == Spoken(0.55, capped=True)
    with pytest.raises(EngineFailedError, match="injected"):
        await voice.speak(piece("error", 1), drop)
    began = trio.current_time()
    await voice.speak(piece("slow", 0, 0.5), drop)
    assert trio.current_time() - began >= 0.5
    assert service.status().restarts == 0


async def test_late_and_deaf_around_an_adapter(start: Start, log: Any) -> None:
    service = await start("tts")
    for effect, at_least_s in (("late", 0.4), ("deaf", 0.3)):
        with trio.move_on_after(0.1):
            await tts(service).speak(piece(effect, 1, 0.4, text="x" * 100, cap_s=60.0), drop)
        began = trio.current_time()
        await until(lambda: service.statistics()["running"] == 0, 10.0)
        assert trio.current_time() - began >= at_least_s - 0.05
    assert [e["effect"] for e in log.of("fault")] == ["late", "deaf"]
    assert service.status().restarts == 0


@pytest.mark.parametrize(
    ("effect", "error"),
    [
        ("crash", EngineCrashedError),
        ("garbage", EngineCrashedError),
        ("hang", EngineHungError),
        ("stop", EngineHungError),
    ],
)
@pytest.mark.parametrize("engine", ["scripted", "worker_test_adapters:Tts"])
async def test_deadly_effects(
    start: Start, engine: str, effect: str, error: type[EngineError]
) -> None:
    service = await start("tts", engine=engine)
    pid = service.status().pid
    assert pid is not None
    with pytest.raises(error):
        await tts(service, stall_s=0.4).speak(piece(effect, 1), drop)
    assert (await tts(service).speak(piece(), drop)).audio_s > 0
    assert not alive(pid), "reaped"
    assert service.status().restarts == 1


async def test_what_a_worker_inherits(start: Start, nursery: trio.Nursery) -> None:
    services = [await start(kind, engine="scripted") for kind in ("asr", "llm", "tts")]
    pipes: list[set[str]] = []
    for service in services:
        pid = service.status().pid
        assert pid is not None
        links = open_files(pid)
        assert links["0"] == os.devnull
        assert links["1"] == links["2"]
        pipes.append({link for link in links.values() if link.startswith("pipe:")})
        assert len(pipes[-1]) == 3, "its own commands, messages and stderr"
        assert os.getpgid(pid) == pid
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(
            19, os.getpriority(os.PRIO_PROCESS, 0) + 5
        )
        os.kill(pid, signal.SIGINT)
    assert not pipes[0] & pipes[1]
    assert not pipes[1] & pipes[2]
    assert not pipes[0] & pipes[2]
    await asr(services[0]).transcribe(ListenRequest(b""))
    assert all(service.status().restarts == 0 for service in services)


async def test_workers_end_with_their_service(log: Any) -> None:
    service = EngineService("tts", {"engine": "scripted"}, ProcessCarrier("tts"), recorder=log)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await service.wait_ready()
        pid = service.status().pid
        assert pid is not None
        nursery.cancel_scope.cancel()
    assert not alive(pid)


PARENT = """
    import sys, trio
    from duet_trio import config
    from duet_trio.engines.factory import EngineSet

    async def main():
        scripted = [f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")]
        engines = EngineSet(config.load(None, scripted))
        async with trio.open_nursery() as nursery:
            await nursery.start(engines.run)
            await engines.wait_ready()
            print(*(s.pid for s in engines.statuses()), flush=True)
            await trio.sleep_forever()

    trio.run(main)
"""


async def test_no_worker_outlives_a_parent_that_is_killed() -> None:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", textwrap.dedent(PARENT)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    line = b""
    pids: list[int] = []
    try:
        with trio.fail_after(30):
            while not line.endswith(b"\n"):  # an unbuffered stdout comes in bits
                line += await process.stdout.receive_some()
        pids = [int(pid) for pid in line.split()]
        assert len(pids) == 3
        assert all(alive(pid) for pid in pids)
    finally:
        process.kill()
        with trio.move_on_after(10, shield=True):
            await process.wait()
            await process.stdout.aclose()
    await until(lambda: not any(alive(pid) for pid in pids), 2.0)


def test_exits_in_words() -> None:
    assert exit_in_words(3) == "ended with exit code 3"
    assert exit_in_words(-signal.SIGKILL) == "killed by SIGKILL"
    assert exit_in_words(-64 - 60) == "killed by signal 124"
