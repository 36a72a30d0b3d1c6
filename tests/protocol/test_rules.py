"""The twelve rules that every stock board and public client lives by, end to end.

One server in this process on a mock clock; the other end is a real WebSocket (`Peer`) or the
simulated board. Rule 1 (OTA) stands in ``test_rule_ota.py``.
"""

from __future__ import annotations

import itertools
import json
import socket
from typing import Any

import pytest
import trio
import trio.testing

from duet_trio.board.firmware import FIRMWARES
from duet_trio.board.script import Action, Question
from duet_trio.faults.plan import Fault, Plan
from duet_trio.lab.lab import Lab, loud, open_lab, quiet
from duet_trio.server.boards import _keep_alive
from duet_trio.session.peer import Facts
from duet_trio.wire.framing import unpack
from tests.protocol.peer import HELLO, Ears, Peer, meeting, scripted

FRAME_S = 0.06


async def ask(peer: Peer, text: str = "Are you there?") -> None:
    await peer.say("listen", state="detect", text=text)


# --- 2: hello -------------------------------------------------------------------------------


async def test_rule_02_hello_is_answered_at_once_before_any_model_is_loaded(
    autojump_clock: object,
) -> None:
    lab = Lab(scripted())  # its engines are never started: they load for ever
    async with trio.open_nursery() as nursery:
        lab._nursery = nursery
        asked = trio.current_time()
        async with meeting(lab) as peer:
            (hello,) = peer.messages("hello")
            assert trio.current_time() - asked < 0.1
            assert hello["transport"] == "websocket"
            assert hello["session_id"]
            audio = hello["audio_params"]
            assert (audio["sample_rate"], audio["frame_duration"], audio["channels"]) == (
                24000,
                60,
                1,
            )
        nursery.cancel_scope.cancel()


async def test_rule_02_our_own_parameters_never_an_echo_of_the_clients(
    autojump_clock: object,
) -> None:
    hello = {**HELLO, "audio_params": {"format": "opus", "sample_rate": 8000, "frame_duration": 20}}
    async with open_lab(scripted()) as lab, meeting(lab, hello=hello) as peer:
        audio = peer.messages("hello")[0]["audio_params"]
        assert (audio["sample_rate"], audio["frame_duration"]) == (24000, 60)


async def test_rule_02_a_second_hello_is_not_answered(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.raw(json.dumps(HELLO))
        await peer.listen()
        await ask(peer)
        await peer.stopped()
        assert len(peer.messages("hello")) == 1


# --- 3: framing -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rule_03_both_ways_in_the_announced_framing(
    autojump_clock: object, version: int
) -> None:
    headers = [("Device-Id", "02:00:00:00:00:02"), ("Protocol-Version", str(version))]
    async with open_lab(scripted()) as lab, meeting(lab, headers=headers, version=version) as peer:
        await peer.listen()
        await peer.speak(quiet(0.3) + loud(0.8) + quiet(1.0))
        assert await peer.recognised() == ["hello"]
        await peer.stopped()
        assert len(peer.packets()) > 50
        framed = [data for _at, data in peer.log if isinstance(data, bytes)]
        stamps = [unpack(version, data).timestamp_ms for data in framed]
        if version == 2:
            assert all(stamps)
            assert all(before < after for before, after in itertools.pairwise(stamps))
        else:
            assert not any(stamps)


async def test_rule_03_stamps_that_come_back_tell_how_long_the_loop_is(
    autojump_clock: object,
) -> None:
    headers = [("Device-Id", "02:00:00:00:00:02"), ("Protocol-Version", "2")]
    async with open_lab(scripted()) as lab, meeting(lab, headers=headers, version=2) as peer:
        await peer.listen("realtime")
        await ask(peer)
        await peer.until(peer.packets)
        (framed,) = [data for _at, data in peer.log if isinstance(data, bytes)][:1]
        stamp = framed[8:12]
        await trio.sleep(0.25)
        await peer.raw(b"\0\2\0\0\0\0\0\0" + stamp + b"\0\0\0\0")
        await trio.testing.wait_all_tasks_blocked()
        (session,) = lab.boards.sessions.values()
        assert session.listener.statistics.loop_ms == pytest.approx(250, abs=5)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rule_03_bad_packets_never_end_the_session(
    autojump_clock: object, version: int
) -> None:
    headers = [("Device-Id", "02:00:00:00:00:02"), ("Protocol-Version", str(version))]
    async with open_lab(scripted()) as lab, meeting(lab, headers=headers, version=version) as peer:
        await peer.listen()
        for data in (b"\0", b"\0\2\0\0", b"\0\0\xff\xff" + bytes(9), b"\x07" * 16, bytes(5000)):
            await peer.raw(data)
        await peer.raw(b"\0\2" + bytes(10) + b"\xff\xff\xff\xff" + bytes(40))
        await peer.speak(loud(0.8) + quiet(1.0))
        assert await peer.recognised() == ["hello"]
        await peer.stopped()
        assert peer.closed is None


