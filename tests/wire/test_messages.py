"""Messages: both directions round-trip, and nothing that a peer sends does more than PeerError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.errors import PeerError
from duet_trio.wire import messages as m

EXAMPLES: dict[type[m.Message], m.Message] = {
    m.Hello: m.Hello(
        version=3,
        features=frozenset({"mcp", "aec"}),
        audio_params=m.AudioParams(sample_rate=48_000, frame_duration=20),
    ),
    m.ListenStart: m.ListenStart(mode="realtime"),
    m.ListenStop: m.ListenStop(),
    m.Detect: m.Detect(text="hi, Lily"),
    m.Abort: m.Abort(reason="wake_word_detected"),
    m.Mcp: m.Mcp(payload={"jsonrpc": "2.0", "id": 1, "result": {}}),
    m.Ping: m.Ping(),
    m.Goodbye: m.Goodbye(),
    m.Other: m.Other(type="iot"),
    m.ServerHello: m.ServerHello(session_id="s-1"),
    m.Stt: m.Stt(text="what time is it"),
    m.TtsStart: m.TtsStart(),
    m.SentenceStart: m.SentenceStart(text="It is ten."),
    m.TtsStop: m.TtsStop(),
    m.Emotion: m.Emotion(emotion="happy", text="🙂"),
    m.Alert: m.Alert(status="Voice", message="The voice stopped responding."),
    m.McpRequest: m.McpRequest(payload={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    m.System: m.System(command="reboot"),
    m.Pong: m.Pong(),
}  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
TYPES = ("hello", "listen", "abort", "mcp", "ping", "tts", "stt", "llm", "alert", "system", "iot")
KEYS = ("state", "mode", "text", "reason", "payload", "version", "features", "audio_params",
        "transport", "session_id", "emotion", "status", "message", "command")  # fmt: skip


@st.composite
def likely_messages(draw: st.DrawFn) -> str:
    """A known type, known field names, any values: deeper into the readers than plain noise."""
    body: dict[str, Any] = draw(
        st.dictionaries(
            st.sampled_from(KEYS),
            json_values | st.sampled_from(["start", "stop", "detect", "websocket", "manual", "60"]),
        )
    )
    body["type"] = draw(st.sampled_from(TYPES) | json_values)
    audio = st.dictionaries(st.sampled_from(["sample_rate", "frame_duration"]), json_values)
    if draw(st.booleans()):
        body["audio_params"] = draw(audio)
    return json.dumps(body)


def test_every_class_has_an_example() -> None:
    assert set(EXAMPLES) == {*m.BOARD_MESSAGES, *m.SERVER_MESSAGES}


@pytest.mark.parametrize("kind", m.BOARD_MESSAGES, ids=lambda kind: kind.__name__)
def test_every_board_message_round_trips(kind: type[m.Message]) -> None:
    message: Any = EXAMPLES[kind]
    assert m.parse_board_text(m.encode(message, "s-1")) == message


@pytest.mark.parametrize("kind", m.SERVER_MESSAGES, ids=lambda kind: kind.__name__)
def test_every_server_message_round_trips(kind: type[m.Message]) -> None:
    message: Any = EXAMPLES[kind]
    assert m.parse_server_text(m.encode(message, "s-1")) == message


@pytest.mark.parametrize("kinds", [m.BOARD_MESSAGES, m.SERVER_MESSAGES], ids=["board", "server"])
def test_trace_names_are_there_and_unique(kinds: tuple[type[m.Message], ...]) -> None:
    names = [kind.name for kind in kinds]
    assert all(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("message", EXAMPLES.values(), ids=lambda message: type(message).__name__)
def test_type_and_session_id_are_always_strings(message: Any) -> None:
    body = json.loads(m.encode(message, "s-1"))
    assert isinstance(body["type"], str)
    if not isinstance(message, m.Hello):
        assert body["session_id"] == "s-1"


@given(st.text(max_size=200) | likely_messages() | json_values.map(json.dumps))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_message_or_a_peer_error(text: str) -> None:
    for parse in (m.parse_board_text, m.parse_server_text):
        try:
            message: Any = parse(text)
        except PeerError:
            continue
        # What was understood can be said again, and means the same.
        if not isinstance(message, m.Other):
            assert parse(m.encode(message, "")) == message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        '"hello"',
        "null",
        "{}",
        '{"type": 5}',
        '{"type": null}',
        '{"type": "hello"',
        '{"type": "listen"}',
        '{"type": "listen", "state": "sideways"}',
        '{"type": "listen", "state": {}}',
        '{"type": "mcp"}',
        '{"type": "mcp", "payload": [1]}',
        "[" * 100_000,
        '{"type":' + '{"a":' * 50_000,
        '{"type": "\ud800',
        '{"type": "hello", "pad": "' + "x" * 2_000_000 + '"}',
    ],
    ids=lambda text: text[:30] or "empty",
)
def test_unusable_text_from_a_board_is_a_peer_error(text: str) -> None:
    with pytest.raises(PeerError):
        m.parse_board_text(text)


def test_limit_is_in_characters_and_inclusive() -> None:
    frame = '{"type":"ping","pad":""}'
    longest = frame.replace('""', '"' + "x" * (m.MAX_TEXT_LENGTH - len(frame)) + '"')
    assert m.parse_board_text(longest) == m.Ping()
    with pytest.raises(PeerError):
        m.parse_board_text(longest + " ")


def test_a_bare_hello_gets_the_stock_defaults() -> None:
    hello = m.parse_board_text('{"type":"hello"}')
    assert hello == m.Hello(version=0, features=frozenset(), audio_params=m.AudioParams())
    assert isinstance(hello, m.Hello)
    assert hello.audio_params == m.AudioParams("opus", 16_000, 1, 60)


def test_the_hello_of_a_stock_board() -> None:
    hello = m.parse_board_text(
        '{"type":"hello","version":1,"features":{"mcp":true,"aec":false,"glyph_push":true},'
        '"transport":"websocket","audio_params":{"format":"opus","sample_rate":16000,'
        '"channels":1,"frame_duration":60},"text_font":{"bundle":"x","size":20,"bpp":4}}'
    )
    assert hello == m.Hello(version=1, features=frozenset({"mcp", "glyph_push"}))


@pytest.mark.parametrize(
    ("given_ms", "understood_ms"),
    [(20, 20), ("20", 20), (60.0, 60), (True, 60), (0, 60), (-5, 60), (10**400, 60), (None, 60)],
)
def test_numbers_written_oddly(given_ms: Any, understood_ms: int) -> None:
    body = {"type": "hello", "audio_params": {"frame_duration": given_ms}}
    hello = m.parse_board_text(json.dumps(body))
    assert isinstance(hello, m.Hello)
    assert hello.audio_params.frame_duration == understood_ms


def test_a_rate_that_opus_lacks_falls_back() -> None:
    hello = m.parse_board_text('{"type":"hello","audio_params":{"sample_rate":44100}}')
    assert isinstance(hello, m.Hello)
    assert hello.audio_params.sample_rate == 16_000


@pytest.mark.parametrize("session", ['"session_id":"",', '"session_id":"other",',
                                     '"session_id":7,', ""])  # fmt: skip
def test_rule_4_foreign_empty_or_no_session_id(session: str) -> None:
    text = f'{{{session}"type":"listen","state":"start","mode":"manual"}}'
    assert m.parse_board_text(text) == m.ListenStart(mode="manual")


@pytest.mark.parametrize("mode", ["", "AUTO", "whatever", None, 3])
def test_an_unknown_mode_is_auto(mode: Any) -> None:
    text = json.dumps({"type": "listen", "state": "start", "mode": mode})
    assert m.parse_board_text(text) == m.ListenStart(mode="auto")


def test_abort_without_a_reason_and_with_an_empty_one() -> None:
    assert m.parse_board_text('{"type":"abort"}') == m.Abort()
    assert m.parse_board_text('{"type":"abort","reason":""}') == m.Abort()
    assert "reason" not in json.loads(m.encode(m.Abort(), ""))


def test_mcp_payload_as_a_json_string() -> None:
    text = json.dumps({"type": "mcp", "payload": '{"id": 4}'})
    assert m.parse_board_text(text) == m.Mcp(payload={"id": 4})


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"hello","session_id":"a"}',  # crashes a board
        '{"type":"hello","transport":"udp"}',
        '{"type":"hello","transport":"websocket","audio_params":{"frame_duration":30}}',
        '{"type":"hello","transport":"websocket","audio_params":{"sample_rate":44100}}',
        '{"type":"tts"}',
        '{"type":"tts","state":1}',
        '{"type":"tts","state":"sentence_start"}',
        '{"type":"stt","text":null}',
        '{"type":"llm"}',
        '{"type":"alert","status":"a","message":"b"}',
        '{"type":"system"}',
        '{"type":"mcp","payload":null}',
    ],
)
def test_what_would_hurt_a_board_is_refused_by_its_reader(text: str) -> None:
    with pytest.raises(PeerError):
        m.parse_server_text(text)


def test_rule_2_server_hello_says_websocket_and_the_real_parameters() -> None:
    body = json.loads(m.encode(m.ServerHello(session_id="abc"), "ignored"))
    assert body == {
        "type": "hello",
        "transport": "websocket",
        "session_id": "abc",
        "audio_params": {
            "format": "opus",
            "sample_rate": 24_000,
            "channels": 1,
            "frame_duration": 60,
        },
    }


def test_an_alert_always_has_its_three_strings() -> None:
    body = json.loads(m.encode(m.Alert(status="", message=""), ""))
    assert all(isinstance(body[key], str) for key in ("status", "message", "emotion"))


def test_text_that_is_not_unicode_is_sent_all_the_same() -> None:
    message = m.parse_server_text(m.encode(m.Stt(text="a\ud800b"), "s"))
    assert message == m.Stt(text="a?b")
    nested = m.McpRequest(payload={"\udfff": ["\ud800", 1]})
    assert m.parse_server_text(m.encode(nested, "s")) == m.McpRequest(payload={"?": ["?", 1]})


def test_unknown_types_are_kept_by_name_in_both_directions() -> None:
    assert m.parse_board_text('{"type":"iot","update":true}') == m.Other(type="iot")
    assert m.parse_server_text('{"type":"custom","payload":{}}') == m.Other(type="custom")
    assert m.parse_server_text('{"type":"tts","state":"sentence_end"}') == m.Other(type="tts")
