"""Who may do what: the rules alone, then at the door."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest
import trio

from duet_trio.config import load
from duet_trio.errors import ConfigError, UsageError
from duet_trio.server.approvals import Approvals
from duet_trio.server.security import Access, Peer, given_token, is_loopback, split_host
from duet_trio.server.security_token import obtain_token
from duet_trio.server.site import without_paths
from tests.http.house import TOKEN, House, open_house

LAN, OURS = "192.168.1.20", "192.168.1.5"
MAC = "aa:bb:cc:00:11:22"


def access(folder: Path, *settings: str) -> Access:
    return Access(load(None, list(settings)), TOKEN, Approvals(folder), ports=(8000, 8003))


def peer(address: str = LAN, **headers: str) -> Peer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("host", f"{OURS}:8003")
    return Peer(address, OURS, named)


@pytest.mark.parametrize(
    ("given", "local"),
    [
        (peer("127.0.0.1", host="127.0.0.1:8003"), True),
        (peer("::1", host="localhost:8003"), True),
        (peer("::ffff:127.0.0.1", host="[::1]:8003"), True),
        (peer("127.0.0.1", host="127.0.0.1", x_forwarded_for="8.8.8.8"), False),
        (peer("127.0.0.1", host="127.0.0.1", forwarded="for=8.8.8.8"), False),
        (peer("127.0.0.1", host="duet.example"), False),  # a proxy that keeps the host
        (peer(LAN), False),
        (peer(LAN, host="127.0.0.1:8003"), False),
        (peer("fe80::1%eth0"), False),
    ],
)
def test_what_is_local(given: Peer, local: bool, tmp_path: Path) -> None:
    assert access(tmp_path).is_local(given) is local
    assert not access(tmp_path, "auth.loopback=false").is_local(given)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("192.168.1.5:8003", True),
        ("192.168.1.5", True),
        ("localhost:8003", True),
        ("LOCALHOST.", True),
        ("[::1]:8003", True),
        ("duet.home", True),
        ("duet.home:443", True),
        ("voice.example", True),
        ("", True),  # HTTP/1.0
        ("evil.example", False),
        ("192.168.1.99", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("user@localhost", False),
        ("localhost/x", False),
        ("localhost:99999", False),
        ("[::1", False),
    ],
)
def test_which_hosts_are_ours(host: str, own: bool, tmp_path: Path) -> None:
    rules = access(tmp_path, "server.advertise=duet.home", 'server.names=["Voice.Example"]')
    assert rules.is_own_host(peer(host=host)) is own


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"origin": "http://192.168.1.5:8003"}, False),
        ({"origin": "http://localhost:8003"}, False),
        ({"origin": "https://duet.home"}, False),
        ({"origin": "http://192.168.1.5:8003", "sec_fetch_site": "same-origin"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"origin": "http://192.168.1.5:3000"}, True),  # another program on this machine
        ({"origin": "http://evil.example"}, True),
        ({"origin": "http://evil.example:8003"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://[::1"}, True),
        ({"origin": "file:///c:/x.html"}, True),
        ({"sec_fetch_site": "cross-site"}, True),  # <img>, <audio>: no Origin
        ({"sec_fetch_site": "same-site"}, True),
    ],
)
def test_which_pages_are_foreign(headers: dict[str, str], foreign: bool, tmp_path: Path) -> None:
    rules = access(tmp_path, "server.advertise=duet.home")
    assert rules.is_foreign_page(peer(**headers)) is foreign


def test_tokens_in_headers() -> None:
    basic = base64.b64encode(b"anybody:se:same").decode()
    assert given_token("Bearer sesame") == "sesame"
    assert given_token("bearer   sesame") == "sesame"
    assert given_token("sesame") == "sesame"
    assert given_token(f"Basic {basic}") == "se:same"
    assert given_token("Basic !!!") == ""
    assert given_token("Basic /////w==") == ""
    assert given_token("") == ""


def test_a_boards_token_is_its_own_and_ends_with_its_approval(tmp_path: Path) -> None:
    rules, approvals = access(tmp_path), Approvals(tmp_path)
    assert rules.board_token(MAC) == ""
    assert not rules.may_be_board(peer(), MAC, "")
    approvals.approve(MAC)
    first = rules.board_token(MAC)
    assert first
    assert rules.may_be_board(peer(), MAC, first)
    assert not rules.may_be_board(peer(), "aa:bb:cc:00:11:33", first)
    assert not rules.may_use_api(peer(authorization=f"Bearer {first}"))
    assert rules.may_be_board(peer(), "anything", TOKEN)
    approvals.approve(MAC)
    assert not rules.may_be_board(peer(), MAC, first)  # expired by the new approval
    assert approvals.forget(MAC)
    assert rules.board_token(MAC) == ""
    assert not approvals.forget(MAC)


def test_boards_that_the_configuration_lets_in(tmp_path: Path) -> None:
    assert access(tmp_path, f'auth.allow=["{MAC.upper()}"]').board_token(MAC)
    assert access(tmp_path, f'boards."{MAC}".voice=x').board_token(MAC)
    assert access(tmp_path, "auth.pairing=false").board_token(MAC)
    assert access(tmp_path, "auth.pairing=false").board_token("") == ""


def test_a_damaged_list_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "approved.json").write_text("{")
    assert Approvals(tmp_path).of(MAC) is None


def test_the_token_is_made_once_and_kept_to_ourselves(tmp_path: Path) -> None:
    config = load(None, [f"server.state_dir={tmp_path.as_posix()!r}"])
    token = obtain_token(config)
    assert len(token) >= 32
    assert obtain_token(config) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert obtain_token(load(None, ["auth.token=Bearer abc"])) == "abc"
    with pytest.raises(ConfigError, match=r"auth\.token"):
        obtain_token(load(None, ["auth.token=é"]))
    (tmp_path / "file").write_text("")
    nowhere = f"server.state_dir={(tmp_path / 'file' / 'x').as_posix()!r}"
    with pytest.raises(UsageError, match=r"server\.state_dir|rights"):
        obtain_token(load(None, [nowhere]))


def test_small_things() -> None:
    assert is_loopback("127.8.9.1")
    assert not is_loopback("10.0.0.1")
    assert split_host("A.B:80") == ("a.b", 80)
    assert without_paths("no /srv/models/x.gguf here") == "no …/x.gguf here"
    assert without_paths(r"D:\models\x.gguf: no such file") == "…/x.gguf: no such file"
    assert without_paths("http://127.0.0.1:80/v1/x and a/b") == "http://127.0.0.1:80/v1/x and a/b"


# --- at the door


async def test_what_needs_a_token(tmp_path: Path) -> None:
    async with open_house(tmp_path, "auth.loopback=false") as house:
        for target in ("/", "/status", "/metrics", "/speak?text=a", "/v1/models", "/openapi.json"):
            reply = await house.ask("GET", target)
            assert reply.status == 401, target
            assert reply.headers["www-authenticate"].startswith("Basic")
            for given in ("Bearer wrong", "Bearer", "Basic d3Jvbmc6d3Jvbmc=", f"Bearer {TOKEN}x"):
                bad = await house.ask("GET", target, headers=[("Authorization", given)])
                assert bad.status == 401
            good = await house.ask("GET", target, headers=[("Authorization", f"Bearer {TOKEN}")])
            assert good.status == 200, target
        assert (await house.ask("GET", "/nothing/here")).status == 401
        health = await house.ask("GET", "/health")
        assert (health.status, health.json()) == (200, {"status": "ok"})
        assert (await house.ask("GET", "/xiaozhi/ota")).status == 200


@pytest.mark.parametrize(
    ("headers", "host", "status"),
    [
        ([], "evil.example", 421),
        ([("Origin", "http://evil.example")], "127.0.0.1", 403),
        ([("Origin", "null")], "127.0.0.1", 403),
        ([("Sec-Fetch-Site", "cross-site")], "127.0.0.1", 403),
        ([("X-Forwarded-For", "8.8.8.8")], "127.0.0.1", 401),
    ],
)
async def test_pages_and_proxies_are_not_us(
    headers: list[tuple[str, str]], host: str, status: int, tmp_path: Path
) -> None:
    async with open_house(tmp_path) as house:
        for method, target in (("POST", "/speak"), ("GET", "/speak?text=a"), ("GET", "/metrics")):
            reply = await house.ask(method, target, {"text": "a"}, headers=headers, host=host)
            assert reply.status == status
        assert not house.events("answer.start")
        assert (
            f'duet_http_refused_total{{status="{status}"}} 3.0' in house.metrics.render().decode()
        )


async def test_the_start_page_may_be_linked_to(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("GET", "/", headers=[("Sec-Fetch-Site", "cross-site")])
        assert reply.status == 200


async def ota(house: House, device: str, client: str = "c-1") -> str:
    reply = await house.ask(
        "POST", "/xiaozhi/ota/", {}, headers=[("Device-Id", device), ("Client-Id", client)]
    )
    assert reply.status == 200
    return str(reply.json()["websocket"]["token"])


async def dial(
    house: House, device: str, token: str, *more: tuple[str, str], host: str = "127.0.0.1"
) -> int:
    """The status of an upgrade request; 101 is the good one."""
    headers = [
        ("Host", host),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Device-Id", device),
        *more,
    ]
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    stream = await trio.open_tcp_stream("127.0.0.1", house.ports[0])
    async with stream:
        await stream.send_all(f"GET /xiaozhi/v1/ HTTP/1.1\r\n{lines}\r\n".encode())
        return int((await stream.receive_some()).split()[1])


async def test_a_board_is_paired(tmp_path: Path) -> None:
    async with open_house(tmp_path, "auth.loopback=false") as house:
        assert await ota(house, MAC) == ""
        assert await dial(house, MAC, "") == 401
        waiting = await house.ask("GET", "/status", headers=[("Authorization", f"Bearer {TOKEN}")])
        assert [one["device"] for one in waiting.json()["waiting"]] == [MAC]
        Approvals(tmp_path).approve(MAC)  # what `duet boards approve` does, in another process
        token = await ota(house, MAC)
        assert token not in ("", TOKEN)
        assert await dial(house, MAC, token) == 101
        assert await dial(house, "aa:bb:cc:00:11:33", token) == 401
        # Another machine that says it is this board.
        assert await ota(house, MAC, client="c-2") == ""
        assert await ota(house, MAC) == token
        Approvals(tmp_path).forget(MAC)
        assert await ota(house, MAC) == ""
        assert await dial(house, MAC, token) == 401


async def test_a_page_cannot_play_a_board(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        own = f"http://127.0.0.1:{house.ports[1]}"
        assert await dial(house, MAC, "", ("Origin", own)) == 101
        assert await dial(house, MAC, "", ("Origin", "http://evil.example")) == 403
        assert await dial(house, MAC, "", ("Origin", "null")) == 403
        assert await dial(house, MAC, "", host="evil.example") == 421


async def test_no_answer_shows_a_path_or_a_trace(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        replies = [
            await house.ask("GET", "/../../etc/passwd"),
            await house.ask("GET", "/static/../../config.py"),
            await house.ask("DELETE", "/speak"),
            await house.ask("POST", "/v1/chat/completions", {"model": 1}),
            await house.ask("POST", "/v1/audio/transcriptions", b"x"),
            await house.ask("GET", "/health"),
            await house.ask("GET", "/status"),
        ]
        for reply in replies:
            text = reply.body.decode()
            json.loads(text)
            assert reply.status < 500
            for word in ("Traceback", ".py", "site-packages", str(tmp_path), 'File "'):
                assert word not in text
