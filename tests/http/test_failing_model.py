"""A language model that fails, beside a voice of its own and in turns with it: a plain reason on
every way to it, and never a traceback.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from duet_trio.bench.talker import talking
from duet_trio.engines.contracts import Hold, WriteRequest, Written
from duet_trio.errors import EngineCrashedError
from tests.http.house import House, Reply, open_house
from tests.session.fake_model import FakeModel

DEVICE = "02:00:00:00:00:01"
REASON = "the model crashed"
SENTENCE = "This is a first sentence which is long enough to be a piece of its own in any case. "
#: In turns the writer waits for the voice between holds; otherwise a task beside it watches for
#: stalls, and its errors come in a group.
SCHEDULES = {"beside": (), "in turns": ("llm.gpu=true", "tts.gpu=true")}
CHAT = {"model": "duet", "messages": [{"role": "user", "content": "hi"}]}


@dataclass
class BadModel(FakeModel):
    """A model, and its one stream: writes a text in one hold, and crashes in the next when told."""

    text: str = ""
    crash: trio.Event = field(default_factory=trio.Event)

    def begin(self) -> None:
        self._left = self.text

    async def write(
        self, request: WriteRequest, on_text: Callable[[str], bool], hold: Hold | None = None
    ) -> Written:
        await trio.lowlevel.checkpoint()
        if self._left:
            text, self._left = self._left, ""
            on_text(text)
            return Written(1, finished=False)
        await self.crash.wait()
        raise EngineCrashedError("llm: /opt/secret/model.gguf died", engine="llm", reason=REASON)


@pytest.fixture(params=list(SCHEDULES.values()), ids=list(SCHEDULES))
def schedule(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> object:
    yield
    assert [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR] == []


def check_refused(reply: Reply, house: House) -> None:
    assert reply.status == 503
    assert reply.message == REASON
    assert reply.headers["retry-after"]
    assert b"secret" not in reply.body
    (end,) = house.events("answer.end")
    assert (end["outcome"], end["cause"]) == ("failed", REASON)


@pytest.mark.parametrize(
    ("path", "body"), [("/speak", {"prompt": "hi"}), ("/v1/chat/completions", CHAT)]
)
async def test_before_anything_has_left_it_is_a_status(
    path: str, body: object, schedule: tuple[str, ...], tmp_path: Path
) -> None:
    model = BadModel()
    model.crash.set()
    async with open_house(tmp_path, *schedule, change=model.wrap) as house:
        check_refused(await house.ask("POST", path, body), house)


async def test_a_chat_that_is_not_streamed_has_a_status_however_late(
    schedule: tuple[str, ...], tmp_path: Path
) -> None:
    model = BadModel(SENTENCE)
    model.crash.set()
    async with open_house(tmp_path, *schedule, change=model.wrap) as house:
        check_refused(await house.ask("POST", "/v1/chat/completions", CHAT), house)


async def test_a_streamed_chat_ends_with_the_reason(
    schedule: tuple[str, ...], tmp_path: Path
) -> None:
    model = BadModel(SENTENCE)
    model.crash.set()
    async with open_house(tmp_path, *schedule, change=model.wrap) as house:
        reply = await house.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True})
        assert reply.status == 200
        last = reply.body.decode().split("data: ")[-1]
        assert json.loads(last)["error"]["message"] == REASON
        assert b"secret" not in reply.body


async def test_in_mid_audio_the_response_breaks_off(
    schedule: tuple[str, ...], tmp_path: Path
) -> None:
    model = BadModel(SENTENCE * 3)
    async with open_house(tmp_path, *schedule, change=model.wrap) as house:
        replies = []

        async def ask() -> None:
            replies.append(await house.ask("POST", "/speak", {"prompt": "hi"}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await house.until(lambda: bool(house.events("sent")))
            model.crash.set()
        (reply,) = replies
        assert reply.status == 200
        assert reply.broken
        (end,) = house.events("answer.end")
        assert (end["outcome"], end["cause"]) == ("failed", REASON)
        await house.until(lambda: house.http.connections == 0)


@pytest.mark.parametrize("text", ["", SENTENCE])
async def test_on_a_board_it_is_the_answers_reason(
    text: str, schedule: tuple[str, ...], tmp_path: Path
) -> None:
    model = BadModel(text)
    model.crash.set()
    house_of = open_house(tmp_path, *schedule, change=model.wrap)
    async with house_of as house, talking(house.websocket_url, 1):
        reply = await house.ask("POST", "/speak", {"prompt": "hi", "device": DEVICE})
        assert reply.status == 200
        told = reply.json()
        assert (told["outcome"], told["why"]) == ("failed", REASON)
        (end,) = house.events("answer.end")
        assert (end["outcome"], end["cause"]) == ("failed", REASON)
