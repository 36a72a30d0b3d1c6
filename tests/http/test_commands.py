"""``duet say`` and ``duet boards``, as a user meets them."""

from __future__ import annotations

import os
import sys
import wave
from pathlib import Path

import pytest
import trio

from duet_trio.bench.talker import talking
from duet_trio.cli import main
from duet_trio.server.approvals import Approvals
from duet_trio.server.board_facts import FactStore
from duet_trio.wire.ota import OtaRequest
from tests.http.house import TOKEN, House, open_house

MAC = "aa:bb:cc:00:11:22"


async def duet(*arguments: str) -> int:
    with trio.fail_after(20):
        return await trio.to_thread.run_sync(main, arguments)


def frames_in(path: Path) -> int:
    file = wave.open(str(path), "rb")  # noqa: SIM115 - which needs a true length in the head
    rate, frames = file.getframerate(), file.getnframes()
    file.close()
    assert rate == 24_000
    return frames


async def say(house: House, *arguments: str) -> int:
    return await duet("say", *arguments, "--url", house.url)


async def test_say_makes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.wav"
    async with open_house(tmp_path) as house:
        assert await say(house, "Hello there.", "-o", str(out)) == 0
        assert frames_in(out) == (out.stat().st_size - 44) // 2
        assert await say(house, "Hello there.", "-o", str(tmp_path / "out.mp3")) == 0
        assert (tmp_path / "out.mp3").read_bytes()[:1] == b"\xff"


async def into(output: int, house: House) -> tuple[int, bytes]:
    """``duet say … -o -`` with this file descriptor as its standard output."""
    command = [sys.executable, "-m", "duet_trio", "say", "Hello.", "-o", "-", "--url", house.url]
    try:
        with trio.fail_after(20):
            result = await trio.run_process(
                command, stdout=output, capture_stderr=True, check=False
            )
    finally:
        os.close(output)
    return result.returncode, result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_the_server_is_not_blamed_for_our_own_output(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        read_end, write_end = os.pipe()
        os.close(read_end)
        assert await into(write_end, house) == (0, b"")
        code, said = await into(os.open("/dev/full", os.O_WRONLY), house)
        assert code == 1
        assert said == b"duet: the device written to is full; make room and run it again\n"


async def test_say_on_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1):
        assert await say(house, "Dinner.", "--device", "02:00:00:00:00:01") == 0
        assert "said on 02:00:00:00:00:01" in capsys.readouterr().out


async def test_say_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_house(tmp_path, "auth.loopback=false") as house:
        assert await say(house, "Hello.", "--device", "x") == 2
        assert "a token is needed" in capsys.readouterr().err
        token = tmp_path / "t"
        token.write_text(f"{TOKEN}\n")
        assert await say(house, "Hello.", "--device", "x", "--token-file", str(token)) == 2
        assert "no such board" in capsys.readouterr().err
        out = str(tmp_path / "no" / "x.wav")
        assert await say(house, "Hello.", "-o", out, "--token-file", str(token)) == 2
        assert "cannot be written" in capsys.readouterr().err
    for url in ("http://127.0.0.1:1", "nonsense", "http://127.0.0.1:x"):
        assert await duet("say", "x", "-o", "-", "--url", url) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "duet: " in said


def test_boards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ("--set", f"server.state_dir={tmp_path.as_posix()!r}")
    assert main(["boards", "list", *state]) == 0
    assert "no board has asked" in capsys.readouterr().out
    assert main(["boards", "approve", MAC.upper().replace(":", "-"), *state]) == 0
    assert f"{MAC} may connect" in capsys.readouterr().out
    assert main(["boards", "list", *state, "--set", 'auth.allow=["other"]']) == 0
    listed = capsys.readouterr().out
    assert f"{MAC}    approved" in listed
    assert "allowed by the configuration" in listed
    assert main(["boards", "forget", MAC, *state]) == 0
    assert main(["boards", "forget", MAC, *state]) == 2
    assert "is not approved" in capsys.readouterr().err
    assert main(["boards", "approve", " ", *state]) == 2


def test_approving_what_cannot_be_a_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ("--set", f"server.state_dir={tmp_path.as_posix()!r}")
    for slip in ("nonsense", "aa:bb:cc:00:11", "aabbcc001122", "aa:bb:cc:00:11:2g", "123456"):
        assert main(["boards", "approve", slip, *state]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"duet: {slip}: no MAC")
        assert said.count("\n") == 1
    assert Approvals(tmp_path).all() == {}
    # What has asked may be approved by whatever name it asked; a slip in a MAC is pointed out.
    store = FactStore(tmp_path)
    for name in ("web-console", MAC):
        store.saw(asked_by(name))
    store.flush()
    assert main(["boards", "approve", "web-konsole", *state]) == 2
    assert "near: web-console" in capsys.readouterr().err
    assert main(["boards", "approve", "web-console", *state]) == 0
    assert "not asked" not in capsys.readouterr().out
    assert main(["boards", "approve", "aa:bb:cc:00:11:23", *state]) == 0
    assert f"near: {MAC}" in capsys.readouterr().out


def asked_by(name: str) -> OtaRequest:
    return OtaRequest(device_id=name, client_id="", chip="", firmware="", board="")
