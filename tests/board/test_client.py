"""The whole client against a small server: over memory streams on a mock clock, then on TCP."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
import trio
import trio.testing
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from duet_trio import opus
from duet_trio.board.client import BoardClient, converse
from duet_trio.board.link import Address, Identity
from duet_trio.board.result import BoardResult
from duet_trio.board.script import Action, BoardOptions, Question
from duet_trio.wire.framing import pack, unpack
from duet_trio.wire.messages import (
    Abort,
    BoardMessage,
    Detect,
    Hello,
    ListenStart,
    ListenStop,
    SentenceStart,
    ServerHello,
    ServerMessage,
    Stt,
    TtsStart,
    TtsStop,
    encode,
    parse_board_text,
)

URL = "ws://127.0.0.1:8000/xiaozhi/v1/"
FRAME_S = 0.06


def tone(hz: float, seconds: float, rate_hz: int = 24_000) -> bytes:
    times = np.arange(round(rate_hz * seconds)) / rate_hz
    return (8000 * np.sin(2 * np.pi * hz * times)).astype("<i2").tobytes()


@dataclass
class Peer:
    """One board, as the server sees it. Audio is counted, messages wait in order."""

    socket: WebSocketConnection
    version: int
    headers: dict[str, str]
    hello: Hello | None = None
    audio: list[bytes] = field(default_factory=list)
    log: list[BoardMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._put, self._messages = trio.open_memory_channel[BoardMessage](100)
        self._more = trio.Event()

    async def read(self) -> None:
        with self._put:
            while True:
                try:
                    message = await self.socket.get_message()
                except ConnectionClosed:
                    return
                if isinstance(message, bytes):
                    self.audio.append(unpack(self.version, message).opus)
                    self._more.set()
                    self._more = trio.Event()
                else:
                    self.log.append(parse_board_text(message))
                    self._put.send_nowait(self.log[-1])

    async def expect(self, message: BoardMessage) -> None:
        assert await self._messages.receive() == message

    async def hear(self, packets: int) -> None:
        """Wait until so many microphone packets have come."""
        while len(self.audio) < packets:
            await self._more.wait()

    async def say(self, *messages: ServerMessage) -> None:
        for message in messages:
            await self.socket.send_message(encode(message, "s1"))

    async def speak(self, hz: float, frames: int, *, lead: int = 3) -> None:
        """Send frames of a tone on an absolute schedule; cut short if the board goes away."""
        start = trio.current_time()
        for number, packet in enumerate(opus.Encoder().packets(tone(hz, frames * FRAME_S))):
            await trio.sleep_until(start + max(0, number - lead) * FRAME_S)
            await self.socket.send_message(pack(self.version, packet))


Script = Callable[[Peer], Awaitable[None]]


async def serve(stream: trio.abc.Stream, script: Script) -> None:
    async with trio.open_nursery() as nursery:
        request = await wrap_server_stream(nursery, stream)
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        socket = await request.accept()
        peer = Peer(socket, int(headers["protocol-version"]), headers)
        nursery.start_soon(peer.read)
        peer.hello = await hello_of(peer)
        await peer.say(ServerHello(session_id="s1"))
        with contextlib.suppress(ConnectionClosed):
            await script(peer)
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


async def hello_of(peer: Peer) -> Hello:
    message = await peer._messages.receive()
    assert isinstance(message, Hello)
    return message


async def run(script: Script, *questions: Question, **options: object) -> BoardResult:
    """One client and one server in memory; the server's script must come to its end."""

    async def connect(address: Address) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(serve, theirs, script)
        return ours

    async with trio.open_nursery() as nursery:
        made = BoardOptions(url=URL, **options)  # type: ignore[arg-type]
        result = await BoardClient(made, connect=connect).run(questions)
        with trio.move_on_after(5):
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return result


async def answer(peer: Peer, hz: float = 440, frames: int = 10) -> None:
    await peer.say(Stt(text="understood"), TtsStart(), SentenceStart(text="An answer."))
    await trio.sleep(0.12)
    await peer.speak(hz, frames)
    await trio.sleep(0.3)
    await peer.say(TtsStop())


