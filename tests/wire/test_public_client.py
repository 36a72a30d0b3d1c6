"""The frames of a public Python client, in its order and spelling (facts of xiaozhi-sdk 0.5).

It opens with ``listen start`` at once, types through ``detect`` while its microphone runs,
aborts with an empty reason, and sends ``Bearer`` with nothing after it if it was given no token.
"""

from __future__ import annotations

import json
from typing import Any

from duet_trio.wire import board_state as b
from duet_trio.wire import messages as m
from duet_trio.wire.handshake import read_handshake
from duet_trio.wire.mcp import McpClient, Send, ToolsListed


def test_a_conversation_with_a_client_that_types_beside_its_microphone() -> None:
    headers = [("Authorization", "Bearer "), ("Protocol-Version", "1"), ("Device-Id", "aa:bb")]
    shake = read_handshake("/xiaozhi/v1/", headers, "made-up")
    assert (shake.token, shake.version) == ("", 1)
    board = b.BoardProtocol(frozenset(), shake.version)

    def take(**body: Any) -> b.BoardEvent:
        (event,) = board.receive_text(json.dumps(body))
        return event

    features = {"mcp": True, "consistent_sample_rate": False}
    audio = {"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 20}
    hello = take(type="hello", version=1, features=features, audio_params=audio)
    assert isinstance(hello, b.Greeted)
    assert board.features == {"mcp"}
    assert board.uplink_frame_ms == 20
    assert take(session_id="", type="listen", state="start", mode="auto") == (
        b.ListeningStarted("auto")
    )
    for _ in range(30):
        board.receive_bytes(b"opus")
    typed = take(session_id="", type="listen", state="detect", text="你好 🙂")
    assert typed == b.Question("你好 🙂")
    board.sent(m.TtsStart())
    board.receive_bytes(b"opus")  # it streams on while it is spoken to
    assert take(session_id="", type="abort", reason="") == b.AbortRequested("")
    board.sent(m.TtsStop())
    assert take(session_id="", type="listen", state="start", mode="auto") == (
        b.ListeningStarted("auto")
    )


def test_a_client_that_answers_initialize_only_with_vision_still_lists_its_tools() -> None:
    client = McpClient()
    client.start(0.0)
    deadline = client.next_deadline
    assert deadline is not None
    (step,) = client.expire(deadline)
    assert isinstance(step, Send)
    answer = {"jsonrpc": "2.0", "id": step.request.payload["id"], "result": {"tools": []}}
    assert client.receive(answer, deadline) == [ToolsListed(())]
