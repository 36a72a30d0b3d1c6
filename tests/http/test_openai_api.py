"""The OpenAI-compatible API, asked by the real client."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import openai
import pytest
import trio

from duet_trio.server.audio_split import MOST_S, split_speech
from duet_trio.server.containers import wav_header
from tests.http.house import TOKEN, House, open_house

Value = TypeVar("Value")
SCRIPT = 'llm.script=["Well **now**. <think>hm</think>This is the answer."]'


async def with_client(
    house: House, work: Callable[[openai.OpenAI], Value], key: str = "none"
) -> Value:
    """Use the client in a thread: it is a synchronous one."""

    def run() -> Value:
        with openai.OpenAI(base_url=f"{house.url}/v1", api_key=key, max_retries=0) as client:
            return work(client)

    with trio.fail_after(20):
        return await trio.to_thread.run_sync(run)


async def test_every_listed_model_is_accepted_everywhere(tmp_path: Path) -> None:
    async with open_house(tmp_path, "llm.model=some/story-teller.gguf") as house:
        names = await with_client(house, lambda it: [one.id for one in it.models.list()])
        assert {"duet", "story-teller.gguf", "tts-1", "whisper-1"} <= set(names)
        for name in names:
            assert (await with_client(house, lambda it, n=name: it.models.retrieve(n))).id == name  # type: ignore[misc]
            await with_client(house, lambda it, n=name: chat(it, n))  # type: ignore[misc]
            await with_client(house, lambda it, n=name: hear(it, n))  # type: ignore[misc]
            await with_client(house, lambda it, n=name: say(it, n, "pcm"))  # type: ignore[misc]


def chat(client: openai.OpenAI, model: str = "duet", **more: Any) -> Any:
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hi"}], **more
    )


def hear(client: openai.OpenAI, model: str = "duet", **more: Any) -> Any:
    tone = (8000 * np.sin(np.arange(16_000) / 8)).astype("<i2").tobytes()
    file = io.BytesIO(wav_header(16_000, len(tone)) + tone)
    return client.audio.transcriptions.create(model=model, file=("a.wav", file), **more)


def say(client: openai.OpenAI, model: str, form: Any, **more: Any) -> bytes:
    more.setdefault("voice", "alloy")
    return client.audio.speech.create(
        model=model, input="Hello there.", response_format=form, **more
    ).read()


async def test_speech(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        assert len(await with_client(house, lambda it: say(it, "tts-1", "pcm"))) == pytest.approx(
            0.06 * 12 * 48_000, rel=0.05
        )
        starts = {"mp3": b"\xff", "opus": b"OggS", "flac": b"fLaC", "wav": b"RIFF", "aac": b"\xff"}
        for form, start in starts.items():
            body = await with_client(house, lambda it, f=form: say(it, "tts-1", f))  # type: ignore[misc]
            assert body.startswith(start), form


async def test_speech_streams(tmp_path: Path) -> None:
    async with open_house(tmp_path, "tts.rtf=0.5") as house:

        def first_chunk(client: openai.OpenAI) -> tuple[int, int]:
            with client.audio.speech.with_streaming_response.create(
                model="duet", input="A sentence of some length to speak.", voice="nova",
                response_format="pcm",
            ) as response:  # fmt: skip
                chunks: Iterator[bytes] = response.iter_bytes(9600)
                next(chunks)
                made = len(house.events("pcm"))
                for _ in chunks:
                    pass
                return made, len(house.events("pcm"))

        at_first, at_end = await with_client(house, first_chunk)
        assert at_first < at_end


async def test_transcription(tmp_path: Path) -> None:
    async with open_house(tmp_path, 'asr.script=["so I heard"]') as house:
        assert (await with_client(house, hear)).text == "so I heard"
        plain = await with_client(house, lambda it: hear(it, response_format="text"))
        assert plain.strip() == "so I heard"
        told = await with_client(house, lambda it: hear(it, response_format="verbose_json"))
        assert told.duration == pytest.approx(1.0)

        def nonsense(client: openai.OpenAI) -> Any:
            return client.audio.transcriptions.create(model="duet", file=("a.mp3", b"not audio"))

        with pytest.raises(openai.BadRequestError, match="no audio file"):
            await with_client(house, nonsense)


async def test_chat(tmp_path: Path) -> None:
    async with open_house(tmp_path, SCRIPT) as house:
        answer = await with_client(house, chat)
        assert answer.choices[0].message.content == "Well **now**. This is the answer."
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens > 5

        def stream(client: openai.OpenAI) -> list[Any]:
            return list(chat(client, stream=True, stream_options={"include_usage": True}))

        parts = await with_client(house, stream)
        texts = [one.choices[0].delta.content or "" for one in parts if one.choices]
        assert "".join(texts) == "Well **now**. This is the answer."
        assert len([text for text in texts if text]) > 3
        assert parts[-1].usage.completion_tokens > 5
        assert parts[-2].choices[0].finish_reason == "stop"
        short = await with_client(house, lambda it: chat(it, max_tokens=2))
        assert short.choices[0].finish_reason == "length"
        assert short.usage.completion_tokens == 2


async def test_a_reader_who_leaves_a_chat_stops_the_model(tmp_path: Path) -> None:
    long = "A long story. " * 60
    async with open_house(tmp_path, f"llm.script={[long]!r}", "llm.tokens_per_s=30") as house:

        def leave(client: openai.OpenAI) -> None:
            with chat(client, stream=True) as parts:
                for part in parts:
                    if part.choices[0].delta.content:
                        return

        await with_client(house, leave)
        await house.until(lambda: bool(house.events("answer.end")))
        assert house.events("answer.end")[0]["outcome"] == "aborted"
        await house.until(lambda: house.engines.services["llm"].statistics()["running"] == 0)


async def test_errors_have_the_clients_own_classes(tmp_path: Path) -> None:
    async with open_house(tmp_path, "auth.loopback=false") as house:
        with pytest.raises(openai.AuthenticationError, match="token"):
            await with_client(house, chat, key="wrong")
        with pytest.raises(openai.NotFoundError, match="no model named"):
            await with_client(house, lambda it: chat(it, "gpt-9"), TOKEN)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        with pytest.raises(openai.BadRequestError, match="'tools' is not supported"):
            await with_client(house, lambda it: chat(it, tools=tools), TOKEN)
        with pytest.raises(openai.BadRequestError, match="speed"):
            await with_client(house, lambda it: say(it, "duet", "wav", speed=2.0), TOKEN)
        assert (await with_client(house, chat, TOKEN)).choices


def test_recordings_are_cut_where_it_is_quiet() -> None:
    rate = 16_000
    samples = (5000 * np.sin(np.arange(70 * rate) / 5)).astype("<i2")
    for at in (25, 50):
        samples[at * rate : at * rate + rate // 2] = 0
    parts = list(split_speech(samples.tobytes()))
    assert b"".join(parts) == samples.tobytes()
    lengths = [len(part) / 2 / rate for part in parts]
    assert max(lengths) <= MOST_S
    assert 25.0 <= lengths[0] <= 25.5
    assert list(split_speech(b"")) == []
    assert len(list(split_speech(bytes(32_000)))) == 1