async def test_a_typed_question(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        assert peer.headers["device-id"] == "02:00:00:00:00:01"
        assert peer.headers["authorization"] == "Bearer secret"
        await peer.expect(ListenStart(mode="auto"))
        await peer.expect(Detect(text="How are you?"))
        await answer(peer)
        await peer.expect(ListenStart(mode="auto"))
        assert peer.audio == []

    result = await run(script, Question(text="How are you?"), identity=Identity(token="secret"))
    assert result.failure == ""
    assert result.session_id == "s1"
    [turn] = result.turns
    assert (turn.transcript, turn.answer) == ("understood", "An answer.")
    assert (turn.starts, turn.stops, turn.frames_after_stop) == (1, 1, 0)
    assert turn.first_audio_s == pytest.approx(0.12, abs=0.01)
    assert turn.packets_played == len(turn.arrivals_s) == 10
    assert turn.gaps.largest_ms == pytest.approx(60)
    assert result.stalls == []
    fingerprints = result.heard_fingerprints()
    assert len(fingerprints) == 10
    assert len(result.heard_pcm()) == pytest.approx(2 * 24_000 * (0.12 + 0.6), rel=0.1)
    assert result.answered


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_spoken_question_in_each_framing(
    version: int, autojump_clock: trio.testing.MockClock
) -> None:
    spoken = tone(300, 0.6, 16_000)

    async def script(peer: Peer) -> None:
        assert peer.hello is not None
        assert peer.hello.version == version
        await peer.expect(ListenStart(mode="auto"))
        await peer.hear(20)
        decoder = opus.Decoder(16_000)
        pcm = np.frombuffer(b"".join(map(decoder.decode, peer.audio)), "<i2").astype(float)
        loud = [bool(np.abs(frame).max() > 500) for frame in pcm.reshape(-1, 960)]
        assert loud[:10] == [True] * 10
        assert not any(loud[11:])  # silence follows the question, as from a real microphone
        await answer(peer)

    result = await run(
        script, Question(pcm=spoken, label="a tone"), identity=Identity(version=version)
    )
    [turn] = result.turns
    assert turn.question == "a tone"
    assert turn.packets_played == 10
    assert turn.question_end_s == pytest.approx(0.12 + 0.6, abs=0.07)
    assert result.bad_messages == []


async def test_a_wake_word_comes_with_its_sound_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(Detect(text="hey board"))
        assert len(peer.audio) == 20
        await peer.expect(ListenStart(mode="auto"))
        await answer(peer)

    said = tone(300, 0.6, 16_000)
    result = await run(
        script, Question(pcm=said), wake_word="hey board", wake_pcm=tone(500, 1.2, 16_000)
    )
    assert result.answered


async def test_the_talk_key(autojump_clock: trio.testing.MockClock, scheduler_seed: int) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(2):
            await peer.expect(ListenStart(mode="manual"))
            await peer.expect(ListenStop())
            assert len(peer.audio) == 5
            peer.audio.clear()
            await answer(peer)

    question = Question(pcm=tone(300, 0.3, 16_000))
    result = await run(script, question, question, mode="manual")
    assert [turn.packets_played for turn in result.turns] == [10, 10]


async def test_the_button_interrupts(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    stopped_at: list[float] = []

    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.expect(Detect(text="Tell me a story"))
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(peer.speak, 440, 200))
            await peer.expect(Abort())
            nursery.cancel_scope.cancel()
        stopped_at.append(trio.current_time())
        await peer.say(TtsStop())
        await peer.expect(ListenStart(mode="auto"))
        await peer.expect(Detect(text="And now?"))
        await answer(peer)

    first = Question(text="Tell me a story", actions=(Action("button", after_s=0.5),))
    result = await run(script, first, Question(text="And now?"))
    interrupted, answered = result.turns
    assert interrupted.abort_s is not None
    assert interrupted.first_packet_s is not None
    assert interrupted.abort_s - interrupted.first_packet_s == pytest.approx(0.5)
    assert interrupted.abort_to_stop_s == pytest.approx(0, abs=0.01)
    assert interrupted.frames_after_stop == 0
    assert interrupted.packets_played in (12, 13)  # 0.5 s and a lead of three frames
    assert answered.packets_played == 10


async def test_stale_audio_is_seen(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def late(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.expect(Detect(text="Hello"))
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(peer.speak, 440, 12))
            await peer.expect(Abort())
            await peer.speak(440, 3, lead=3)
            nursery.cancel_scope.cancel()
        await peer.say(TtsStop())
        await peer.speak(440, 4, lead=4)

    result = await run(late, Question(text="Hello", actions=(Action("button", after_s=0.31),)))
    [turn] = result.turns
    assert turn.frames_after_abort == 3
    assert turn.frames_after_stop == 4
    assert result.packets_refused == 4


async def test_a_gap_is_a_stall_with_its_time(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        await peer.speak(440, 3)
        await trio.sleep(0.5)
        await peer.speak(440, 3)
        await trio.sleep(0.3)
        await peer.say(TtsStop())

    result = await run(script, Question(text="Hello"))
    [stall] = result.stalls
    assert stall.duration_s == pytest.approx(0.5 - 3 * FRAME_S)
    first = result.turns[0].first_packet_s
    assert first is not None
    assert stall.start_s == pytest.approx(first + 3 * FRAME_S)
    quiet = result.heard_pcm(stall.start_s + 0.01, stall.start_s + stall.duration_s - 0.01)
    assert quiet == bytes(len(quiet))


async def test_speech_over_the_answer_in_realtime_mode(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="realtime"))
        await peer.expect(Detect(text="Hello"))
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(peer.speak, 440, 200))
            await peer.hear(5)  # while we speak: its microphone is open
            nursery.cancel_scope.cancel()
        await peer.say(TtsStop())
        await trio.sleep(0.5)
        await answer(peer)

    question = Question(
        text="Hello", actions=(Action("say", after_s=0.3, pcm=tone(300, 0.5, 16_000)),)
    )
    result = await run(script, question, mode="realtime")
    interrupted, second = result.turns
    assert interrupted.over
    assert second.transcript == "understood"
    assert second.packets_played == 10


@pytest.mark.parametrize("kind", ["disconnect", "stop_reading"])
async def test_a_board_that_goes_away_may_come_back(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    connections: list[Peer] = []

    async def script(peer: Peer) -> None:
        connections.append(peer)
        await peer.expect(ListenStart(mode="auto"))
        if len(connections) > 1:
            await answer(peer)
            return
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        await peer.speak(440, 100)

    gone = Action("disconnect" if kind == "disconnect" else "stop_reading", after_s=0.3)
    result = await run(script, Question(text="One", actions=(gone,)), Question(text="Two"))
    assert len(connections) == 2
    assert 0 < result.turns[0].packets_played < 20
    assert not result.turns[0].over
    assert result.turns[1].packets_played == 10


async def test_a_silent_server_ends_the_patience(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        await trio.sleep(1000)

    result = await run(script, Question(text="Hello"), patience_s=20.0)
    assert result.failure == "nothing from the server for 20 s"
    assert not result.answered


async def test_a_server_that_closes_in_mid_answer(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.say(TtsStart())
        await trio.sleep(0.12)
        await peer.speak(440, 5)

    result = await run(script, Question(text="Hello"))
    assert result.failure.startswith("the server closed the connection")
    assert result.turns[0].packets_played == 5


async def test_what_no_board_could_read_is_told(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.socket.send_message("not JSON")
        await peer.socket.send_message('{"type":7}')
        await peer.socket.send_message(b"\x00")  # no header of framing 3
        await answer(peer)

    result = await run(script, Question(text="Hello"), identity=Identity(version=3))
    assert len(result.bad_messages) == 3
    assert result.answered


async def test_a_late_answer_to_the_first_hello(
    autojump_clock: trio.testing.MockClock, scheduler_seed: int
) -> None:
    """A server without a hello is given up after ten seconds, as boards do."""

    async def mute(stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            await (await wrap_server_stream(nursery, stream)).accept()
            await trio.sleep_forever()

    async def connect(address: Address) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(mute, theirs)
        return ours

    async with trio.open_nursery() as nursery:
        result = await converse(BoardOptions(url=URL), [Question(text="x")], connect=connect)
        assert trio.current_time() == pytest.approx(10, abs=0.1)
        nursery.cancel_scope.cancel()
    assert result.failure == "the server sent no usable hello within 10 s"
    assert result.turns == []


async def test_nobody_listens() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    options = BoardOptions(url=f"ws://127.0.0.1:{port}/")
    result = await converse(options, [Question(text="Hello")])
    assert f"ws://127.0.0.1:{port}/: cannot connect" in result.failure


async def test_refused_by_http_status() -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            await request.reject(401)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        options = BoardOptions(url=f"ws://127.0.0.1:{port}/x")
        result = await converse(options, [Question(text="Hello")])
        nursery.cancel_scope.cancel()
    assert result.failure.endswith("refused with HTTP status 401")


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_over_tcp_in_real_time(version: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(ListenStart(mode="auto"))
        await peer.say(Stt(text="Hello"), TtsStart())
        await trio.sleep(0.12)
        await peer.speak(440, 4)
        await peer.say(TtsStop())
        await peer.expect(Detect(text="Hello"))
        await peer.expect(ListenStart(mode="auto"))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, partial(serve, script=script), 0, host="127.0.0.1")
        )
        port = listeners[0].socket.getsockname()[1]
        options = BoardOptions(
            url=f"ws://127.0.0.1:{port}/xiaozhi/v1/", identity=Identity(version=version)
        )
        with trio.fail_after(10):
            result = await converse(options, [Question(text="Hello")])
        nursery.cancel_scope.cancel()
    assert result.turns[0].packets_played == 4
    assert len(result.heard) == 4
