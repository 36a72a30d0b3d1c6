"""``/speak``: audio as it is made, and nothing left when the client goes away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio

from duet_trio.engines.contracts import Hold, SpeechRequest, Spoken
from duet_trio.errors import EngineCrashedError, EngineFailedError
from duet_trio.server.containers import Workshop
from duet_trio.session.services import Services
from tests.http.house import begin, finish, open_house

TEXT = "This is a sentence that is spoken. And here is one more of them, a little longer."
LONG = "This is one sentence of a very long text that takes its time to be spoken. " * 40


def pcm_of(body: bytes) -> bytes:
    assert body[:4] == b"RIFF"
    assert body[8:16] == b"WAVEfmt "
    assert body[36:40] == b"data"
    assert int.from_bytes(body[24:28], "little") == 24_000
    return body[44:]


async def test_a_text_becomes_a_wav_file(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("POST", "/speak", {"text": TEXT})
        assert reply.status == 200
        assert reply.headers["content-type"] == "audio/wav"
        assert "content-length" not in reply.headers
        pcm = pcm_of(reply.body)
        made_ms = sum(event["audio_ms"] for event in house.events("pcm"))
        assert len(pcm) / 48 == pytest.approx(made_ms, abs=1)
        assert np.abs(np.frombuffer(pcm, dtype="<i2")).max() > 1000
        end = house.events("answer.end")[-1]
        assert (end["outcome"], end["board"]) == ("done", None)
        assert end["client"].startswith("speak-")


async def test_the_first_bytes_leave_before_the_last_block_is_made(tmp_path: Path) -> None:
    async with open_house(tmp_path, "tts.rtf=0.3") as house:
        reply = await house.ask("POST", "/speak", {"text": TEXT})
        blocks = [event["t"] for event in house.events("pcm")]
        assert len(blocks) > 5
        assert reply.first_byte_at < blocks[3]


async def test_a_prompt_is_answered_piece_by_piece(tmp_path: Path) -> None:
    script = f'llm.script=["{TEXT}"]'
    async with open_house(tmp_path, script) as house:
        reply = await house.ask("POST", "/speak", {"prompt": "Tell me.", "format": "pcm"})
        assert reply.status == 200
        assert reply.headers["content-type"] == "audio/pcm"
        spoken = "".join(event["text"] for event in house.events("piece"))
        assert spoken == TEXT
        assert len(reply.body) / 48_000 == pytest.approx(0.06 * len(TEXT), rel=0.1)


async def test_an_address_bar_is_enough(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("GET", "/speak?text=Hello%20there.&format=pcm")
        assert reply.status == 200
        assert len(reply.body) > 20_000
        head = await house.ask("HEAD", "/speak?text=Hello", only_head=True)
        assert head.status == 200
        assert len(house.events("answer.start")) == 1
        refused = await house.ask("GET", "/speak?text=Hello&device=aa")
        assert refused.status == 400


@pytest.mark.parametrize("name", ["ogg", "mp3", "aac", "flac"])
async def test_containers_hold_what_was_spoken(name: str, tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("POST", "/speak", {"text": TEXT, "format": name})
        assert reply.status == 200
        assert not reply.broken
        pcm = await Workshop().decode(reply.body, 60.0)
        assert len(pcm) / 32_000 == pytest.approx(0.06 * len(TEXT), abs=0.2)


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({}, 400, "either"),
        ({"text": "a", "prompt": "b"}, 400, "either"),
        ({"text": "   "}, 400, "nothing to say"),
        ({"text": "a", "format": "midi"}, 400, "unknown format"),
        ({"text": 5}, 400, "text"),
        ({"text": "a", "colour": "red"}, 400, "colour"),
        ({"text": "a", "device": "02:00:00:00:00:09"}, 404, "no such board"),
        ({"text": "a", "device": "x", "voice": "y"}, 400, "own voice"),
        ({"text": "x" * 10_001}, 413, "10000"),
        (b"no json", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        (b'{"text": "' + b"x" * (1 << 20) + b'"}', 413, ""),
    ],
)
async def test_what_cannot_be_said(body: object, status: int, part: str, tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("POST", "/speak", body)
        assert reply.status == status
        assert part in reply.message
        assert "Traceback" not in reply.body.decode()
        assert not house.events("answer.start")


async def test_a_client_that_goes_away_stops_everything_within_100_ms(tmp_path: Path) -> None:
    async with open_house(tmp_path, "tts.rtf=0.8") as house:
        stream = await house.connect()
        http = await begin(stream, "POST", "/speak", {"text": LONG})
        await finish(stream, http, only_head=True)
        await house.until(lambda: len(house.events("sent")) > 2)
        left = trio.current_time()
        await trio.aclose_forcefully(stream)
        await house.until(lambda: bool(house.events("answer.end")))
        assert house.events("answer.end")[0]["t"] - left < 0.1
        assert house.events("answer.end")[0]["outcome"] == "aborted"
        await house.until(lambda: house.engines.services["tts"].statistics()["running"] == 0)
        assert house.services.admission.statistics()["speaking"] == 0
        await house.until(lambda: house.http.connections == 0)
        again = await house.ask("POST", "/speak", {"text": "Hello."})
        assert again.status == 200


async def test_a_client_that_stops_reading_loses_its_answer(tmp_path: Path) -> None:
    async with open_house(tmp_path, "server.http_send_s=0.5", "tts.rtf=0.002") as house:
        stream = await house.connect()
        http = await begin(stream, "POST", "/speak", {"text": LONG * 3})
        await finish(stream, http, only_head=True)
        began = trio.current_time()
        await house.until(lambda: bool(house.events("answer.end")), 8)
        assert trio.current_time() - began > 0.4
        assert house.events("answer.end")[0]["outcome"] == "aborted"
        await house.until(lambda: house.http.connections == 0)
        await stream.aclose()


class BadVoice:
    """Fails before its first block, or after it."""

    slots = 4

    def __init__(self, blocks: int, error: Exception) -> None:
        self._blocks = blocks
        self._error = error

    async def speak(
        self, request: SpeechRequest, on_block: Callable[[bytes], None], hold: Hold | None = None
    ) -> Spoken:
        await trio.lowlevel.checkpoint()
        for _ in range(self._blocks):
            on_block(b"\1\1" * 4800)
            await trio.sleep(0.05)
        raise self._error


def with_voice(voice: BadVoice) -> Callable[[Services], Services]:
    return lambda services: replace(services, tts=voice)


CRASH = EngineCrashedError("tts: /opt/secret/voice.bin died", engine="tts", reason="it crashed")


async def test_a_failure_before_the_audio_is_a_status(tmp_path: Path) -> None:
    async with open_house(tmp_path, change=with_voice(BadVoice(0, CRASH))) as house:
        reply = await house.ask("POST", "/speak", {"text": TEXT})
        assert reply.status == 503
        assert reply.message == "it crashed"
        assert b"secret" not in reply.body
        assert house.events("answer.end")[0]["cause"] == "it crashed"


@pytest.mark.parametrize("name", ["wav", "mp3"])
async def test_a_failure_in_mid_audio_breaks_the_response_off(name: str, tmp_path: Path) -> None:
    failed = EngineFailedError("tts: no", engine="tts", reason="it failed")
    async with open_house(tmp_path, change=with_voice(BadVoice(3, failed))) as house:
        reply = await house.ask("POST", "/speak", {"text": TEXT, "format": name})
        assert reply.status == 200
        assert reply.broken
        assert house.events("answer.end")[0]["outcome"] == "failed"
        await house.until(lambda: house.http.connections == 0)


async def test_many_answers_at_once(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        replies: list[int] = []

        async def one() -> None:
            reply = await house.ask("POST", "/speak", {"text": TEXT})
            replies.append(len(reply.body) if reply.status == 200 else -1)

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(one)
        assert len(set(replies)) == 1
        assert replies[0] > 100_000
        generations = [event["generation"] for event in house.events("answer.start")]
        assert len(set(generations)) == 30
