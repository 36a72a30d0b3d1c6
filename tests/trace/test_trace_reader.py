"""Reading: what a crash or another version leaves behind is counted, never raised."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.errors import MissingFileError, UsageError
from duet_trio.trace import reader
from duet_trio.trace.reader import TraceFile, parse_line, read

GOOD = b'{"t":1,"event":"llm.first","board":null,"generation":3}\n'


def write(tmp_path: Path, data: bytes) -> TraceFile:
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    return TraceFile(path)


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_an_event_or_nothing(line: bytes) -> None:
    assert parse_line(line) is None or b"event" in line


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("t", "event", "board", "generation", "x"), json_values)
    )
)
@settings(max_examples=300, deadline=None)
def test_an_event_has_its_four_common_fields_in_their_types(fields: dict[str, object]) -> None:
    event = parse_line(json.dumps(fields).encode())
    if event is None:
        return
    assert isinstance(event["t"], float)
    assert isinstance(event["event"], str)
    assert isinstance(event["board"], str | None)
    assert isinstance(event["generation"], int | None)


def test_damage_is_counted_and_skipped(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        GOOD
        + b"\0\0\0\n"
        + b"[1]\n"
        + b"\n"
        + b'{"t":"x","event":"a"}\n'
        + b"[" * 99_999
        + b"\n"
        + b'{"t":'
        + b"9" * 400
        + b',"event":"a"}\n'
        + GOOD
        + GOOD[:-20],
    )
    assert len(list(file)) == 2
    assert (file.events, file.bad_lines, file.truncated) == (2, 5, True)


def test_a_last_line_that_only_lacks_its_newline_counts(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD + GOOD.rstrip())
    assert len(list(file)) == 2
    assert not file.truncated


def test_a_line_without_end_is_one_bad_line_in_flat_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LONGEST_LINE", 1000)
    file = write(tmp_path, GOOD + b"\0" * 500_000 + b"\n" + GOOD)
    tracemalloc.start()
    events = len(list(file))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (events, file.bad_lines) == (2, 1)
    assert peak < 300_000


def test_unknown_events_and_fields_of_a_later_minor_version_pass(tmp_path: Path) -> None:
    start = b'{"t":0,"event":"trace.start","format":"1.7","moon":"full"}\n'
    file = write(tmp_path, start + b'{"t":1,"event":"tea.ready","sugar":[1,2]}\n')
    first, second = file
    assert first["moon"] == "full"
    assert second["generation"] is None
    assert file.unknown == {"tea.ready"}


def test_an_early_trace_start_without_a_format_passes(tmp_path: Path) -> None:
    assert len(list(write(tmp_path, b'{"t":0,"event":"trace.start"}\n'))) == 1


def test_another_major_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"trace format 2\.0") as caught:
        list(write(tmp_path, b'{"t":0,"event":"trace.start","format":"2.0"}\n'))
    assert "\n" not in str(caught.value)


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        path.write_bytes(GOOD.replace(b"3", str(number).encode()))
    assert [event["generation"] for event in read(*paths)] == [0, 1]


def test_missing_and_unreadable_files_say_so_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such trace"):
        list(read(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be read"):
        list(read(tmp_path))
