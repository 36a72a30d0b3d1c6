"""Engines elsewhere: each trouble ends within its deadline, with a plain reason of its own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from duet_trio.config import AsrSection, LlmSection, TtsSection
from duet_trio.engines.contracts import ListenRequest, Message, SpeechRequest, WriteRequest
from duet_trio.engines.remote.address import read_address
from duet_trio.engines.remote.asr import RemoteAsr
from duet_trio.engines.remote.llm import RemoteLlm
from duet_trio.engines.remote.service import RemoteService
from duet_trio.engines.remote.tts import RemoteTts
from duet_trio.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    EngineFailedError,
    EngineHungError,
    EngineUnavailableError,
    MissingFileError,
)
from tests.remote.standin import PCM, standing_in

DEADLINE_S = 0.4
MESSAGES = [Message("system", "be brief"), Message("user", "count")]


def service_llm(url: str, **more: Any) -> tuple[RemoteService, RemoteLlm]:
    section = LlmSection(
        engine="openai", model="m", base_url=url, first_s=DEADLINE_S, stall_s=DEADLINE_S,
        first_per_200_tokens_s=0, **more,
    )  # fmt: skip
    service = RemoteService("llm", section)
    return service, RemoteLlm(service, section)


def service_tts(url: str, **more: Any) -> tuple[RemoteService, RemoteTts]:
    section = TtsSection(
        engine="openai", model="m", base_url=url, first_s=DEADLINE_S, stall_s=DEADLINE_S, **more
    )
    service = RemoteService("tts", section)
    return service, RemoteTts(service, section)


def service_asr(url: str) -> tuple[RemoteService, RemoteAsr]:
    section = AsrSection(engine="openai", model="m", base_url=url, deadline_s=DEADLINE_S)
    service = RemoteService("asr", section)
    return service, RemoteAsr(service, section)


def keeping(texts: list[str], *, go_on: bool) -> Callable[[str], bool]:
    def keep(text: str) -> bool:
        texts.append(text)
        return go_on

    return keep


async def write(url: str) -> str:
    stream = service_llm(url)[1].start(MESSAGES, generation=1)
    texts: list[str] = []
    try:
        while True:
            written = await stream.write(WriteRequest(64), keeping(texts, go_on=True))
            if written.finished:
                return "".join(texts)
    finally:
        stream.close()


async def speak(url: str) -> bytes:
    blocks: list[bytes] = []
    await service_tts(url)[1].speak(SpeechRequest("Hello.", 1, 0, 5.0), blocks.append)
    return b"".join(blocks)


async def listen(url: str) -> str:
    return (await service_asr(url)[1].transcribe(ListenRequest(bytes(3200)))).text


CALLS: dict[str, Callable[[str], Awaitable[object]]] = {
    "llm": write,
    "tts": speak,
    "asr": listen,
}
NAMES = {"llm": "the language model", "tts": "the voice", "asr": "speech recognition"}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize(
    ("mode", "error", "reason"),
    [
        ("401", EngineUnavailableError, "did not accept our key"),
        ("404", EngineUnavailableError, "does not know this model or address"),
        ("429", EngineUnavailableError, "is too busy; try again in 30 seconds"),
        ("500", EngineFailedError, "reported an error"),
        ("503", EngineUnavailableError, "is not ready"),
        ("400", EngineUnavailableError, "refused the request"),
        ("html", EngineFailedError, "sent something that cannot be used"),
        ("breaks off", EngineCrashedError, "broke off"),
        ("garbage", EngineCrashedError, "broke off"),
        ("silent", EngineHungError, "stopped responding"),
        ("stalls", EngineHungError, "stopped responding"),
    ],
)
async def test_each_trouble_has_its_own_reason(
    kind: str, mode: str, error: type[EngineError], reason: str
) -> None:
    async with standing_in(mode) as server:
        began = trio.current_time()
        with pytest.raises(error) as caught, trio.fail_after(5):
            await CALLS[kind](server.url)
        assert caught.value.reason == f"{NAMES[kind]} {reason}"
        assert trio.current_time() - began < 2 * DEADLINE_S + 1.0
        with trio.fail_after(2):
            await server.until_closed()


@pytest.mark.parametrize("kind", CALLS)
async def test_nobody_there(kind: str) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    with pytest.raises(EngineUnavailableError) as caught, trio.fail_after(5):
        await CALLS[kind](f"http://127.0.0.1:{port}/v1")
    assert caught.value.reason == f"{NAMES[kind]} cannot be reached"


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("mode", ["good", "slow", "busy once"])
async def test_it_works(kind: str, mode: str) -> None:
    good = {"llm": "One two three. Four.", "tts": PCM[:-960], "asr": "heard it"}
    async with standing_in(mode) as server:
        with trio.fail_after(10):
            result = await CALLS[kind](server.url)
            await server.until_closed()
        if isinstance(result, bytes):
            assert result[: len(good["tts"])] == good["tts"]
        else:
            assert result == good[kind]
        assert len(server.asked) == (2 if mode == "busy once" else 1)


async def test_a_wav_head_is_left_out() -> None:
    async with standing_in("wav") as server:
        assert (await speak(server.url))[:1000] == PCM[:1000]


async def test_a_voice_without_end_is_cut_at_its_cap() -> None:
    async with standing_in("endless") as server:
        _, tts = service_tts(server.url)
        heard: list[bytes] = []
        spoken = await tts.speak(SpeechRequest("Hi", 1, 0, 2.0), heard.append)
        assert spoken.capped
        assert spoken.audio_s == pytest.approx(2.0)
        assert len(b"".join(heard)) == 96_000
        with trio.fail_after(2):
            await server.until_closed()


async def test_a_writer_pauses_and_goes_on_without_losing_text() -> None:
    async with standing_in() as server:
        stream = service_llm(server.url)[1].start(MESSAGES, generation=1)
        texts: list[str] = []
        steps = 0
        finished = False
        while not finished:
            written = await stream.write(WriteRequest(64), keeping(texts, go_on=False))
            finished = written.finished
            steps += 1
        assert "".join(texts) == "One two three. Four."
        assert steps == 5
        assert len(server.asked) == 1  # one response, read step by step


async def test_a_limit_of_tokens_ends_a_step() -> None:
    async with standing_in() as server:
        stream = service_llm(server.url)[1].start(MESSAGES, generation=1)
        written = await stream.write(WriteRequest(2), lambda _text: True)
        assert (written.tokens, written.finished) == (2, False)
        stream.close()
        with trio.fail_after(2):
            await server.until_closed()


@pytest.mark.parametrize("kind", ["llm", "tts"])
async def test_two_hundred_cancelled_streams_leave_no_socket(kind: str) -> None:
    async with standing_in("stalls") as server:
        service, engine = (service_llm if kind == "llm" else service_tts)(server.url)

        async def one() -> None:
            started = trio.Event()

            def heard(_text: str) -> bool:
                started.set()
                return True

            def played(_pcm: bytes) -> None:
                started.set()

            async with trio.open_nursery() as nursery:
                if isinstance(engine, RemoteLlm):
                    stream = engine.start(MESSAGES, generation=1)
                    nursery.start_soon(stream.write, WriteRequest(64), heard)
                else:
                    request = SpeechRequest("Hello", 1, 0, 5.0)
                    nursery.start_soon(engine.speak, request, played)
                # Half of them while they wait for the first word, half in the middle.
                if len(server.asked) % 2 and kind == "tts":
                    await started.wait()
                else:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(one)
        with trio.fail_after(5):
            await server.until_closed()
        assert service.statistics() == {"queued": 0, "running": 0, "disowned": 0}
        server.mode = "good"
        assert await CALLS[kind](server.url)


async def test_what_is_asked(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sesame\n")
    async with standing_in() as server:
        llm = service_llm(server.url, api_key_file=str(key))[1]
        await llm.start(MESSAGES, generation=1).write(WriteRequest(64), lambda _text: True)
        await speak(server.url)
        await listen(server.url)
        (path, body, headers), (_, speech, _), (_, form, form_headers) = server.asked
        assert path == "/v1/chat/completions"
        assert headers["authorization"] == "Bearer sesame"
        assert json.loads(body)["messages"][1] == {"role": "user", "content": "count"}
        assert json.loads(speech)["response_format"] == "pcm"
        assert form_headers["content-type"].startswith("multipart/form-data; boundary=")
        assert b"RIFF" in form
        assert b'name="model"\r\n\r\nm\r\n' in form


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://a/v1", "http:///v1", "http://a:b/v1", "http://u:p@a/v1"]
)
def test_an_address_that_cannot_be_used_is_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.base_url") as caught:
        read_address("llm", LlmSection(engine="openai", base_url=url))
    assert "\n" not in str(caught.value)


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = "http://127.0.0.1:1/v1"
    monkeypatch.setenv("SOME_KEY", "from-environment")
    section = LlmSection(engine="openai", base_url=base, api_key_env="SOME_KEY")
    address = read_address("llm", section)
    assert address.key == "from-environment"
    assert "from-environment" not in repr(address)
    file = tmp_path / "key"
    with pytest.raises(MissingFileError, match="api_key_file"):
        read_address("llm", LlmSection(engine="openai", base_url=base, api_key_file=str(file)))
    file.write_text("two words")
    with pytest.raises(ConfigError, match="header"):
        read_address("llm", LlmSection(engine="openai", base_url=base, api_key_file=str(file)))
