"""A real server process: how it starts, what it says of mistakes, and that it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SERVE = [sys.executable, "-m", "duet_trio", "serve", "--config", str(ROOT / "config/scripted.toml")]
LIMIT_S = 30.0


@dataclass
class Server:
    process: subprocess.Popen[str]
    websocket_port: int
    http_port: int

    @property
    def workers(self) -> list[int]:
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        return [int(line) for line in found.stdout.split()]


def sets(folder: Path, *settings: str) -> list[str]:
    own = [
        "server.host=127.0.0.1",
        "server.websocket_port=0",
        "server.http_port=0",
        f"server.state_dir='{folder}'",
    ]
    return [word for item in [*own, *settings] for word in ("--set", item)]


@contextmanager
def serving(folder: Path, *settings: str) -> Iterator[Server]:
    process = subprocess.Popen(
        [*SERVE, *sets(folder, *settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    ports: list[int] = []
    try:
        for line in process.stdout:
            ports += [int(port) for port in re.findall(r":(\d+)/", line)]
            if line.strip() == "ready":
                break
        assert len(ports) == 2, process.communicate()[1]
        yield Server(process, *ports)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_gone(pids: list[int], within_s: float = 2.0) -> None:
    deadline = time.monotonic() + within_s
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its server"
        time.sleep(0.01)


@contextmanager
def raw_board(server: Server, *messages: Mapping[str, object]) -> Iterator[socket.socket]:
    """A board on a bare socket that never reads after its upgrade."""
    with socket.create_connection(("127.0.0.1", server.websocket_port), 5) as board:
        board.sendall(
            b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert b"101" in board.recv(4096)
        for message in messages:
            data = json.dumps(message).encode()
            assert len(data) < 126
            board.sendall(bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data)
        yield board


HELLO = {"type": "hello", "version": 1, "transport": "websocket"}
QUESTION = {"type": "listen", "state": "detect", "text": "go on"}


@pytest.mark.parametrize("lost", ["pipe", "/dev/full"])
def test_a_server_outlives_its_standard_output(tmp_path: Path, lost: str) -> None:
    if lost == "pipe":
        read_end, output = os.pipe()
        os.close(read_end)  # `duet serve | head -1`, once head has gone
    elif Path(lost).exists():
        output = os.open(lost, os.O_WRONLY)
    else:
        pytest.skip(f"needs {lost}")
    trace = tmp_path / "trace.jsonl"
    process = subprocess.Popen(
        [*SERVE, *sets(tmp_path, f"trace.path='{trace}'")],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(output)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not (trace.exists() and trace.read_text().count('"state":"ready"') >= 3):
            assert process.poll() is None, "it ended with its standard output"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        said = process.communicate(timeout=LIMIT_S)[1]
        assert process.returncode == 0
        assert said.count("standard output is lost") == 1
        assert "Traceback" not in said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whole_group", "code"),
    [
        (signal.SIGINT, False, 130),
        (signal.SIGINT, True, 130),  # Ctrl-C reaches the workers, too
        (signal.SIGTERM, False, 0),
        (signal.SIGTERM, True, 0),
    ],
)
def test_a_signal_ends_it_cleanly(
    tmp_path: Path, number: signal.Signals, whole_group: bool, code: int
) -> None:
    with serving(tmp_path) as server, raw_board(server, HELLO, QUESTION):
        workers = server.workers
        assert len(workers) >= 3
        started = time.monotonic()
        if whole_group:
            os.killpg(server.process.pid, number)
        else:
            server.process.send_signal(number)
        _, errors = server.process.communicate(timeout=LIMIT_S)
        assert time.monotonic() - started < 3.0
        assert server.process.returncode == code
        assert "Traceback" not in errors
        assert_gone(workers, within_s=0.2)


@pytest.mark.slow
def test_it_ends_with_a_hung_voice_and_a_client_that_does_not_read(tmp_path: Path) -> None:
    plan = tmp_path / "hang.toml"
    plan.write_text('[[fault]]\nseam = "tts.start"\nnth = 1\neffect = "hang"\n')
    settings = (f"faults.plan='{plan}'", f"llm.script=['{'Many words to say. ' * 200}']")
    with serving(tmp_path, *settings) as server, raw_board(server, HELLO, QUESTION):
        workers = server.workers
        time.sleep(0.5)  # the voice is hanging; were it not yet, the test would still be right
        started = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        server.process.communicate(timeout=LIMIT_S)
        assert time.monotonic() - started < 3.0
        assert server.process.returncode == 130
        assert_gone(workers, within_s=0.2)


@pytest.mark.slow
def test_workers_notice_that_their_server_was_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        workers = server.workers
        server.process.kill()
        server.process.wait()
        assert_gone(workers, within_s=2.0)


@pytest.mark.parametrize("key", ["server.websocket_port", "server.http_port"])
def test_a_taken_port_is_told_before_anything_is_loaded(tmp_path: Path, key: str) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        done = subprocess.run(
            [*SERVE, *sets(tmp_path, f"{key}={port}")],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert str(port) in done.stderr
    assert key in done.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("llm.engine=llama", "llm.model=/nowhere/model.gguf"), ("/nowhere/model.gguf", "missing")),
        (("asr.engine=whisper", "asr.model=/nowhere/asr"), ("/nowhere/asr", "missing")),
        (("tts.engine=piper", "tts.model=/nowhere/a.onnx"), ("/nowhere/a.onnx", "missing")),
        (("vad.model=/nowhere/vad.onnx",), ("/nowhere/vad.onnx", "vad.model")),
        (("vad.threshold=7",), ("vad.threshold",)),
        (("nonsense.key=1",), ("nonsense",)),
        (("trace.path=/nowhere/trace.jsonl",), ("trace.path", "/nowhere/trace.jsonl")),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, settings: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [*SERVE, *sets(tmp_path, *settings)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_an_empty_or_truncated_model_is_named(tmp_path: Path) -> None:
    model = tmp_path / "half.gguf"
    model.write_bytes(b"GGUF" + bytes(100))
    done = subprocess.run(
        [*SERVE, *sets(tmp_path, "llm.engine=llama", f"llm.model='{model}'")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 2
    assert str(model) in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
