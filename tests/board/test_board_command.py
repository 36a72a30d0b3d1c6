"""``duet board`` and its OTA request, against small servers on loopback."""

from __future__ import annotations

import argparse
import json
import os
import signal
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trio
from trio_websocket import ConnectionClosed, wrap_server_stream

from duet_trio import opus
from duet_trio.board import command
from duet_trio.board.fleet import identity, run_fleet, summarise
from duet_trio.board.link import parse_address
from duet_trio.board.ota import ask_ota
from duet_trio.board.script import BoardOptions, Question
from duet_trio.errors import ConnectionLostError, PeerError, UsageError
from duet_trio.wire.framing import pack
from duet_trio.wire.messages import (
    BoardMessage,
    SentenceStart,
    ServerHello,
    ServerMessage,
    Stt,
    TtsStart,
    TtsStop,
    encode,
)

Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def answer_all(stream: trio.SocketStream, *, frames: int = 3, ends: bool = True) -> None:
    """Answer every typed question with a few frames of a 440 Hz tone."""
    times = np.arange(round(24_000 * 0.06 * frames)) / 24_000
    pcm = (8000 * np.sin(2 * np.pi * 440 * times)).astype("<i2").tobytes()
    async with trio.open_nursery() as nursery:
        request = await wrap_server_stream(nursery, stream)
        version = int(dict(request.headers)[b"protocol-version"])
        socket = await request.accept()
        try:
            await socket.get_message()
            await socket.send_message(encode(ServerHello(session_id="s"), "s"))
            while True:
                message = await socket.get_message()
                if isinstance(message, bytes) or '"detect"' not in message:
                    continue
                for reply in (Stt(text="Hi"), TtsStart(), SentenceStart(text="Hello you.")):
                    await socket.send_message(encode(reply, "s"))
                await trio.sleep(0.06)
                for packet in opus.Encoder().packets(pcm):
                    await socket.send_message(pack(version, packet))
                if ends:
                    await socket.send_message(encode(TtsStop(), "s"))
        except ConnectionClosed:
            pass
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    """Serve on a free port of loopback."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


async def board(port: int, *arguments: str) -> int:
    args = parse("--url", f"ws://127.0.0.1:{port}/x/", *arguments)
    with trio.fail_after(20):
        return await command.run(args)


async def test_a_conversation_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = tmp_path / "heard.wav"
    async with listening(answer_all) as port:
        arguments = ("--text", "One?", "--text", "Two?", "--record", str(record), "--protocol", "3")
        assert await board(port, *arguments) == 0
    printed = capsys.readouterr().out
    assert printed.index("> One?") < printed.index("< Hello you.") < printed.index("> Two?")
    assert "understood: Hi" in printed
    assert "turn 2: first audio 0." in printed
    assert "stalls: 0" in printed
    with wave.open(str(record)) as file:
        assert file.getframerate() == 24_000
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert np.abs(pcm).max() > 4000


async def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(answer_all) as port:
        assert await board(port, "--text", "One?", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answered"] is True
    assert found["turns"][0]["sentences"][0][1] == "Hello you."
    assert found["turns"][0]["packets"] == 3


async def test_no_answer_is_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(partial(answer_all, frames=0)) as port:
        assert await board(port, "--text", "One?") == 1
    assert "no audio" in capsys.readouterr().out


async def test_without_a_server_there_are_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert await board(1, "--text", "One?") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1


async def test_ctrl_c_keeps_what_was_heard(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "heard.wav"
    speaking = trio.Event()

    def watch(at_s: float, message: BoardMessage | ServerMessage) -> None:
        if isinstance(message, SentenceStart):
            speaking.set()

    async def interrupt() -> None:
        await speaking.wait()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command, "_print_message", watch)
    async with listening(partial(answer_all, ends=False)) as port, trio.open_nursery() as nursery:
        nursery.start_soon(interrupt)
        assert await board(port, "--text", "One?", "--record", str(record)) == 130
    assert "turn 1: " in capsys.readouterr().out
    assert record.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to ask"),
        (["--text", " "], "an empty question"),
        (["--text", "x", "--abort-after", "-1"], "--abort-after"),
        (["--text", "x", "--patience", "nan"], "--patience"),
        (["--text", "x", "--url", "http://x/"], "no WebSocket address"),
        (["--text", "x", "--ota", "https://x/"], "no OTA address"),
        (["--text", "x", "--token", "a\nb"], "--token"),
        (["--wav", "/missing/file.wav"], "no such file"),
    ],
)
async def test_bad_use(arguments: Sequence[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await command.run(parse(*arguments))


def test_questions_keep_their_order() -> None:
    assert parse("--text", "a", "--wav", "b", "--text", "c").asked == [
        ("--text", "a"),
        ("--wav", "b"),
        ("--text", "c"),
    ]


def test_addresses() -> None:
    address = parse_address("wss://host/path?x=1")
    assert (address.port, address.resource, address.tls) == (443, "/path?x=1", True)
    with pytest.raises(UsageError, match="no WebSocket address"):
        parse_address("ws://host:99999/")


async def http_answer(stream: trio.SocketStream, *, body: bytes, status: str = "200 OK") -> None:
    received = b""
    while b'"chip_model_name"' not in received:
        received += await stream.receive_some(4096)
    assert received.startswith(b"POST /xiaozhi/ota/ HTTP/1.1\r\n")
    assert b"Device-Id: 02:00:00:00:00:01" in received
    await stream.send_all(
        f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode()
        + body
        + b"\r\n0\r\n\r\n"
    )


async def test_ota_tells_where_to_connect(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening(answer_all) as port:
        section = {"url": f"ws://127.0.0.1:{port}/x/", "token": "t", "version": 2}
        clock = {"timestamp": 1_700_000_000_000, "timezone_offset": 0}
        body = json.dumps({"websocket": section, "server_time": clock}).encode()
        async with listening(partial(http_answer, body=body)) as http_port:
            args = parse("--ota", f"http://127.0.0.1:{http_port}/xiaozhi/ota/", "--text", "x")
            assert await command.run(args) == 0


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{}", "200 OK", "no 'websocket' object"),
        (b"nonsense", "200 OK", "not JSON"),
        (b"{}", "503 Service Unavailable", "OTA answer 503"),
    ],
)
async def test_ota_answers_that_no_board_could_use(body: bytes, status: str, message: str) -> None:
    async with listening(partial(http_answer, body=body, status=status)) as port:
        url = f"http://127.0.0.1:{port}/xiaozhi/ota/"
        with pytest.raises(PeerError, match=message):
            await ask_ota(url, identity(1), firmware="2.4", chip="esp32s3")
        assert await command.run(parse("--ota", url, "--text", "x")) == 1


async def test_nobody_answers_ota() -> None:
    async with listening(trio.SocketStream.aclose) as port:
        with pytest.raises(ConnectionLostError, match="no OTA answer"):
            await ask_ota(f"http://127.0.0.1:{port}/", identity(1), firmware="2.4", chip="esp32s3")


async def test_a_fleet() -> None:
    async with listening(answer_all) as port:
        options = BoardOptions(url=f"ws://127.0.0.1:{port}/x/", decode=False)
        results = await run_fleet(options, 5, [Question(text="Hello?")], stagger_s=0.01)
    figures = summarise(results)
    assert (figures.boards, figures.answered, figures.turns) == (5, 5, 5)
    assert (figures.packets, figures.stalls, figures.frames_after_stop) == (15, 0, 0)
    assert figures.failures == ()
    assert figures.first_audio_max_s is not None
    assert len({result.device_id for result in results}) == 5
    assert summarise([]).first_audio_median_s is None


def test_identities() -> None:
    assert identity(0x1234).device_id == "02:00:00:00:12:34"
    with pytest.raises(ValueError, match="65536"):
        identity(0x1_0000)
