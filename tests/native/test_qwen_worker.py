"""The real worker process with the real engine in it: killed and stopped in mid-piece, and back."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from duet_trio.config import TtsSection
from duet_trio.engines.client import TtsClient
from duet_trio.engines.contracts import SpeechRequest
from duet_trio.engines.process import ProcessCarrier
from duet_trio.engines.supervisor import EngineService
from duet_trio.errors import (
    EngineCrashedError,
    EngineFailedError,
    EngineHungError,
    MissingFileError,
    MissingLibraryError,
)
from duet_trio.lab.tiny_gguf import Pair, write_pair
from tests.native.support import standin, tts_settings

pytestmark = pytest.mark.slow

RUN_AWAY = "~" * 200 + "a"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


@asynccontextmanager
async def serving(settings: dict[str, Any]) -> AsyncIterator[tuple[EngineService, TtsClient]]:
    """A supervised worker; it is gone when this is left."""
    deadlines = ("first_s", "stall_s", "piece_s", "piece_per_audio")
    section = TtsSection(**{key: settings[key] for key in deadlines if key in settings})
    service = EngineService("tts", settings, ProcessCarrier("tts"), load_s=60)
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            yield service, TtsClient(service, section)
            nursery.cancel_scope.cancel()


def request(text: str, **more: Any) -> SpeechRequest:
    fields: dict[str, Any] = {"generation": 1, "piece": 0, "cap_s": 2.0, **more}
    return SpeechRequest(text=text, **fields)


async def speak(client: TtsClient, text: str, **more: Any) -> bytes:
    blocks: list[bytes] = []
    await client.speak(request(text, **more), blocks.append)
    return b"".join(blocks)


def pid_of(service: EngineService) -> int:
    pid = service.status().pid
    assert pid is not None
    return pid


async def test_speech_through_the_worker(pair: Pair) -> None:
    settings = tts_settings(pair, first_s=20.0, stall_s=20.0)
    async with serving(settings) as (service, client):
        await service.wait_ready()
        assert service.status().info["engine"] == "libqwen ABI 5"
        blocks: list[bytes] = []
        spoken = await client.speak(request("Hi there.", cap_s=10), blocks.append)
        assert len(blocks) > 2, "it streams"
        assert spoken.audio_s == sum(map(len, blocks)) / 48_000 > 0.2
        capped = await client.speak(request(RUN_AWAY, cap_s=0.5), blocks.append)
        assert capped.capped
        assert capped.audio_s == pytest.approx(0.5, abs=0.03)


async def test_kill_in_mid_piece_and_recovery(pair: Pair) -> None:
    settings = tts_settings(pair, first_s=20.0, stall_s=20.0)
    async with serving(settings) as (service, client):
        await service.wait_ready()
        old = pid_of(service)
        blocks: list[bytes] = []

        def kill_at_second(block: bytes) -> None:
            blocks.append(block)
            if len(blocks) == 2:
                os.kill(old, signal.SIGKILL)

        with pytest.raises(EngineCrashedError, match="SIGKILL"):
            await client.speak(request(RUN_AWAY, cap_s=30), kill_at_second)
        assert await speak(client, "Hi.")
        assert pid_of(service) != old
        assert service.status().restarts == 1


async def test_a_stopped_worker_is_hung_and_replaced(pair: Pair) -> None:
    settings = tts_settings(pair, first_s=20.0, stall_s=1.5)
    async with serving(settings) as (service, client):
        await service.wait_ready()
        old = pid_of(service)
        blocks: list[bytes] = []

        def stop_at_second(block: bytes) -> None:
            blocks.append(block)
            if len(blocks) == 2:
                os.kill(old, signal.SIGSTOP)

        with pytest.raises(EngineHungError):
            await client.speak(request(RUN_AWAY, cap_s=30), stop_at_second)
        assert await speak(client, "Hi.")
        assert pid_of(service) != old


async def test_cancel_leaves_the_worker_alive(pair: Pair) -> None:
    settings = tts_settings(pair, first_s=20.0, stall_s=20.0)
    async with serving(settings) as (service, client):
        await service.wait_ready()
        old = pid_of(service)
        with trio.CancelScope() as scope:
            await client.speak(request(RUN_AWAY, cap_s=30), lambda _: scope.cancel())
        assert scope.cancelled_caught
        assert await speak(client, "Hi.")
        assert (pid_of(service), service.status().restarts) == (old, 0)


async def test_errors_hangs_and_aborts_of_an_engine(pair: Pair, tmp_path: Path) -> None:
    library = standin("libqwen5", tmp_path)
    settings = tts_settings(pair, library, first_s=1.0, stall_s=1.0, piece_s=1.0)
    async with serving(settings) as (service, client):
        await service.wait_ready()
        first = pid_of(service)
        with pytest.raises(EngineFailedError, match="no luck"):
            await speak(client, "error")
        assert await speak(client, "fine")
        assert pid_of(service) == first
        with pytest.raises(EngineCrashedError, match="SIGABRT"):
            await speak(client, "crash")
        assert await speak(client, "fine")
        with pytest.raises(EngineHungError):
            await speak(client, "hang")
        assert await speak(client, "fine")
        assert service.status().restarts == 2


@pytest.mark.parametrize(
    ("key", "kind"), [("library", MissingLibraryError), ("model", MissingFileError)]
)
async def test_what_only_the_user_can_mend_is_said_once(
    pair: Pair, tmp_path: Path, key: str, kind: type[Exception]
) -> None:
    settings = tts_settings(pair) | {key: str(tmp_path / "nowhere")}
    async with serving(settings) as (service, _):
        with pytest.raises(kind, match=rf"tts.{key} = .*nowhere.*no such file"):
            await service.wait_ready()
        assert service.state == "failed"
