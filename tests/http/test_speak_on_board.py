"""``/speak`` with a device: announcements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio_websocket import open_websocket_url

from duet_trio.bench.talker import HELLO, talking
from tests.http.house import House, begin, open_house

DEVICE = "02:00:00:00:00:01"
LONG = "This is a long answer that goes on and on for quite a while, as stories do. " * 4


async def announce(house: House, **more: Any) -> dict[str, Any]:
    reply = await house.ask("POST", "/speak", {"text": "Dinner.", "device": DEVICE, **more})
    assert reply.status == 200, reply.body
    told: dict[str, Any] = reply.json()
    return told


async def test_an_idle_board_says_it_at_once(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1) as talker:
        told = await announce(house)
        assert told == {"device": DEVICE, "outcome": "done", "heard": "Dinner.", "why": ""}
        await talker.until_stops(1)
        assert len(talker.arrivals) >= 7
        # It was no conversation: nothing of it is in the next prompt.
        session = house.boards.sessions[DEVICE]
        assert session.conversation.announcements == ()
        assert house.events("answer.end")[0]["board"] == DEVICE
        # Nobody had shut the microphone; it is shut for this and open afterwards.
        assert not session.listener.gate.is_open(trio.current_time())
        await house.until(lambda: session.listener.gate.is_open(trio.current_time()))


async def test_a_prompt_is_answered_on_the_board(tmp_path: Path) -> None:
    script = 'llm.script=["Five."]'
    async with open_house(tmp_path, script) as house, talking(house.websocket_url, 1):
        reply = await house.ask("POST", "/speak", {"prompt": "How many?", "device": DEVICE})
        assert reply.json()["heard"] == "Five."


async def test_a_talking_board_says_it_after_its_answer(tmp_path: Path) -> None:
    script = f"llm.script={[LONG[:80]]!r}"
    async with open_house(tmp_path, script) as house, talking(house.websocket_url, 1) as talker:
        await talker.ask("tell me")
        await talker.until_packets(3)
        told = await announce(house)
        assert told["outcome"] == "done"
        ends = house.events("answer.end")
        assert [end["outcome"] for end in ends] == ["done", "done"]
        assert [start["question"] for start in house.events("answer.start")] == [
            "tell me",
            "Dinner.",
        ]
        assert len(talker.starts) == len(talker.stops) == 2


async def test_an_interruption_ends_the_answer(tmp_path: Path) -> None:
    script = f"llm.script={[LONG]!r}"
    async with open_house(tmp_path, script) as house, talking(house.websocket_url, 1) as talker:
        await talker.ask("tell me")
        await talker.until_packets(3)
        began = trio.current_time()
        told = await announce(house, interrupt=True)
        assert told["outcome"] == "done"
        assert trio.current_time() - began < 3
        first, second = house.events("answer.end")
        assert (first["outcome"], first["cause"]) == ("aborted", "announcement")
        assert second["outcome"] == "done"


async def test_a_question_ends_an_announcement(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1) as talker:
        replies: list[dict[str, Any]] = []

        async def one() -> None:
            replies.append(await announce(house, text=LONG))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await talker.until_packets(3)
            await talker.ask("and now?")
        assert (replies[0]["outcome"], replies[0]["why"]) == ("aborted", "replaced")
        assert replies[0]["heard"] != LONG


async def test_whoever_asked_and_left_is_not_spoken_for(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1) as talker:
        stream = await house.connect()
        await begin(stream, "POST", "/speak", {"text": LONG, "device": DEVICE})
        await talker.until_packets(3)
        left = trio.current_time()
        await trio.aclose_forcefully(stream)
        await talker.until_stops(1)
        assert trio.current_time() - left < 0.3
        assert house.events("answer.end")[0]["cause"] == "client_gone"


async def test_a_board_that_leaves_ends_its_announcements(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        replies: list[dict[str, Any]] = []

        async def one() -> None:
            replies.append(await announce(house, text=LONG))

        async with trio.open_nursery() as nursery:
            await trio.lowlevel.checkpoint()
            async with talking(house.websocket_url, 1) as talker:
                nursery.start_soon(one)
                nursery.start_soon(one)
                await talker.until_packets(3)
        assert [reply["why"] for reply in replies] == ["disconnect", "disconnect"]


async def test_too_many_announcements_are_refused(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1) as talker:
        statuses: list[int] = []

        async def one() -> None:
            body = {"text": LONG, "device": DEVICE}
            statuses.append((await house.ask("POST", "/speak", body)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(one)
            await talker.until_packets(3)
            await house.until(lambda: len(statuses) == 3)
            nursery.cancel_scope.cancel()
        assert statuses == [429] * 3


@pytest.mark.parametrize("says_listen", [False, True])
async def test_a_board_is_not_spoken_to_while_it_connects(
    says_listen: bool, tmp_path: Path
) -> None:
    headers = [(b"Device-Id", DEVICE.encode()), (b"Protocol-Version", b"1")]
    async with (
        open_house(tmp_path) as house,
        open_websocket_url(
            house.websocket_url, extra_headers=headers, disconnect_timeout=0.3
        ) as socket,
    ):
        await socket.send_message(HELLO)
        await socket.get_message()
        if says_listen:
            await socket.send_message('{"type":"listen","state":"start","mode":"auto"}')
            session = house.boards.sessions[DEVICE]
            await house.until(lambda: session.protocol.may_speak)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, socket)
            reply = await house.ask("POST", "/speak", {"text": "Hi.", "device": DEVICE})
            nursery.cancel_scope.cancel()
        assert reply.status == (200 if says_listen else 409)


async def _read(socket: Any) -> None:
    while True:
        await socket.get_message()
