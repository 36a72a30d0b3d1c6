"""What is kept of a board, and who wins when one Device-Id connects twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from duet_trio.board.script import Question
from duet_trio.lab.lab import open_lab
from duet_trio.server.board_facts import MAX_BOARDS, FactStore
from duet_trio.server.state_file import replace_file
from duet_trio.wire.messages import Alert, System
from duet_trio.wire.ota import OtaRequest
from tests.protocol.peer import meeting, scripted


def asked(number: int, chip: str = "esp32s3", firmware: str = "2.4.2") -> OtaRequest:
    return OtaRequest(
        device_id=f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        client_id="",
        chip=chip,
        firmware=firmware,
        board="a board",
    )


def test_facts_survive_a_restart_and_a_request_that_says_less(tmp_path: Path) -> None:
    for request in (asked(1), asked(1, chip="", firmware="")):
        store = FactStore(tmp_path)
        store.saw(request)
        store.flush()
    facts = FactStore(tmp_path).known()["02:00:00:00:00:01"]
    assert (facts.chip, facts.firmware, facts.name) == ("esp32s3", "2.4.2", "a board")


@pytest.mark.parametrize(
    ("chip", "small"),
    [("esp32s3", False), ("esp32p4", False), ("esp32c3", True), ("esp32c6", True), ("", True)],
)
def test_small_chips_and_unknown_ones_take_the_smaller_lead(
    tmp_path: Path, chip: str, small: bool
) -> None:
    store = FactStore(tmp_path)
    if chip:
        store.saw(asked(1, chip=chip))
    assert store.of("02:00:00:00:00:01").small is small


def test_a_voice_in_the_store_is_the_boards(tmp_path: Path) -> None:
    store = FactStore(tmp_path)
    store.saw(asked(1))
    store.flush()
    path = tmp_path / "boards.json"
    kept = json.loads(path.read_bytes())
    kept["02:00:00:00:00:01"]["voice"] = "aunt"
    path.write_text(json.dumps(kept))
    assert FactStore(tmp_path).of("02:00:00:00:00:01").voice == "aunt"


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"a":1}', b"\xff\xfe", b'{"a":{"b":' + b"[" * 99_999],
    ids=["empty", "brace", "list", "number", "binary", "deep"],
)
def test_a_damaged_file_starts_empty(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "boards.json").write_bytes(damage)
    store = FactStore(tmp_path)
    assert store.known() == {}
    store.saw(asked(1))
    store.flush()
    assert len(FactStore(tmp_path).known()) == 1


async def test_facts_are_written_in_a_thread_and_not_for_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duet_trio.server.board_facts.WRITE_EVERY_S", 0.05)
    threads: list[threading.Thread] = []
    written, room, second = threading.Event(), threading.Event(), threading.Event()

    def slow(path: Path, data: bytes) -> None:
        threads.append(threading.current_thread())
        written.set()
        assert room.wait(10)
        replace_file(path, data)
        if len(threads) == 2:
            second.set()

    monkeypatch.setattr("duet_trio.server.board_facts.replace_file", slow)
    store = FactStore(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        store.saw(asked(1))
        await trio.to_thread.run_sync(written.wait)
        for number in range(2, 200):  # while a slow disk writes the first
            store.saw(asked(number))
        room.set()
        assert await trio.to_thread.run_sync(second.wait, 10)
        nursery.cancel_scope.cancel()
    assert len(FactStore(tmp_path).known()) == 199
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_what_is_unwritten_at_the_end_is_written_then(tmp_path: Path) -> None:
    store = FactStore(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        store.saw(asked(1))
        await trio.testing.wait_all_tasks_blocked()
        store.saw(asked(2))
        nursery.cancel_scope.cancel()
    store.flush()
    assert len(FactStore(tmp_path).known()) == 2
    # Cancelled before its first step.
    store = FactStore(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        store.saw(asked(3))
        nursery.cancel_scope.cancel()
    store.flush()
    assert len(FactStore(tmp_path).known()) == 3


def test_an_open_endpoint_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duet_trio.server.board_facts.MAX_BOARDS", 5)
    store = FactStore(tmp_path)
    for number in range(9):
        store.saw(asked(number))
    assert len(store.known()) == 5
    assert "02:00:00:00:00:08" in store.known()
    assert MAX_BOARDS >= 1000


def test_a_board_that_connects_has_been_seen(tmp_path: Path) -> None:
    store = FactStore(tmp_path)
    store.saw(asked(1))
    store._facts["02:00:00:00:00:01"].last_seen = 1.0
    store.of("02:00:00:00:00:01")
    store.flush()
    assert FactStore(tmp_path).known()["02:00:00:00:00:01"].last_seen > 1.6e9


async def test_the_newest_of_two_wins_and_the_old_is_closed_cleanly(
    autojump_clock: object, scheduler_seed: int
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as old:
        await old.listen()
        await old.say("listen", state="detect", text="A story, please.")
        await old.until(old.packets)
        async with meeting(lab) as new:
            await old.until(lambda: old.closed is not None, 5)
            assert old.closed.code == 1000
            assert "newer" in old.closed.reason
            await new.listen()
            await new.say("listen", state="detect", text="And now?")
            await new.stopped()
            assert len(new.messages("tts", "sentence_start")) >= 2
            outcomes = [event["outcome"] for event in lab.events("answer.end")]
            assert outcomes == ["aborted", "done"]
            assert len(lab.boards.sessions) == 1


async def test_a_board_that_reconnects_in_mid_answer_is_a_new_one(autojump_clock: object) -> None:
    """Lost Wi-Fi: the old connection still stands when the board is back."""
    async with open_lab(scripted()) as lab, meeting(lab, reads=False) as lost:
        await lost.listen()
        await lost.say("listen", state="detect", text="A story, please.")
        await trio.sleep(2)
        result = await lab.board(1).run([Question("Once more?")])
        assert result.answered
        assert not result.failure


async def test_browsers_say_who_they_are_in_the_query(autojump_clock: object) -> None:
    path = "/xiaozhi/v1/?device-id=AA-BB-CC-DD-EE-FF&client-id=web&authorization=Bearer%20x"
    async with open_lab(scripted()) as lab, meeting(lab, path=path, headers=()) as peer:
        assert list(lab.boards.sessions) == ["aa:bb:cc:dd:ee:ff"]
        await peer.listen()
        await peer.say("listen", state="detect", text="Are you there?")
        await peer.stopped()


async def test_clients_without_a_name_do_not_push_each_other_out(autojump_clock: object) -> None:
    async with (
        open_lab(scripted()) as lab,
        meeting(lab, headers=()) as one,
        meeting(lab, headers=()) as two,
    ):
        assert len(lab.boards.sessions) == 2
        for peer in (one, two):
            await peer.listen()
            await peer.say("listen", state="detect", text="Are you there?")
            await peer.stopped()


async def test_typed_text_after_listen_start_manual(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.say("listen", state="detect", text="Are you there?")
        assert await peer.recognised() == ["Are you there?"]
        await peer.stopped()


async def test_audio_before_the_hello_does_no_harm(autojump_clock: object) -> None:
    from duet_trio.lab.lab import loud, quiet

    async with open_lab(scripted()) as lab, meeting(lab, hello=None) as peer:
        await peer.speak(loud(0.6) + quiet(1.0))
        await peer.raw('{"type":"hello"}')
        await peer.until(lambda: peer.messages("hello"), 5)
        await peer.listen()
        await peer.speak(loud(0.6) + quiet(1.0))
        assert await peer.recognised() == ["hello"]


async def test_notices_and_the_order_to_reboot(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        (session,) = lab.boards.sessions.values()
        session.tell(Alert("error", "no model", "sad"))
        session.tell(System("reboot"))
        await peer.until(lambda: peer.messages("system"), 1)
        (alert,) = peer.messages("alert")
        assert {alert["status"], alert["message"], alert["emotion"]} == {"error", "no model", "sad"}
        (order,) = peer.messages("system")
        assert order["command"] == "reboot"
