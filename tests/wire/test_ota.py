"""The OTA endpoint: every rule of a safe answer, and bodies that are not JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duet_trio.errors import ConfigError, PeerError
from duet_trio.wire import ota

URL = "ws://192.168.1.10:8000/xiaozhi/v1/"
BOARD = ota.OtaRequest(
    device_id="aa:bb:cc:00:11:22",
    client_id="0f3c",
    chip="esp32s3",
    firmware="2.4.2",
    board="bread-compact-wifi",
    language="en-US",
)


def good(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "websocket_url": URL,
        "token": "",
        "timestamp_ms": 1_790_000_000_000,
        "timezone_offset_min": 120,
    }
    return ota.answer(**(values | changes))


def test_rule_1_the_answer_says_what_is_needed_and_nothing_else() -> None:
    assert good() == {
        "server_time": {"timestamp": 1_790_000_000_000, "timezone_offset": 120},
        "websocket": {"url": URL, "token": "", "version": 1},
    }


def test_an_answer_is_understood_by_the_board() -> None:
    body = json.dumps(good(token="tok", version=3)).encode()
    assert ota.read_answer(body) == ota.OtaAnswer(URL, "tok", 3)


@pytest.mark.parametrize(
    "url",
    [
        "ws://192.168.1.10/xiaozhi/v1/",
        "ws://host/a:b",
        "ws://host:/x",
        "ws://host:0/x",
        "ws://host:99999/x",
        "ws://[fe80::1]:8000/x",
        "http://host:8000/x",
        "WS://host:8000/x",
        "ws://:8000/x",
        "ws://user@host:8000/x",
        "ws://host name:8000/x",
        "ws://höst:8000/x",
        "host:8000",
        "",
    ],
)
def test_rule_1_an_address_that_boards_cannot_use_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match="address") as caught:
        good(websocket_url=url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["wss://voice.example:443/x", "ws://laptop.local:8000/xiaozhi/v1/"])
def test_usable_addresses(url: str) -> None:
    assert good(websocket_url=url)["websocket"]["url"] == url


@pytest.mark.parametrize("token", ["a\nb", "tök", "a\0"])
def test_a_token_that_no_header_can_carry(token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        good(token=token)


@pytest.mark.parametrize("version", [0, 4, True, "1"])
def test_unknown_framing_versions(version: Any) -> None:
    with pytest.raises(ConfigError, match="version"):
        good(version=version)


@pytest.mark.parametrize("clock", [{"timestamp_ms": 0}, {"timezone_offset_min": 7200}])
def test_clock_in_wrong_units(clock: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="server_time"):
        good(**clock)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mqtt": {}}, "'mqtt' must be left out"),
        ({"activation": {"code": "1"}}, "'activation' must be left out"),
        ({"firmware": {"version": "beta"}}, "'firmware' must be left out"),
        ({"websocket": {"url": URL, "version": 1}}, "no string 'token'"),
        ({"websocket": {"token": "", "version": 1}}, "no 'url'"),
        ({"websocket": None}, "no 'websocket'"),
        ({"server_time": 5}, "no 'server_time'"),
        ({"server_time": {"timestamp": "5", "timezone_offset": 0}}, "needs numbers"),
        (
            {"websocket": {"url": URL, "token": "", "version": 1, "protocol_version": 1}},
            "'protocol_version' in 'websocket' has over 15",
        ),
    ],
)
def test_rule_1_mistakes_that_a_board_suffers_from(change: dict[str, Any], complaint: str) -> None:
    assert ota.mistakes_in(good()) == []
    wrong = good() | change
    assert [text for text in ota.mistakes_in(wrong) if complaint in text]
    with pytest.raises(PeerError):
        ota.read_answer(json.dumps(wrong).encode())


def test_a_request_round_trips() -> None:
    assert ota.parse_request(*ota.request(BOARD)) == BOARD


def test_header_names_in_any_case_and_bodies_left_out() -> None:
    headers = {name.upper(): value for name, value in ota.request(BOARD)[0].items()}
    facts = ota.parse_request(headers, b"")
    assert facts == ota.OtaRequest(
        device_id=BOARD.device_id,
        client_id=BOARD.client_id,
        firmware="2.4.2",
        board="bread-compact-wifi",
        language="en-US",
    )


def test_rule_1_a_network_name_with_a_quote_breaks_the_body_and_nothing_else() -> None:
    headers, body = ota.request(BOARD)
    broken = body.replace(b'"type":"bread', b'"ssid":"Joe"s \\ net","type":"bread')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken)
    assert ota.parse_request(headers, broken) == BOARD
    assert ota.parse_request({}, broken).chip == "esp32s3"
    assert ota.parse_request({}, broken).device_id == BOARD.device_id
    assert ota.parse_request({}, broken).firmware == "2.4.2"


def test_identity_comes_from_the_headers_first() -> None:
    body = b'{"mac_address":"11:11:11:11:11:11","uuid":"body"}'
    facts = ota.parse_request({"Device-Id": "22-22-22-22-22-AA", "Client-Id": "head"}, body)
    assert (facts.device_id, facts.client_id) == ("22:22:22:22:22:aa", "head")


@pytest.mark.parametrize("agent", ["", "Mozilla/5.0 (X11; Linux)", "python", "a/b"])
def test_other_user_agents_name_no_board(agent: str) -> None:
    facts = ota.parse_request({"User-Agent": agent}, b"{}")
    assert (facts.board, facts.firmware) == ("", "")


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=40)),
    st.binary(max_size=200) | st.text().map(str.encode),
)
def test_any_request_is_read(headers: dict[str, str], body: bytes) -> None:
    assert isinstance(ota.parse_request(headers, body), ota.OtaRequest)


@given(st.binary(max_size=100) | st.dictionaries(st.sampled_from(
    ["websocket", "server_time", "mqtt"]), st.none() | st.text() | st.dictionaries(
    st.sampled_from(["url", "token", "version", "timestamp", "timezone_offset"]),
    st.text() | st.integers() | st.none()))
    .map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_answer_is_read_or_a_peer_error(body: bytes) -> None:
    try:
        read = ota.read_answer(body)
    except PeerError:
        return
    assert read.version in (1, 2, 3)


def test_a_hostile_body_takes_no_time() -> None:
    started = time.perf_counter()
    ota.parse_request({}, b'"application":{' * 20_000)
    ota.parse_request({}, b'"uuid"' + b" " * 300_000)
    assert time.perf_counter() - started < 2.0