# --- 4: uplink at any time ------------------------------------------------------------------


async def test_rule_04_a_wake_words_burst_before_listen_start_is_no_question(
    autojump_clock: object,
) -> None:
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.speak(quiet(1.0) + loud(0.9), speed=100)  # the burst: 2 s at once
        await peer.say("listen", state="detect", text="Hi there")
        await peer.listen()
        await peer.speak(quiet(0.5) + loud(0.6) + quiet(1.0))
        assert await peer.recognised() == ["hello"]
        await peer.stopped()
        assert len(peer.messages("stt")) == 1
        # Pre-roll, the question and the silence behind it; nothing of the wake word.
        assert ears.seconds() == []
        assert len(ears.ear.heard[-1].pcm) / 32000 == pytest.approx(0.5 + 0.6 + 0.2, abs=0.1)


async def test_rule_04_speech_within_the_burst_is_not_answered_before_the_board_listens(
    autojump_clock: object,
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.speak(loud(0.5) + quiet(0.9) + loud(0.5), speed=100)
        await trio.sleep(2)
        assert not peer.messages("tts")
        await peer.say("listen", state="detect", text="Hi there")
        await peer.listen()
        await peer.speak(loud(0.6) + quiet(1.0))
        await peer.stopped()
        assert len(peer.messages("stt")) == 1


async def test_rule_04_packets_after_listen_stop_belong_to_the_utterance(
    autojump_clock: object,
) -> None:
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.speak(quiet(0.6) + loud(0.9))
        await peer.say("listen", state="stop")
        await peer.speak(loud(0.18), speed=10)  # three packets that were under way
        await peer.speak(loud(3.0), speed=10)  # and a client that simply streams on
        await peer.recognised()
        await peer.stopped()
        assert len(peer.messages("stt")) == 1
        assert ears.seconds() == [pytest.approx(0.5 + 0.9 + 0.18, abs=0.07)]


async def test_rule_04_tiny_and_empty_packets_are_silence(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(loud(0.6))
        for _ in range(20):  # DTX: silence in one byte, or in none
            await peer.raw(b"")
            await peer.raw(b"\x58")
            await trio.sleep(2 * FRAME_S)
        assert await peer.recognised() == ["hello"]


@pytest.mark.parametrize("frame_ms", [20, 40, 60, 120])
async def test_rule_04_packets_of_any_length(autojump_clock: object, frame_ms: int) -> None:
    hello = {**HELLO, "audio_params": {"sample_rate": 16000, "frame_duration": frame_ms}}
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab, hello=hello) as peer:
        await peer.listen()
        await peer.speak(quiet(0.6) + loud(0.6) + quiet(1.2), frame_ms=frame_ms)
        assert await peer.recognised() == ["hello"]
        assert len(ears.ear.heard[-1].pcm) / 32000 == pytest.approx(0.5 + 0.6 + 0.2, abs=0.1)


@pytest.mark.parametrize("session_id", ["", "somebody else's", None])
async def test_rule_04_any_session_id_will_do(
    autojump_clock: object, session_id: str | None
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.say("listen", session_id, state="start", mode="auto")
        await peer.say("listen", session_id, state="detect", text="Are you there?")
        await peer.until(peer.packets)
        await peer.say("abort", session_id)
        await peer.stopped()


# --- 5: end of the utterance ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "realtime"])
async def test_rule_05_auto_and_realtime_end_by_silence_with_pre_roll(
    autojump_clock: object, mode: str
) -> None:
    ears = Ears()
    async with (
        open_lab(scripted("vad.speculate_ms=0"), wrap=ears.wrap) as lab,
        meeting(lab) as peer,
    ):
        await peer.listen(mode)
        begun = trio.current_time()
        await peer.speak(quiet(1.0) + loud(1.0) + quiet(0.9))
        await peer.recognised()
        # 600 ms of silence, the packet that holds its end, and the scripted recogniser.
        assert peer.times("stt")[0] - begun == pytest.approx(2.6 + 0.06, abs=0.08)
        assert ears.seconds() == [pytest.approx(0.5 + 1.0 + 0.6, abs=0.07)]


async def test_rule_05_manual_ends_by_listen_stop_only(autojump_clock: object) -> None:
    ears = Ears()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.speak(loud(0.6) + quiet(3.0) + loud(0.6) + quiet(2.0))
        assert not peer.messages("stt")
        await peer.say("listen", state="stop")
        await peer.recognised()
        assert ears.seconds() == [pytest.approx(6.2, abs=0.1)]


async def test_rule_05_a_key_held_for_longer_than_the_cap_is_one_question(
    autojump_clock: object,
) -> None:
    config = scripted("vad.max_utterance_s=3", 'asr.script=["one", "two", "three"]')
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.speak(loud(7.0))
        assert not peer.messages("stt")
        await peer.say("listen", state="stop")
        assert await peer.recognised() == ["one two three"]


# --- 6: one stop per turn, abort at once ----------------------------------------------------


PATHS: dict[str, tuple[list[str], list[Fault]]] = {
    "an answer": ([], []),
    "an empty answer": (['llm.script=[""]'], []),
    "a failing model": ([], [Fault(seam="llm.piece", effect="error")]),
    "a hanging model": (["llm.first_s=2"], [Fault(seam="llm.piece", effect="hang")]),
    "a failing voice": ([], [Fault(seam="tts.start", effect="error", nth=n) for n in (1, 2)]),
    "a hanging voice": (["tts.first_s=2"], [Fault(seam="tts.start", effect="hang")]),
    "a silent voice": ([], [Fault(seam="tts.start", effect="empty", nth=n) for n in (1, 2)]),
}


@pytest.mark.parametrize("path", PATHS)
async def test_rule_06_every_turn_ends_with_one_stop(
    autojump_clock: object, path: str, scheduler_seed: int
) -> None:
    assignments, faults = PATHS[path]
    async with (
        open_lab(scripted(*assignments), plan=Plan(fault=tuple(faults))) as lab,
        meeting(lab) as peer,
    ):
        await peer.listen()
        await ask(peer)
        await peer.stopped()
        await trio.sleep(5)
        states = [message["state"] for message in peer.messages("tts")]
        assert states.count("start") == states.count("stop") == 1
        assert states[-1] == "stop"
        last = max(at for at, item in peer.log if isinstance(item, bytes)) if peer.packets() else 0
        assert peer.times("tts", "stop")[0] >= last


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.2, 0.5, 2.0, 60.0])
@pytest.mark.parametrize("reason", [None, "", "wake_word_detected", "manual"])
async def test_rule_06_every_abort_is_answered_by_stop_at_once(
    autojump_clock: object, after_s: float, reason: str | None
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen()
        await ask(peer)
        await trio.sleep(after_s)
        before = len(peer.messages("tts", "stop"))
        aborted = trio.current_time()
        await peer.say("abort", **({} if reason is None else {"reason": reason}))
        await peer.stopped(before + 1)
        assert peer.times("tts", "stop")[-1] - aborted < 0.02
        await trio.sleep(5)
        assert peer.log[-1][1] == peer.messages("tts", "stop")[-1]  # nothing of the old turn
        await ask(peer)  # and the next one is whole
        await peer.stopped(before + 2)
        assert len(peer.messages("tts", "sentence_start")) >= 2


# --- 7: start before audio, nothing before the board is ready ------------------------------


async def test_rule_07_start_goes_out_well_before_the_first_audio(autojump_clock: object) -> None:
    async with (
        open_lab(scripted("tts.first_audio_s=0", "llm.tokens_per_s=2000")) as lab,
        meeting(lab) as peer,
    ):
        await peer.listen()
        await ask(peer)
        await peer.stopped()
        kinds = [m["type"] + m.get("state", "") for _at, m in peer.log if isinstance(m, dict)]
        assert kinds[1:4] == ["stt", "ttsstart", "ttssentence_start"]
        assert 0.1 <= peer.packets()[0][0] - peer.times("tts", "start")[0] <= 0.2


async def test_rule_07_nothing_is_spoken_before_the_board_listens(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.speak(loud(1.0) + quiet(2.0))
        await trio.sleep(5)
        assert not peer.messages("tts")
        assert not peer.packets()


# --- 8: pacing ------------------------------------------------------------------------------


def outstanding(arrivals: list[float]) -> int:
    """The most packets that a board had to keep, if it plays one per 60 ms from the first on."""
    most, plays_until = 0, 0.0
    for at in arrivals:
        plays_until = max(plays_until, at) + FRAME_S
        most = max(most, round((plays_until - at) / FRAME_S))
    return most


@pytest.mark.parametrize(("small", "lead"), [(False, 3), (True, 2)])
async def test_rule_08_absolute_schedule_with_a_small_lead(
    autojump_clock: object, small: bool, lead: int
) -> None:
    config = scripted("tts.rtf=0.001", "tts.first_audio_s=0", "llm.tokens_per_s=2000")
    async with open_lab(config) as lab:
        lab.boards._facts = lambda _device: Facts(small=small)
        async with meeting(lab) as peer:
            await peer.listen()
            await ask(peer)
            await peer.stopped()
            arrivals = [at for at, _opus in peer.packets()]
            assert outstanding(arrivals) == lead
            schedule = [
                at - arrivals[0] - max(0, number - lead + 1) * FRAME_S
                for number, at in enumerate(arrivals)
            ]
            assert max(map(abs, schedule)) < 0.005  # no drift over nine seconds


async def test_rule_08_no_burst_after_an_underrun(autojump_clock: object) -> None:
    config = scripted("tts.rtf=1.4", "pacer.start_hold_s=0")
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen()
        await ask(peer)
        await peer.stopped()
        arrivals = [at for at, _opus in peer.packets()]
        gaps = [after - before for before, after in itertools.pairwise(arrivals)]
        late = next(number for number, gap in enumerate(gaps) if gap > 0.065)
        assert min(gaps[late:]) > 0.049
        assert outstanding(arrivals) <= 3


# --- 9: stop after the end of playback ------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
@pytest.mark.parametrize("name", FIRMWARES)
async def test_rule_09_the_whole_answer_is_heard_on_every_firmware(
    autojump_clock: object, name: str, mode: Any
) -> None:
    async with open_lab(scripted()) as lab:
        board = lab.board(firmware=name, mode=mode)
        result = await board.run([Question("First?"), Question("Second?")])
        sent = [
            [e for e in lab.events("sent", generation) if e["what"] == "frame"]
            for generation in (1, 2)
        ]
        for turn, frames in zip(result.turns, sent, strict=True):
            assert turn.packets_played == len(frames) > 100
            assert turn.tts_stop_s is not None
            assert turn.tts_stop_s - turn.arrivals_s[0] >= (len(frames) + 2) * FRAME_S - 0.001
        assert sum(s.duration_s for s in result.heard) == pytest.approx(
            sum(map(len, sent)) * FRAME_S, abs=0.001
        )
        assert not result.failure


# --- 10: realtime ---------------------------------------------------------------------------


async def test_rule_10_realtime_goes_on_without_another_listen_start(
    autojump_clock: object,
) -> None:
    config = scripted('asr.script=["first", "second", "third"]')
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen("realtime")
        for count in (1, 2, 3):
            await peer.speak(loud(0.8) + quiet(1.0))
            await peer.stopped(count)
            await peer.speak(quiet(0.6))
        assert await peer.recognised() == ["first", "second", "third"]


async def test_rule_10_speech_over_the_answer_stops_it_and_is_the_next_question(
    autojump_clock: object,
) -> None:
    ears = Ears()
    config = scripted("voice.barge_in=true", "vad.speculate_ms=0", 'asr.script=["one", "two"]')
    async with open_lab(config, wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen("realtime")
        await peer.speak(loud(0.8) + quiet(1.0))
        await peer.until(lambda: len(peer.packets()) > 20)
        begun = trio.current_time()
        await peer.speak(quiet(0.6) + loud(1.2) + quiet(1.0))
        stop = peer.times("tts", "stop")[0]
        assert 0.2 < stop - begun - 0.6 < 0.45  # 250 ms, in chunks of 32
        after = [at for at, _opus in peer.packets() if stop < at < begun + 2.4]
        assert not after
        assert await peer.recognised(2) == ["one", "two"]
        # All of it: the pre-roll, the speech before the decision and after it, the silence.
        assert ears.seconds()[1] == pytest.approx(0.5 + 1.2 + 0.6, abs=0.1)
        await peer.stopped(2)
        states = [message["state"] for message in peer.messages("tts")]
        assert states.count("start") == states.count("stop") == 2


# --- 11: keepalive, idle, close -------------------------------------------------------------


async def test_rule_11_no_pings_and_an_idle_close_before_120_s_though_nobody_ever_spoke(
    autojump_clock: object,
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        pings: list[object] = []
        connection: Any = peer.socket
        handle = connection._handle_ping_event

        async def noted(event: object) -> None:
            pings.append(event)
            await handle(event)

        connection._handle_ping_event = noted
        opened = trio.current_time()
        await peer.listen()
        await peer.until(lambda: peer.closed is not None, 200)
        assert 60 <= peer.closed_at - opened < 120
        assert peer.closed.reason == "idle"
        assert not pings


async def test_rule_11_our_own_output_counts_as_activity(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen()
        await trio.sleep(80)
        await ask(peer)
        await peer.stopped()
        stopped = trio.current_time()
        await peer.until(lambda: peer.closed is not None, 200)
        assert 60 <= peer.closed_at - stopped < 120


async def test_rule_11_nobody_is_cut_off_in_mid_sentence_by_the_idle_close(
    autojump_clock: object,
) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await peer.listen()
        await trio.sleep(97)
        await peer.speak(loud(6.0) + quiet(1.0))
        assert await peer.recognised() == ["hello"]
        await peer.stopped()


async def test_rule_11_pings_of_clients_are_answered(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        with trio.fail_after(1):
            await peer.socket.ping()
        await peer.say("ping")
        await peer.until(lambda: peer.messages("pong"), 1)


async def test_rule_11_no_wait_for_the_closing_handshake(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, reads=False) as peer:
        await peer.listen()
        await trio.sleep(0.1)
        asked = trio.current_time()
        await lab.boards.close_all("server stops")
        assert trio.current_time() - asked < 0.5


def test_rule_11_tcp_keepalive_and_nodelay_are_set() -> None:
    with socket.socket() as plain:
        _keep_alive(trio.socket.from_stdlib_socket(plain))
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_rule_11_a_peer_that_never_says_hello_is_dropped(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=None) as peer:
        await peer.until(lambda: peer.closed is not None, 15)
        assert peer.closed.reason == "no hello"


# --- 12: MCP --------------------------------------------------------------------------------


WITH_TOOLS = {**HELLO, "features": {"mcp": True}}
VOLUME: dict[str, Any] = {
    "name": "self.audio_speaker.set_volume",
    "description": "Set the volume",
    "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
        "required": ["volume"],
    },
}
STATUS: dict[str, Any] = {
    "name": "self.get_device_status",
    "description": "",
    "inputSchema": {"properties": {}},
}


async def reply(peer: Peer, request: dict[str, Any], result: object) -> None:
    await peer.say("mcp", payload={"jsonrpc": "2.0", "id": request["id"], "result": result})


async def requests(peer: Peer, count: int) -> dict[str, Any]:
    """The payload of the request of that number (from 1)."""
    await peer.until(lambda: len(peer.messages("mcp")) >= count)
    found: dict[str, Any] = peer.messages("mcp")[count - 1]["payload"]
    return found


async def list_tools(peer: Peer) -> None:
    """Introduce a board with two tools on two pages."""
    first = await requests(peer, 1)
    assert first["method"] == "initialize"
    await reply(peer, first, {"serverInfo": {"name": "a board", "version": "2.4.2"}})
    page = await requests(peer, 2)
    assert (page["method"], page["params"]) == ("tools/list", {"cursor": ""})
    await reply(peer, page, {"tools": [VOLUME], "nextCursor": STATUS["name"]})
    page = await requests(peer, 3)
    assert page["params"] == {"cursor": STATUS["name"]}
    await reply(peer, page, {"tools": [STATUS]})


async def test_rule_12_numeric_ids_paging_and_safe_names(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=WITH_TOOLS) as peer:
        await list_tools(peer)
        (session,) = lab.boards.sessions.values()
        with trio.fail_after(1):
            await session.mcp.listed.wait()
        assert session.mcp.introduced.server_version == "2.4.2"
        assert [tool.safe_name for tool in session.mcp.tools] == [
            "self_audio_speaker_set_volume",
            "self_get_device_status",
        ]
        assert all(type(m["payload"]["id"]) is int for m in peer.messages("mcp"))
        assert all(m["payload"]["jsonrpc"] == "2.0" for m in peer.messages("mcp"))


async def test_rule_12_a_call_gets_its_answer_or_its_time_out(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=WITH_TOOLS) as peer:
        await list_tools(peer)
        (session,) = lab.boards.sessions.values()
        await session.mcp.listed.wait()
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def call(**arguments: object) -> None:
                answers.append(await session.mcp.call("self_audio_speaker_set_volume", arguments))

            nursery.start_soon(lambda: call(volume="50"))
            request = await requests(peer, 4)
            assert request["params"] == {"name": VOLUME["name"], "arguments": {"volume": 50}}
            await reply(peer, request, {"content": [{"type": "text", "text": "true"}]})
        assert (answers[0].text, answers[0].is_error) == ("true", False)
        asked = trio.current_time()
        late = await session.mcp.call(VOLUME["name"], {"volume": 10})
        assert late.timed_out
        assert trio.current_time() - asked == pytest.approx(10, abs=0.1)
        await reply(peer, await requests(peer, 5), {})  # too late: of no consequence
        await ask(peer)
        await peer.stopped()


async def test_rule_12_only_listed_tools_and_fitting_arguments(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=WITH_TOOLS) as peer:
        await list_tools(peer)
        (session,) = lab.boards.sessions.values()
        await session.mcp.listed.wait()
        for name, arguments in (
            ("self.reboot", {}),
            (VOLUME["name"], {}),
            (VOLUME["name"], {"volume": 101}),
        ):
            with pytest.raises(ValueError, match=r"tool|argument"):
                await session.mcp.call(str(name), arguments)
        assert len(peer.messages("mcp")) == 3


async def test_rule_12_invalid_json_and_no_answer_are_borne(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab, hello=WITH_TOOLS) as peer:
        await requests(peer, 1)  # initialize is never answered
        page = await requests(peer, 2)
        assert page["method"] == "tools/list"
        await peer.raw(
            '{"type":"mcp","payload":{"jsonrpc":"2.0","id":2,"error":{"message":"a"b"}}}'
        )
        await peer.say("mcp", payload={"jsonrpc": "2.0", "id": "2", "result": {}})
        await peer.say("mcp", payload=[1])
        (session,) = lab.boards.sessions.values()
        with trio.fail_after(20):
            await session.mcp.listed.wait()
        assert session.mcp.tools == ()
        await peer.listen()
        await ask(peer)
        await peer.stopped()


async def test_rule_12_a_board_without_tools_is_not_asked(autojump_clock: object) -> None:
    async with open_lab(scripted()) as lab, meeting(lab) as peer:
        await trio.sleep(20)
        assert not peer.messages("mcp")


async def test_rule_12_tools_stand_beside_a_conversation(autojump_clock: object) -> None:
    """A board whose camera takes its time is spoken to meanwhile; a cancelled call is forgotten."""
    async with open_lab(scripted()) as lab, meeting(lab, hello=WITH_TOOLS) as peer:
        await list_tools(peer)
        (session,) = lab.boards.sessions.values()
        await session.mcp.listed.wait()
        await peer.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.mcp.call, STATUS["name"], {})
            await ask(peer)
            await peer.until(peer.packets, 5)
            nursery.cancel_scope.cancel()
        await peer.stopped()
        assert not session.mcp._waiting


async def test_rule_06_an_abort_while_thinking_reopens_the_ears(
    autojump_clock: object, scheduler_seed: int
) -> None:
    """Not only silence: what is said right after the abort is heard."""
    config = scripted("tts.first_audio_s=3", 'asr.script=["again"]', "tts.first_s=9")
    async with open_lab(config) as lab:
        board = lab.board()
        result = await board.run(
            [
                Question("First?", actions=(Action("button", after="start", after_s=0.0),)),
                Question(pcm=quiet(0.5) + loud(0.8) + quiet(0.2), label="spoken"),
            ]
        )
        assert result.turns[-1].transcript == "again"
        assert result.turns[-1].packets_played > 100
