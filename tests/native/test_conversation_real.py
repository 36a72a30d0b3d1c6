"""A real server process whose voice is the real libqwen (tiny weights): boards talk, one aborts.

Voices are the speakers of the tiny pair: chosen by the configuration, by the board's section, by
the HTTP request; the second of them is slow of speech, so that its length tells who spoke. Every
process of that server is forbidden to reach out.
"""

from __future__ import annotations

import io
import json
import urllib.request
import wave
from pathlib import Path

import pytest
import trio

from duet_trio.bench.processes import CONFIG_FOLDER, RunningServer, serving
from duet_trio.board.client import BoardClient
from duet_trio.board.link import Identity
from duet_trio.board.result import BoardResult, Turn
from duet_trio.board.script import Action, BoardOptions, Question
from duet_trio.lab.tiny_gguf import write_pair
from duet_trio.trace.reader import read
from duet_trio.trace.statistics import evaluate_events
from tests.native.support import libqwen

pytestmark = pytest.mark.slow

SHORT = "Hello there."
LONG = "This one goes on for a while, until the button is pressed in the middle of it."
PLAIN, NAMED, WRONG = (f"02:00:00:00:00:0{n}" for n in (1, 2, 3))
#: Loaded by Python itself at start, in the server and in its workers.
GUARD = """
import sys

def hook(event, args):
    if event == "socket.connect":
        address = args[1]
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    # 192.0.2.1 (reserved for documentation) is how our own address is asked for; nothing is sent.
    if host not in (None, "", "127.0.0.1", "::1", "localhost", "0.0.0.0", "192.0.2.1"):
        with open(LOG, "a") as log:
            log.write(f"{event} {host}\\n")
        raise OSError("not allowed to reach out")

sys.addaudithook(hook)
with open(LOG, "a") as log:
    log.write("guarded\\n")
"""


async def ask(server: RunningServer, device: str, *questions: Question) -> BoardResult:
    options = BoardOptions(url=server.url, identity=Identity(device_id=device), patience_s=40.0)
    return await BoardClient(options).run(list(questions))


async def say_over_http(server: RunningServer, text: str, voice: str) -> float:
    """Seconds of audio that come back."""
    url = f"http://127.0.0.1:{server.http_port}/speak"
    body = json.dumps({"text": text, "voice": voice}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=head, method="POST")

    def fetch() -> bytes:
        with urllib.request.urlopen(request, timeout=40) as response:
            answered: bytes = response.read()
            return answered

    with wave.open(io.BytesIO(await trio.to_thread.run_sync(fetch))) as file:
        seconds: float = len(file.readframes(1 << 30)) / 2 / file.getframerate()
        return seconds


def seconds_of(result: BoardResult, turn: Turn) -> float:
    """Seconds of audio that the board was sent."""
    assert result.failure == ""
    return len(turn.arrivals_s) * 0.06


async def test_boards_talk_abort_and_keep_their_voices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached_out = tmp_path / "reached-out"
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(f"LOG = {str(reached_out)!r}\n{GUARD}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "guard"))
    pair = write_pair(tmp_path / "pair", kind="custom_voice")
    files = {"library": str(libqwen()), "model": str(pair.talker), "codec": str(pair.codec)}
    trace = tmp_path / "trace.jsonl"
    settings = [
        "tts.engine=qwen",
        *(f"tts.{key}='{value}'" for key, value in files.items()),
        "tts.first_s=20", "tts.stall_s=20", "tts.piece_s=40",
        f"llm.script=[{SHORT!r}, {LONG!r}, {SHORT!r}, {SHORT!r}, {SHORT!r}]",
        "voice.name=ann",
        f'boards."{NAMED}".voice="bob"',
        f'boards."{WRONG}".voice="nobody"',
        f"trace.path='{trace}'",
    ]  # fmt: skip
    with trio.fail_after(150):
        async with serving(CONFIG_FOLDER / "scripted.toml", settings, tmp_path) as server:
            interrupted = Question(text="and?", actions=(Action("button", 0.3, "audio"),))
            plain = await ask(
                server, PLAIN, Question(text="one"), interrupted, Question(text="three")
            )
            named = await ask(server, NAMED, Question(text="who are you?"))
            wrong = await ask(server, WRONG, Question(text="who are you?"))
            over_http_s = await say_over_http(server, SHORT, "bob")
    events = list(read(trace))
    figures = evaluate_events(events)
    first, aborted, last = plain.turns

    # A whole conversation with an abort in it.
    assert plain.failure == ""
    assert [turn.answer for turn in (first, last)] == [SHORT, SHORT]
    assert aborted.abort_to_stop_s is not None
    assert aborted.abort_to_stop_s < 0.5
    assert [turn.frames_after_stop for turn in plain.turns] == [0, 0, 0]
    assert [(turn.starts, turn.stops) for turn in plain.turns] == [(1, 1)] * 3
    assert figures.stale == 0
    outcomes = [answer.outcome for answer in figures.answers]
    assert outcomes == ["done", "aborted", "done", "done", "failed", "done"]

    # Each with its voice; an unknown one is a failed answer with a reason, and the engine lives.
    assert wrong.turns[0].alerts
    slow = min(seconds_of(named, named.turns[0]), over_http_s)
    assert 0.3 < seconds_of(plain, first) < 0.75 * slow
    assert seconds_of(plain, last) < 0.75 * slow

    # Server, workers: all were guarded, none reached out.
    assert set(reached_out.read_text().splitlines()) == {"guarded"}
    assert reached_out.read_text().count("guarded") >= 4
