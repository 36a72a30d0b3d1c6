"""The server's view of one board: the transition table, and the rules that the wire can show."""

from __future__ import annotations

import itertools
import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.wire import board_state as b
from duet_trio.wire import messages as m
from duet_trio.wire.board_state import BoardProtocol, Signal, State
from duet_trio.wire.framing import pack

HELLO = '{"type":"hello","version":1,"features":{"mcp":true},"transport":"websocket"}'


def board(*wake_words: str, version: int | None = None, greeted: bool = True) -> BoardProtocol:
    protocol = BoardProtocol(frozenset(wake_words), version)
    if greeted:
        protocol.receive_text(HELLO)
    return protocol


def say(protocol: BoardProtocol, message: m.BoardMessage) -> list[b.BoardEvent]:
    return protocol.receive_text(m.encode(message, "s"))


# --- the table ------------------------------------------------------------------------------


def test_the_table_is_total_and_holds_nothing_else() -> None:
    assert set(b.TRANSITIONS) == set(itertools.product(State, Signal))
    assert set(b.TRANSITIONS.values()) == set(State)


def test_every_state_can_be_left_towards_rest() -> None:
    for state in State:
        quiet = b.TRANSITIONS[b.TRANSITIONS[state, Signal.CLOSE], Signal.ANSWER_OVER]
        assert quiet is State.IDLE


@pytest.mark.parametrize("state", State)
def test_no_state_survives_tts_stop_as_speaking(state: State) -> None:
    after = b.TRANSITIONS[state, Signal.ANSWER_OVER]
    assert after in (State.IDLE, State.LISTENING, State.STREAMING)


SENT: dict[Signal, m.BoardMessage | m.ServerMessage] = {
    Signal.OPEN: m.ListenStart(mode="auto"),
    Signal.OPEN_REALTIME: m.ListenStart(mode="realtime"),
    Signal.CLOSE: m.ListenStop(),
    Signal.ANSWER: m.TtsStart(),
    Signal.ANSWER_OVER: m.TtsStop(),
}


@given(st.lists(st.sampled_from(Signal), max_size=12))
def test_the_protocol_follows_the_table(signals: list[Signal]) -> None:
    protocol, state = board(), State.IDLE
    for signal in signals:
        message: Any = SENT[signal]
        if signal in (Signal.ANSWER, Signal.ANSWER_OVER):
            protocol.sent(message)
        else:
            say(protocol, message)
        state = b.TRANSITIONS[state, signal]
        assert protocol.state is state
        assert protocol.speaking is (state in (State.SPEAKING, State.OVERLAP, State.DUPLEX))
        assert protocol.listening is (state not in (State.IDLE, State.SPEAKING))


# --- never an exception ---------------------------------------------------------------------

frames = (
    st.text(max_size=60)
    | st.binary(max_size=40)
    | st.sampled_from([json.loads(HELLO), {"type": "ping"}, {"type": "iot"}, {"type": "goodbye"}])
    .map(json.dumps)
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["listen", "abort", "mcp", "hello"])},
        optional={
            "state": st.sampled_from(["start", "stop", "detect", "?"]) | st.integers(),
            "mode": st.sampled_from(["auto", "manual", "realtime", "?"]) | st.none(),
            "text": st.text(max_size=9) | st.integers() | st.lists(st.integers(), max_size=1),
            "payload": st.dictionaries(st.text(max_size=3), st.integers()) | st.none(),
            "version": st.integers() | st.text(max_size=2),
            "audio_params": st.dictionaries(
                st.sampled_from(["sample_rate", "frame_duration"]), st.integers() | st.text()
            ),
        },
    ).map(json.dumps)
)  # fmt: skip
server_messages = st.sampled_from(
    [m.TtsStart(), m.TtsStop(), m.Stt(text="x"), m.ServerHello(session_id="s")]
)


