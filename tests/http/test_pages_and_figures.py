"""The start page, ``/metrics``, ``/health``, and TLS."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest
import trio
import trustme

from duet_trio.bench.talker import talking
from duet_trio.config import ServerSection
from duet_trio.errors import ConfigError, MissingFileError, UsageError
from duet_trio.server.boards import Boards
from duet_trio.server.http import make_app
from duet_trio.server.http_server import HttpServer
from duet_trio.server.metrics import MAX_CAUSES, MAX_OPEN, Metrics
from duet_trio.server.tls import tls_context
from tests.http.house import begin, finish, open_house


async def test_the_start_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("GET", "/")
        page = reply.body.decode()
        assert reply.headers["content-type"].startswith("text/html")
        policy = reply.headers["content-security-policy"]
        nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
        assert nonce
        assert page.count(f'nonce="{nonce[1]}"') == 2
        assert "{{" not in page
        urls = set(re.findall(r"https?://[\w.\-]+", page))
        assert urls == {"http://192.168.4.1"}  # the board's own set-up page
        assert "innerHTML" not in page
        again = await house.ask("GET", "/")
        assert nonce[1] not in again.headers["content-security-policy"]


async def test_the_status_behind_it(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, talking(house.websocket_url, 1):
        status = (await house.ask("GET", "/status")).json()
        assert [one["kind"] for one in status["engines"]] == ["asr", "llm", "tts"]
        assert status["boards"][0]["device"] == "02:00:00:00:00:01"
        assert status["boards"][0]["state"] == "listening"
        assert status["ota_url"].endswith("/xiaozhi/ota/")
        health = (await house.ask("GET", "/health")).json()
        assert (health["status"], health["boards"]) == ("ok", 1)


async def test_figures_follow_what_happens(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        async with talking(house.websocket_url, 1) as talker:
            await talker.ask("hello")
            await talker.until_stops(1)
            await talker.ask("more")
            await talker.until_packets(len(talker.arrivals) + 2)
            await talker.say('{"type":"abort"}')
            await talker.until_stops(2)
        await house.ask("POST", "/speak", {"text": "Hello."})
        reply = await house.ask("GET", "/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        text = reply.body.decode()
        for line in (
            'duet_answers_total{cause="",client="board",outcome="done"} 1.0',
            'duet_answers_total{cause="button",client="board",outcome="aborted"} 1.0',
            'duet_answers_total{cause="",client="http",outcome="done"} 1.0',
            'duet_first_audio_seconds_count{client="board"} 2.0',
            'duet_first_audio_seconds_count{client="http"} 1.0',
            "duet_abort_to_stop_seconds_count 1.0",
            'duet_turn_wait_seconds_count{engine="tts"}',
            "duet_speech_seconds_total",
            "duet_llm_tokens_total",
        ):
            assert line in text, line


def test_figures_stay_bounded() -> None:
    metrics = Metrics(clock=lambda: 1.0)
    for number in range(MAX_OPEN + 100):
        metrics.emit("answer.start", generation=number, question="x")
        metrics.emit("abort", generation=number, cause="x")
    assert len(metrics._asked) == len(metrics._aborted) == MAX_OPEN
    for number in range(MAX_CAUSES + 20):
        metrics.emit("answer.end", generation=number, outcome="failed", cause=f"c{number}")
    text = metrics.render().decode()
    assert text.count("duet_answers_total{") == MAX_CAUSES + 1
    assert 'cause="other",client="http",outcome="failed"} 20.0' in text


# --- TLS


@pytest.fixture
def files(tmp_path: Path) -> tuple[ServerSection, trustme.CA]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    (tmp_path / "key.pem").write_bytes(certificate.private_key_pem.bytes())
    (tmp_path / "cert.pem").write_bytes(certificate.cert_chain_pems[0].bytes())
    section = ServerSection(
        tls_certificate=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "key.pem")
    )
    return section, authority


async def test_both_ports_speak_tls(
    files: tuple[ServerSection, trustme.CA], tmp_path: Path
) -> None:
    section, authority = files
    context = tls_context(section)
    assert context is not None
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with open_house(tmp_path) as house, trio.open_nursery() as nursery:
        server = HttpServer(make_app(house.site), section, context)
        boards = Boards(house.services, house.site.facts.of, access=house.access, tls=context)
        ports = []
        for handler in (server.serve, boards.serve):
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            ports.append(listeners[0].socket.getsockname()[1])
            await nursery.start(trio.serve_listeners, handler, listeners)
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", ports[0], ssl_context=trusting)
        async with stream:
            http = await begin(stream, "POST", "/speak", {"text": "Hello over TLS."})
            reply = await finish(stream, http)
            assert reply.status == 200
            assert len(reply.body) > 30_000
        plain = await trio.open_tcp_stream("127.0.0.1", ports[0])
        async with plain:
            await plain.send_all(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in await plain.receive_some()
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", ports[1], ssl_context=trusting)
        async with stream:
            await stream.send_all(
                b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            assert b" 101 " in await stream.receive_some()
        server.abandon()
        nursery.cancel_scope.cancel()


def test_files_that_cannot_be_used(files: tuple[ServerSection, trustme.CA], tmp_path: Path) -> None:
    good, _ = files
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    cases: list[tuple[ServerSection, type[UsageError], str]] = [
        (ServerSection(tls_key=good.tls_key), ConfigError, "tls_certificate"),
        (ServerSection(tls_certificate="/no/where.pem"), MissingFileError, "tls_certificate"),
        (
            ServerSection(tls_certificate=good.tls_certificate, tls_key="/no/where.pem"),
            MissingFileError,
            "tls_key",
        ),
        (ServerSection(tls_certificate=str(bad)), ConfigError, "PEM"),
        (ServerSection(tls_certificate=good.tls_certificate), ConfigError, "tls_key"),
    ]
    for section, error, word in cases:
        with pytest.raises(error, match=word) as caught:
            tls_context(section)
        assert "\n" not in str(caught.value)
    assert tls_context(ServerSection()) is None
