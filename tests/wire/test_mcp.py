"""The MCP client: numbering, paging, deadlines, and boards that answer oddly or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.wire import mcp
from duet_trio.wire.mcp import McpClient, Send, ToolAnswered, ToolsListed
from duet_trio.wire.messages import McpRequest
from duet_trio.wire.tools import safe_name

VOLUME: dict[str, Any] = {
    "name": "self.audio_speaker.set_volume",
    "description": "Set the volume.",
    "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
        "required": ["volume"],
    },
}
STATUS: dict[str, Any] = {
    "name": "self.get_device_status",
    "description": "Status.",
    "inputSchema": {"type": "object", "properties": {}},
}


def reply(request: McpRequest, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request.payload["id"], "result": result}


def listed(*entries: Any, **client: Any) -> McpClient:
    made = McpClient(**client)
    request = made.list_tools(0.0)
    made.receive(reply(request, {"tools": list(entries)}), 0.0)
    return made


def test_rule_12_ids_are_numbers_that_never_repeat() -> None:
    client = McpClient()
    requests = [client.start(0.0), client.list_tools(0.0), client.list_tools(0.0)]
    ids = [request.payload["id"] for request in requests]
    assert all(type(id) is int for id in ids)
    assert len(set(ids)) == 3
    assert all(request.payload["jsonrpc"] == "2.0" for request in requests)


def test_from_the_first_word_to_the_list_of_tools() -> None:
    client = McpClient()
    first = client.start(0.0)
    assert first.payload["method"] == "initialize"
    assert first.payload["params"]["capabilities"] == {}
    introduced, ask = client.receive(
        reply(first, {"serverInfo": {"name": "box-3", "version": "2.4.2"}}), 0.1
    )
    assert introduced == mcp.Initialised("box-3", "2.4.2")
    assert isinstance(ask, Send)
    assert ask.request.payload["method"] == "tools/list"
    (done,) = client.receive(reply(ask.request, {"tools": [STATUS, VOLUME]}), 0.2)
    assert isinstance(done, ToolsListed)
    assert done.complete
    assert [tool.name for tool in done.tools] == [STATUS["name"], VOLUME["name"]]
    assert client.next_deadline is None


def test_vision_is_offered_where_configured() -> None:
    request = McpClient(vision=("http://host:8003/vision", "tok")).start(0.0)
    assert request.payload["params"]["capabilities"] == {
        "vision": {"url": "http://host:8003/vision", "token": "tok"}
    }


def test_rule_12_pages_are_followed_until_the_cursor_is_gone() -> None:
    client = McpClient()
    request = client.list_tools(0.0)
    for number in range(4):
        (step,) = client.receive(
            reply(request, {"tools": [{"name": f"t{number}"}], "nextCursor": f"t{number + 1}"}), 0.0
        )
        assert isinstance(step, Send)
        request = step.request
        assert request.payload["params"] == {"cursor": f"t{number + 1}"}
    (done,) = client.receive(reply(request, {"tools": [{"name": "t4"}]}), 0.0)
    assert done == ToolsListed(client.tools)
    assert [tool.name for tool in client.tools] == ["t0", "t1", "t2", "t3", "t4"]


def test_a_cursor_that_turns_in_a_circle_ends_the_list() -> None:
    client = McpClient()
    request = client.list_tools(0.0)
    (step,) = client.receive(reply(request, {"tools": [STATUS], "nextCursor": "a"}), 0.0)
    assert isinstance(step, Send)
    assert client.receive(reply(step.request, {"tools": [VOLUME], "nextCursor": "a"}), 0.0) == [
        ToolsListed(client.tools, complete=False)
    ]
    assert len(client.tools) == 2


def test_endless_pages_and_endless_tools_are_bounded() -> None:
    client = McpClient()
    events: list[mcp.McpEvent] = [Send(client.list_tools(0.0))]
    pages = 0
    while isinstance(events[0], Send):
        tools = [{"name": f"p{pages}.{n}"} for n in range(10)]
        answer = {"tools": tools, "nextCursor": f"c{pages}"}
        events = client.receive(reply(events[0].request, answer), 0.0)
        pages += 1
    assert pages == mcp.MAX_PAGES
    assert len(client.tools) == mcp.MAX_TOOLS


def test_rule_12_no_reply_to_initialize_still_leads_to_the_tools() -> None:
    client = McpClient(reply_s=10.0)
    client.start(5.0)
    assert client.next_deadline == 8.0
    assert client.expire(7.9) == []
    (step,) = client.expire(8.0)
    assert isinstance(step, Send)
    assert step.request.payload["method"] == "tools/list"
    assert client.next_deadline == 18.0
    assert client.expire(18.0) == [ToolsListed((), complete=False)]
    assert client.next_deadline is None


def test_rule_12_a_call_without_an_answer_ends_and_its_late_reply_is_ignored() -> None:
    client = listed(VOLUME)
    id, request = client.call("self_audio_speaker_set_volume", {"volume": 3}, 100.0, reply_s=2.0)
    assert client.next_deadline == 102.0
    (answer,) = client.expire(102.0)
    assert answer == ToolAnswered(
        id, VOLUME["name"], "the device did not answer", is_error=True, timed_out=True
    )
    (late,) = client.receive(reply(request, {"content": []}), 103.0)
    assert isinstance(late, mcp.McpIgnored)


def test_a_forgotten_call_is_ignored() -> None:
    client = listed(STATUS)
    id, request = client.call("self.get_device_status", {}, 0.0)
    client.forget(id)
    client.forget(id)
    assert isinstance(client.receive(reply(request, {}), 0.0)[0], mcp.McpIgnored)
    assert client.expire(1e9) == []


def test_replies_find_their_calls_in_any_order() -> None:
    client = listed(VOLUME, STATUS)
    first, ask_first = client.call("self.get_device_status", {}, 0.0)
    second, ask_second = client.call("self_audio_speaker_set_volume", {"volume": 50}, 0.0)
    assert ask_second.payload["params"] == {"name": VOLUME["name"], "arguments": {"volume": 50}}
    text = {"content": [{"type": "text", "text": "true"}], "isError": False}
    assert client.receive(reply(ask_second, text), 0.0) == [
        ToolAnswered(second, VOLUME["name"], "true")
    ]
    parts = {"content": [{"type": "text", "text": "{}"}, {"type": "image", "data": "…"}, 5, {}]}
    assert client.receive(reply(ask_first, parts), 0.0) == [
        ToolAnswered(first, STATUS["name"], "{}\n[image]")
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "Unknown tool"}}, "Unknown tool"),  # stock: no code
        ({"error": {"code": -1}}, "the device refused"),
        ({"error": "no"}, "no"),
        ({"result": None}, "the device refused"),
        ({}, "the device refused"),
        ({"result": {"content": [{"type": "text", "text": "bad"}], "isError": True}}, "bad"),
    ],
)
def test_errors_in_every_shape(body: dict[str, Any], text: str) -> None:
    client = listed(STATUS)
    id, _request = client.call("self.get_device_status", {}, 0.0)
    assert client.receive({"id": id} | body, 0.0) == [
        ToolAnswered(id, STATUS["name"], text, is_error=True)
    ]


@pytest.mark.parametrize("id", [None, "1", True, 1.5, [], 99, float("inf")])
def test_ids_that_are_not_ours(id: Any) -> None:
    client = McpClient()
    client.start(0.0)
    assert isinstance(client.receive({"id": id, "result": {}}, 0.0)[0], mcp.McpIgnored)
    assert client.next_deadline is not None


def test_a_whole_float_is_the_same_id() -> None:
    client = McpClient()
    client.start(0.0)
    assert isinstance(client.receive({"id": 1.0, "result": {}}, 0.0)[0], mcp.Initialised)


def test_rule_12_only_listed_tools_can_be_called() -> None:
    client = listed(STATUS)
    for name in ("self.reboot", "self_reboot", ""):
        with pytest.raises(ValueError, match="no tool"):
            client.call(name, {}, 0.0)
    client.list_tools(0.0)
    with pytest.raises(ValueError, match="no tool"):
        client.call("self.get_device_status", {}, 0.0)


def test_rule_12_names_are_made_safe_and_found_both_ways() -> None:
    client = listed(VOLUME, {"name": "self_audio.speaker_set_volume"}, {"name": "灯.on"})
    assert [tool.safe_name for tool in client.tools] == [
        "self_audio_speaker_set_volume",
        "self_audio_speaker_set_volume_2",
        "__on",
    ]
    for tool in client.tools:
        assert client.tool(tool.safe_name) is tool
        assert client.tool(tool.name) is tool
    assert client.tools[0].as_function() == {
        "type": "function",
        "function": {
            "name": "self_audio_speaker_set_volume",
            "description": "Set the volume.",
            "parameters": VOLUME["inputSchema"],
        },
    }


@given(st.lists(st.text(min_size=1, max_size=80), max_size=12))
def test_safe_names_are_unique_and_fit(names: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        safe = safe_name(name, taken)
        assert safe not in taken
        assert 1 <= len(safe) <= 64
        assert all(c.isascii() and (c.isalnum() or c in "_-") for c in safe)
        taken.append(safe)


def test_unusable_entries_are_left_out_and_doubles_count_once() -> None:
    client = listed(None, {}, {"name": 5}, {"name": ""}, STATUS, STATUS, {"name": "bare"})
    assert [tool.name for tool in client.tools] == ["self.get_device_status", "bare"]
    assert client.tools[1].schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize("volume", [50, "50", 50.0, "50.0"])
def test_numbers_from_a_model(volume: Any) -> None:
    _id, request = listed(VOLUME).call("self.audio_speaker.set_volume", {"volume": volume}, 0.0)
    sent = request.payload["params"]["arguments"]["volume"]
    assert sent == 50
    assert type(sent) is int


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "missing"),
        ({"volume": "loud"}, "whole number"),
        ({"volume": 0.5}, "whole number"),
        ({"volume": True}, "whole number"),
        ({"volume": None}, "whole number"),
        ({"volume": "inf"}, "whole number"),
        ({"volume": "nan"}, "whole number"),
        ({"volume": 101}, "at most 100"),
        ({"volume": -1}, "at least 0"),
    ],
)
def test_arguments_that_the_board_would_not_answer(
    arguments: dict[str, Any], complaint: str
) -> None:
    client = listed(VOLUME)
    with pytest.raises(ValueError, match=complaint):
        client.call("self.audio_speaker.set_volume", arguments, 0.0)
    assert client.next_deadline is None


def test_booleans_texts_and_undeclared_arguments() -> None:
    schema = {"properties": {"on": {"type": "boolean"}, "text": {"type": "string"}, "any": 7}}
    client = listed({"name": "t", "inputSchema": schema})
    given_arguments = {"on": "True", "text": 5, "any": [1], "extra": 1}
    _id, request = client.call("t", given_arguments, 0.0)
    assert request.payload["params"]["arguments"] == {"on": True, "text": "5", "any": [1]}
    for wrong in ({"on": 1}, {"text": None}, {"text": True}):
        with pytest.raises(ValueError, match="must be"):
            client.call("t", wrong, 0.0)


def test_odd_schemas_do_no_harm() -> None:
    schema = {
        "properties": {"n": {"type": "integer", "minimum": "x", "maximum": None}},
        "required": [[], {}, 5],
    }
    _id, request = listed({"name": "t", "inputSchema": schema}).call("t", {"n": 3}, 0.0)
    assert request.payload["params"]["arguments"] == {"n": 3}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "result", "error", "message", "tools", "name", "content", "nextCursor",
                 "inputSchema", "properties", "required", "serverInfo", "text", "type"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip
payloads = st.fixed_dictionaries(
    {"id": st.integers(1, 6)}, optional={"result": json_values, "error": json_values}
) | json_values.filter(lambda value: isinstance(value, dict))


@given(st.lists(payloads, max_size=8), st.floats(0, 100))
@settings(max_examples=200, deadline=None)
def test_any_replies_are_taken(replies: list[dict[str, Any]], later: float) -> None:
    client = McpClient()
    client.start(0.0)
    for payload in replies:
        for event in client.receive(payload, 0.0):
            assert isinstance(
                event, Send | mcp.Initialised | ToolsListed | ToolAnswered | mcp.McpIgnored
            )
        for tool in client.tools:
            try:
                client.call(tool.safe_name, {}, 0.0)
            except ValueError:
                continue
    client.expire(later)
    for deadline in (200.0, 300.0, 400.0):
        client.expire(deadline)
    assert client.next_deadline is None