@given(st.sampled_from([None, 1, 2, 3]), st.lists(frames | server_messages, max_size=25))
@settings(max_examples=200, deadline=None)
def test_any_sequence_gives_events_and_never_raises(version: int | None, steps: list[Any]) -> None:
    protocol = board(version=version, greeted=False)
    greetings = 0
    for step in steps:
        if isinstance(step, str):
            events = protocol.receive_text(step)
        elif isinstance(step, bytes):
            events = protocol.receive_bytes(step)
        else:
            protocol.sent(step)
            continue
        assert len(events) == 1
        assert isinstance(events[0], get_args(b.BoardEvent))
        greetings += isinstance(events[0], b.Greeted)
        assert protocol.version in (1, 2, 3)
        assert protocol.uplink_rate_hz in m.OPUS_RATES_HZ
        assert 1 <= protocol.uplink_frame_ms <= 120
    assert greetings == protocol.greeted


@pytest.mark.parametrize("kind", m.BOARD_MESSAGES, ids=lambda kind: kind.__name__)
def test_every_board_message_has_a_rule(kind: type[m.Message]) -> None:
    fields: dict[str, Any] = {"payload": {}} if kind is m.Mcp else {}
    if kind is m.Other:
        fields = {"type": "iot"}
    message: Any = kind(**fields)
    assert not isinstance(say(board(greeted=False), message)[0], b.BadInput)


# --- hello ----------------------------------------------------------------------------------


def test_rule_2_the_first_hello_is_reported_once() -> None:
    assert not board(greeted=False).greeted
    protocol = board(greeted=False)
    (event,) = protocol.receive_text(HELLO)
    assert event == b.Greeted(m.Hello(version=1, features=frozenset({"mcp"})))
    assert protocol.greeted
    assert protocol.features == {"mcp"}


def test_a_second_hello_changes_nothing() -> None:
    protocol = board()
    (event,) = protocol.receive_text(
        '{"type":"hello","version":3,"audio_params":{"frame_duration":20}}'
    )
    assert event == b.Ignored("a second hello")
    assert (protocol.version, protocol.uplink_frame_ms) == (1, 60)
    assert protocol.features == {"mcp"}


@pytest.mark.parametrize(
    ("request_says", "hello_says", "used"),
    [(None, 0, 1), (None, 3, 3), (2, 0, 2), (1, 3, 1), (3, 1, 3)],
)
def test_rule_3_framing_follows_the_request_then_the_hello(
    request_says: int | None, hello_says: int, used: int
) -> None:
    protocol = board(version=request_says, greeted=False)
    say(protocol, m.Hello(version=hello_says))
    assert protocol.version == used
    assert protocol.receive_bytes(pack(used, b"opus", 9)) == [
        b.Audio(b"opus", 9 if used == 2 else 0)
    ]


def test_rule_3_one_bad_packet_never_ends_the_session() -> None:
    protocol = board(version=3)
    (event,) = protocol.receive_bytes(b"\0\0\0\x09short")
    assert isinstance(event, b.BadInput)
    assert "9 bytes" in event.error
    assert protocol.receive_bytes(pack(3, b"good")) == [b.Audio(b"good")]


def test_bad_text_is_an_event_and_the_session_goes_on() -> None:
    protocol = board()
    for text in ("{", "[]", '{"type":1}', "x" * 2_000_000):
        (event,) = protocol.receive_text(text)
        assert isinstance(event, b.BadInput)
        assert len(event.error) < 300
    assert say(protocol, m.Ping()) == [b.Pinged()]


# --- audio in every state -------------------------------------------------------------------


def test_rule_4_audio_before_hello_before_start_after_stop_and_while_speaking() -> None:
    protocol = board(greeted=False)
    heard = protocol.receive_bytes(b"1")
    protocol.receive_text(HELLO)
    heard += protocol.receive_bytes(b"2")
    say(protocol, m.ListenStart(mode="manual"))
    heard += protocol.receive_bytes(b"3")
    say(protocol, m.ListenStop())
    heard += protocol.receive_bytes(b"4")
    protocol.sent(m.TtsStart())
    heard += protocol.receive_bytes(b"")
    assert heard == [b.Audio(b"1"), b.Audio(b"2"), b.Audio(b"3"), b.Audio(b"4"), b.Audio(b"")]


def test_rule_4_twenty_ms_packets() -> None:
    protocol = board(greeted=False)
    protocol.receive_text('{"type":"hello","audio_params":{"frame_duration":20}}')
    assert (protocol.uplink_rate_hz, protocol.uplink_frame_ms) == (16_000, 20)


