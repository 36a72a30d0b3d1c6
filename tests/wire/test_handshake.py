"""What an upgrade request tells, from boards (headers) and web pages (query)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duet_trio.wire.handshake import Handshake, bare_token, client_headers, read_handshake


def test_a_stock_board() -> None:
    headers = client_headers(
        device_id="aa:bb:cc:00:11:22", client_id="c0ffee", version=3, token="secret"
    )
    assert [name for name, _ in headers] == sorted(name for name, _ in headers)
    assert read_handshake("/xiaozhi/v1/", headers, "made-up") == Handshake(
        device_id="aa:bb:cc:00:11:22",
        client_id="c0ffee",
        version=3,
        token="secret",
        path="/xiaozhi/v1/",
    )


def test_headers_as_bytes_in_any_case() -> None:
    headers = [(b"DEVICE-ID", b"AA-BB-CC-00-11-22"), (b"protocol-version", b" 2 ")]
    shake = read_handshake("/", headers, "made-up")
    assert (shake.device_id, shake.version) == ("aa:bb:cc:00:11:22", 2)


def test_a_web_page_says_it_in_the_query() -> None:
    target = (
        "/xiaozhi/v1/?Device-Id=web%20test&client-id=web-1&authorization=Bearer%20tok&"
        "protocol-version=1"
    )
    assert read_handshake(target, [], "made-up") == Handshake(
        device_id="web test", client_id="web-1", version=1, token="tok", path="/xiaozhi/v1/"
    )


def test_a_header_goes_before_the_query_unless_it_is_empty() -> None:
    target = "/?device-id=from-query&client-id=from-query"
    shake = read_handshake(target, [("device-id", "from-header"), ("client-id", " ")], "x")
    assert (shake.device_id, shake.client_id) == ("from-header", "from-query")


def test_a_missing_device_id_is_made_up_by_the_caller() -> None:
    shake = read_handshake("/", [], "guest-1")
    assert shake.device_id == "guest-1"
    assert not shake.device_id_given


@pytest.mark.parametrize("version", ["", "0", "4", "two", "1.0", "²"])
def test_an_unknown_version_is_left_to_the_hello(version: str) -> None:
    assert read_handshake("/", [("protocol-version", version)], "x").version is None


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer   abc ", "abc"),
        ("abc", "abc"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Basic abc", "Basic abc"),
        ("", ""),
        ("bearerabc", "bearerabc"),
    ],
)
def test_bearer(value: str, token: str) -> None:
    assert bare_token(value) == token


def test_a_token_with_a_space_is_sent_as_it_is() -> None:
    assert ("Authorization", "Bearer abc") in client_headers(
        device_id="d", client_id="c", token="Bearer abc"
    )
    assert "Authorization" not in dict(client_headers(device_id="d", client_id="c"))


def test_identities_carry_nothing_that_breaks_a_log() -> None:
    shake = read_handshake("/?device-id=a%0Ab%1B%5B31m" + "x" * 500, [], "made-up")
    assert shake.device_id.startswith("ab[31m")
    assert shake.device_id.isprintable()
    assert len(shake.device_id) <= 64


names = st.sampled_from(["device-id", "Client-Id", "authorization", "Protocol-Version"]) | st.text()


@given(
    st.text(max_size=80) | st.text(max_size=60).map(lambda text: "//[" + text),
    st.lists(st.tuples(names | st.binary(max_size=9), st.text() | st.binary(max_size=20))),
)
def test_any_request_gives_a_handshake(
    target: str, headers: list[tuple[str | bytes, str | bytes]]
) -> None:
    shake = read_handshake(target, headers, "made-up")
    assert shake.device_id
    assert shake.path
    assert shake.version in (None, 1, 2, 3)
