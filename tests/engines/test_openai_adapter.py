"""The remote adapters against a small server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from duet_trio.engines.adapter import SequenceLostError
from duet_trio.engines.adapters.openai import (
    SLOTS,
    OpenAiAsrAdapter,
    OpenAiLlmAdapter,
    OpenAiTtsAdapter,
)
from duet_trio.engines.contracts import Message, Written
from duet_trio.engines.pipe import SpeakJob, TranscribeJob, WriteJob
from duet_trio.errors import ConfigError, EngineFailedError, MissingFileError

PROMPT = [Message("system", "be brief"), Message("user", "count")]


def no() -> bool:
    return False


class Remote(ThreadingHTTPServer):
    """Answers like the API; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.go_on = threading.Event()
        self.texts = [f"{n} " for n in range(10)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Remote

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), body))
        if b"please fail" in body:
            self.send_error(503, "no capacity")
            return
        self.send_response(200)
        self.end_headers()
        if self.path.endswith("/audio/transcriptions"):
            self.wfile.write(b'{"text": " hello there "}')
        elif self.path.endswith("/audio/speech"):
            for size in (1, 4801, 98):  # torn in the middle of samples
                self.wfile.write(b"\1" * size)
                self.wfile.flush()
        else:
            self._chat(b"stop here" in body, b"block here" in body)

    def _chat(self, stop: bool, block: bool) -> None:
        for index, text in enumerate(self.server.texts):
            if stop and index == 3:
                return
            if block and index == 3:
                self.server.go_on.wait(10)
            delta = json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]})
            self.wfile.write(f"data: {delta}\n\n: a comment\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n')
        self.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture
def remote() -> Iterator[Remote]:
    server = Remote()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_transcription(remote: Remote, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    adapter = OpenAiAsrAdapter()
    loaded = adapter.load({"base_url": remote.url, "model": "w", "api_key_file": str(key)})
    assert loaded.slots == SLOTS
    assert "secret" not in str(loaded)
    assert adapter.transcribe(TranscribeJob(1, b"\0\1" * 80, "en"), no).text == "hello there"
    path, headers, body = remote.requests[0]
    assert path == "/v1/audio/transcriptions"
    assert headers["Authorization"] == "Bearer secret"
    assert b"RIFF" in body
    assert b'name="language"\r\n\r\nen\r\n' in body
    assert b"\0\1" * 80 in body


def test_speech_comes_in_whole_samples(remote: Remote) -> None:
    adapter = OpenAiTtsAdapter()
    adapter.load({"base_url": remote.url, "model": "t", "voice": "v"})
    blocks: list[bytes] = []
    adapter.speak(SpeakJob(1, "hi", 1, 0, 5.0), blocks.append, no)
    assert sum(map(len, blocks)) == 4900
    assert all(len(block) % 2 == 0 for block in blocks)
    assert json.loads(remote.requests[0][2]) == {
        "model": "t",
        "input": "hi",
        "voice": "v",
        "response_format": "pcm",
    }


def writer(remote: Remote) -> OpenAiLlmAdapter:
    adapter = OpenAiLlmAdapter()
    adapter.load({"base_url": remote.url, "model": "m", "max_tokens": 99, "temperature": 0.5})
    return adapter


def test_an_answer_is_one_request_read_in_steps(remote: Remote) -> None:
    adapter = writer(remote)
    got: list[str] = []
    assert adapter.write(WriteJob(1, 1, 4, PROMPT), got.append, no, no) == Written(4, False)
    assert adapter.write(WriteJob(2, 1, 4), got.append, no, lambda: len(got) > 5) == Written(
        2, False
    )
    assert len(remote.requests) == 1
    asked = json.loads(remote.requests[0][2])
    assert asked["messages"] == [{"role": m.role, "content": m.content} for m in PROMPT]
    assert (asked["max_tokens"], asked["temperature"], asked["stream"]) == (99, 0.5, True)


def test_a_pause_keeps_the_rest(remote: Remote) -> None:
    adapter = writer(remote)
    got: list[str] = []
    adapter.write(WriteJob(1, 1, 99, PROMPT), got.append, lambda: len(got) >= 3, no)
    assert adapter.write(WriteJob(2, 1, 99), got.append, no, no) == Written(7, True)
    assert got == remote.texts


def test_what_is_not_known_is_lost(remote: Remote) -> None:
    adapter = writer(remote)
    with pytest.raises(SequenceLostError):
        adapter.write(WriteJob(1, 1, 4), lambda _: None, no, no)
    adapter.write(WriteJob(2, 1, 4, PROMPT), lambda _: None, no, no)
    adapter.close_stream(1)
    with pytest.raises(SequenceLostError):
        adapter.write(WriteJob(3, 1, 4), lambda _: None, no, no)


def test_a_response_cut_while_it_rested_is_lost_and_resumed(remote: Remote) -> None:
    adapter = writer(remote)
    got: list[str] = []
    stop = [Message("user", "stop here")]
    adapter.write(WriteJob(1, 1, 3, stop), got.append, no, no)
    with pytest.raises(SequenceLostError):
        adapter.write(WriteJob(2, 1, 3), got.append, no, no)
    adapter.write(WriteJob(3, 1, 3, PROMPT, "".join(got)), got.append, no, no)
    assert json.loads(remote.requests[1][2])["messages"][-1] == {
        "role": "assistant",
        "content": "0 1 2 ",
    }
    with pytest.raises(EngineFailedError, match="ended too early"):
        adapter.write(WriteJob(4, 1, 9, stop), got.append, no, no)


def test_a_cancel_wakes_a_blocked_reader(remote: Remote) -> None:
    adapter = writer(remote)
    cancelled = threading.Event()
    three = threading.Event()
    got: list[str] = []
    ended: list[str] = []

    def take(text: str) -> None:
        got.append(text)
        if len(got) == 3:
            three.set()

    def run() -> None:
        job = WriteJob(1, 1, 99, [Message("user", "block here")])
        try:
            adapter.write(job, take, no, cancelled.is_set)
        except EngineFailedError:
            ended.append("error")
        else:
            ended.append("returned")

    thread = threading.Thread(target=run)
    thread.start()
    assert three.wait(5)
    cancelled.set()
    adapter.cancel_now()
    thread.join(5)
    assert ended, "the reader is still blocked"
    assert len(got) == 3


def test_errors_in_words(remote: Remote, tmp_path: Path) -> None:
    adapter = writer(remote)
    with pytest.raises(EngineFailedError, match="HTTP 503"):
        adapter.write(WriteJob(1, 1, 9, [Message("user", "please fail")]), lambda _: None, no, no)
    with pytest.raises(ConfigError, match=r"tts\.base_url: 'x' is no address"):
        OpenAiTtsAdapter().load({"base_url": "x"})
    with pytest.raises(MissingFileError, match="api_key_file"):
        OpenAiTtsAdapter().load({"base_url": remote.url, "api_key_file": str(tmp_path / "no")})
    adapter = OpenAiLlmAdapter()
    adapter.load({"base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(EngineFailedError, match=r"127\.0\.0\.1:9"):
        adapter.write(WriteJob(1, 1, 9, PROMPT), lambda _: None, no, no)