@pytest.mark.parametrize("session_id", ["", "somebody else's", None])
def test_rule_4_session_ids_do_not_matter(session_id: str | None) -> None:
    text = json.dumps({"type": "listen", "state": "stop", "session_id": session_id})
    assert board().receive_text(text) == [b.ListeningStopped()]


# --- listening ------------------------------------------------------------------------------


def test_rule_5_manual_ends_with_listen_stop_and_the_mode_is_known() -> None:
    protocol = board()
    assert say(protocol, m.ListenStart(mode="manual")) == [b.ListeningStarted("manual")]
    assert (protocol.mode, protocol.listening) == ("manual", True)
    assert say(protocol, m.ListenStop()) == [b.ListeningStopped()]
    assert (protocol.mode, protocol.listening) == ("manual", False)


def test_listen_stop_counts_even_without_a_start() -> None:
    assert say(board(), m.ListenStop()) == [b.ListeningStopped()]


def test_listen_stop_during_an_answer_means_nothing() -> None:
    protocol = board()
    protocol.sent(m.TtsStart())
    assert say(protocol, m.ListenStop()) == [b.Ignored("listen stop during an answer")]
    assert protocol.speaking


def test_an_auto_board_closes_its_microphone_for_the_answer_and_asks_again() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="auto"))
    protocol.sent(m.TtsStart())
    assert (protocol.listening, protocol.speaking) == (False, True)
    protocol.sent(m.TtsStop())
    assert (protocol.listening, protocol.speaking) == (False, False)
    assert say(protocol, m.ListenStart(mode="auto")) == [b.ListeningStarted("auto")]


def test_rule_10_a_realtime_board_listens_through_and_after_the_answer_untold() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="realtime"))
    for _ in range(3):
        protocol.sent(m.TtsStart())
        assert (protocol.listening, protocol.speaking) == (True, True)
        protocol.sent(m.TtsStop())
        assert (protocol.listening, protocol.speaking) == (True, False)
    assert protocol.mode == "realtime"


def test_a_talk_key_during_an_answer() -> None:
    protocol = board()
    protocol.sent(m.TtsStart())
    assert say(protocol, m.Abort()) == [b.AbortRequested("")]
    assert say(protocol, m.ListenStart(mode="manual")) == [b.ListeningStarted("manual")]
    assert (protocol.listening, protocol.speaking) == (True, True)
    protocol.sent(m.TtsStop())
    assert (protocol.listening, protocol.speaking) == (True, False)


@pytest.mark.parametrize("state", ["idle", "listening", "speaking"])
def test_rule_6_an_abort_is_reported_in_every_state(state: str) -> None:
    protocol = board()
    if state == "listening":
        say(protocol, m.ListenStart())
    elif state == "speaking":
        protocol.sent(m.TtsStart())
    assert say(protocol, m.Abort(reason="wake_word_detected")) == [
        b.AbortRequested("wake_word_detected")
    ]
    protocol.sent(m.TtsStop())  # the bare one that must follow at once
    assert not protocol.speaking


def test_rule_6_an_extra_tts_stop_is_harmless() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="auto"))
    protocol.sent(m.TtsStop())
    assert (protocol.listening, protocol.speaking) == (True, False)


@pytest.mark.parametrize("first", [m.ListenStart(), m.Detect(text="hello")])
def test_rule_7_a_board_may_be_spoken_to_only_after_its_first_listen(
    first: m.BoardMessage,
) -> None:
    protocol = board()
    protocol.receive_bytes(b"wake word burst")
    say(protocol, m.Mcp(payload={}))
    assert not protocol.may_speak
    say(protocol, first)
    assert protocol.may_speak


# --- detect ---------------------------------------------------------------------------------


def test_detect_after_a_burst_is_the_wake_word() -> None:
    protocol = board()
    for _ in range(33):
        protocol.receive_bytes(b"opus")
    assert say(protocol, m.Detect(text="你好小智")) == [b.WakeWord("你好小智")]
    assert say(protocol, m.ListenStart(mode="auto")) == [b.ListeningStarted("auto")]


def test_a_burst_counts_once() -> None:
    protocol = board()
    protocol.receive_bytes(b"opus")
    assert say(protocol, m.Detect(text="computer")) == [b.WakeWord("computer")]
    assert say(protocol, m.Detect(text="what time is it?")) == [b.Question("what time is it?")]


def test_a_burst_before_the_hello_counts() -> None:
    protocol = board(greeted=False)
    protocol.receive_bytes(b"opus")
    protocol.receive_text(HELLO)
    assert say(protocol, m.Detect(text="computer")) == [b.WakeWord("computer")]


def test_detect_without_a_burst_is_typed() -> None:
    assert say(board(), m.Detect(text=" tell me a story ")) == [b.Question("tell me a story")]


def test_typed_after_listen_start_manual() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="manual"))
    assert say(protocol, m.Detect(text="hi there")) == [b.Question("hi there")]


@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
def test_typed_beside_an_open_microphone(mode: m.ListenMode) -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode=mode))
    for _ in range(50):
        protocol.receive_bytes(b"room noise")
    assert say(protocol, m.Detect(text="typed")) == [b.Question("typed")]


@pytest.mark.parametrize("late", [0, 1, b.LATE_PACKETS])
def test_late_packets_after_listen_stop_are_no_burst(late: int) -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="manual"))
    say(protocol, m.ListenStop())
    for _ in range(late):
        protocol.receive_bytes(b"late")
    assert say(protocol, m.Detect(text="typed")) == [b.Question("typed")]


def test_packets_in_flight_when_the_answer_began_are_no_burst() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="auto"))
    protocol.sent(m.TtsStart())
    for _ in range(10):
        protocol.receive_bytes(b"in flight")
    protocol.sent(m.TtsStop())
    assert say(protocol, m.Detect(text="typed")) == [b.Question("typed")]


@pytest.mark.parametrize(("frame_ms", "packets"), [(60, 84), (20, 251)])
def test_an_endless_stream_is_no_burst(frame_ms: int, packets: int) -> None:
    protocol = board(greeted=False)
    say(protocol, m.Hello(audio_params=m.AudioParams(frame_duration=frame_ms)))
    for _ in range(packets):
        protocol.receive_bytes(b"room noise")
    assert say(protocol, m.Detect(text="typed")) == [b.Question("typed")]
    for _ in range(packets - 1):
        protocol.receive_bytes(b"wake word")
    assert say(protocol, m.Detect(text="computer")) == [b.WakeWord("computer")]


def test_a_wake_word_after_a_turn_of_push_to_talk() -> None:
    protocol = board()
    say(protocol, m.ListenStart(mode="manual"))
    say(protocol, m.ListenStop())
    for _ in range(b.LATE_PACKETS + 1):
        protocol.receive_bytes(b"opus")
    assert say(protocol, m.Detect(text="computer")) == [b.WakeWord("computer")]


@pytest.mark.parametrize("text", ["Hi, Lily!", "hi lily", "ＨＩ ＬＩＬＹ"])
def test_configured_wake_words_need_no_burst(text: str) -> None:
    assert say(board("hi lily"), m.Detect(text=text)) == [b.WakeWord(text)]
    assert say(board("hi lily"), m.Detect(text=text + " how are you")) == [
        b.Question(text + " how are you")
    ]


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_detect_is_never_a_question(text: str) -> None:
    assert say(board(), m.Detect(text=text)) == [b.WakeWord("")]


def test_punctuation_alone_matches_no_wake_word() -> None:
    assert say(board("!"), m.Detect(text="?")) == [b.Question("?")]


# --- the rest -------------------------------------------------------------------------------


def test_pings_mcp_goodbye_and_unknown() -> None:
    protocol = board()
    assert say(protocol, m.Ping()) == [b.Pinged()]
    assert say(protocol, m.Mcp(payload={"id": 1})) == [b.McpReply({"id": 1})]
    assert say(protocol, m.Goodbye()) == [b.Ignored("goodbye")]
    assert say(protocol, m.Other(type="iot")) == [b.Ignored("a message of type 'iot'")]
    assert protocol.state is State.IDLE
