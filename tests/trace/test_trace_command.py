"""``duet trace``: the commands as a user meets them."""

from __future__ import annotations

import argparse
import builtins
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duet_trio.errors import MissingFileError, MissingLibraryError, UsageError
from duet_trio.trace.command import register
from duet_trio.trace.follow import follow, tail

GOLDEN = Path(__file__).parent / "golden"
TURNS, OVERLAP, ABORTS = (str(GOLDEN / f"{name}.jsonl") for name in ("turns", "overlap", "aborts"))


def duet(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="duet")
    register(parser.add_subparsers(required=True))
    args = parser.parse_args(["trace", *words])
    code = args.func(args)
    assert isinstance(code, int)
    return code


def test_summary_in_its_three_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert duet("summary", TURNS, OVERLAP, "--answers", "--buffer-ms", "500") == 0
    text = capsys.readouterr().out
    assert "player of 500 ms" in text
    assert "peak memory, server without its workers" in text  # each worker has its own
    assert duet("summary", TURNS, "--json") == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["statistics"]["figures"]["first_audio_s"]["median"] == pytest.approx(0.8502)
    assert duet("summary", TURNS, OVERLAP, "--csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(UsageError, match="one of them"):
        duet("summary", TURNS, "--csv", "--json")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b'{"t":1,"event":"llm.fi', "only a cut-off line"),
        (b"[server]\nport = 1\n", "no trace"),
        (b'{"t":1,"event":"tea.ready"}\n', "no trace"),
        (b"\x7fELF\0\0\xff" * 1000, "no trace"),
        (b"x\n" * 20_000, "no trace"),
    ],
)
@pytest.mark.parametrize(
    "command", ["summary", "summary --json", "summary --csv", "replay", "plot"]
)
def test_what_is_no_trace_is_one_line(
    command: str, content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    words = command.split() + ["-o", str(tmp_path / "out.svg")] * (command == "plot")
    with pytest.raises(UsageError, match=problem) as caught:
        duet(*words, str(path))
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "command", ["summary", "summary --json", "summary --csv", "replay", "plot"]
)
def test_a_torn_last_line_is_said_and_the_rest_counts(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(Path(TURNS).read_bytes() + b'{"t":90.0,"eve')
    if command == "plot":
        pytest.importorskip("matplotlib")
    words = command.split() + ["-o", str(tmp_path / "out.svg")] * (command == "plot")
    assert duet(*words, str(path)) == 0
    said = capsys.readouterr()
    assert "the last line is cut off" in said.out + said.err
    if command in ("summary --csv", "replay"):
        assert "cut off" not in said.out


def test_follow_takes_an_empty_file_but_no_other_kind(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.touch()
    new = b'{"t":1,"event":"llm.first"}\n'
    assert [one["event"] for one in tail(path, wait=Writer(path, [new]))] == ["llm.first"]
    path.write_bytes(b"[server]\nport = 1\n")
    with pytest.raises(UsageError, match="no trace"):
        list(tail(path, wait=Writer(path, [])))


@pytest.mark.parametrize("command", ["summary", "follow", "replay"])
def test_a_missing_file_is_one_line(command: str, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError) as caught:
        duet(command, str(tmp_path / "none"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ("summary", TURNS, "--buffer-ms", "-1"),
        ("replay", TURNS, "--lead", "0"),
        ("replay", TURNS, "--lead", "2.5"),
        ("replay", TURNS, "--hold-back-s", "nan"),
    ],
)
def test_values_out_of_range_are_bad_use(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        duet(*words)
    assert caught.value.code == 2


def test_replay_shows_what_holding_back_costs(capsys: pytest.CaptureFixture[str]) -> None:
    burst = str(GOLDEN / "burst.jsonl")
    assert duet("replay", burst, "--hold-back-s", "1.2") == 0
    assert "stalls 1 (130 ms" in capsys.readouterr().out
    assert duet("replay", burst, "--json", "--lead", "2") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["lead"], found["replayed"]["stalls"]) == (2, [])
    with pytest.raises(UsageError, match="no answer with audio"):
        duet("replay", burst, "--generation", "7")


# Plot ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plots_are_written(tmp_path: Path, suffix: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    output = tmp_path / f"out.{suffix}"
    assert duet("plot", TURNS, OVERLAP, "-o", str(output)) == 0
    assert output.read_bytes().startswith(magic)


def test_an_svg_shows_lanes_titles_aborts_and_hatching(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    output = tmp_path / "out.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        duet("plot", OVERLAP, ABORTS, "--title", "both at once", "--title", "x", "-o", str(output))
    text = output.read_text()
    for word in (
        "LLM",
        "TTS",
        "PCM",
        "packets",
        "playback",
        "both at once",
        "abort: barge-in",
        "failed: the voice stopped responding",
        "ran dry 18x",
    ):
        assert word in text
    assert "<pattern" in text  # the hatch: told without colours


def http_answers(count: int) -> bytes:
    lines = [
        f'{{"t":{90 + number},"event":"{event}","board":null,"client":"c{number}",'
        f'"generation":{100 + number}}}\n'
        for number in range(count)
        for event in ("answer.start", "answer.end")
    ]
    return "".join(lines).encode()


def test_only_boards_have_panels(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    trace, output = tmp_path / "t.jsonl", tmp_path / "out.svg"
    trace.write_bytes(Path(TURNS).read_bytes() + http_answers(18))
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert duet("plot", str(trace), "-o", str(output)) == 0
    text = output.read_text()
    assert "and 18 answers over HTTP, not drawn" in text
    assert text.count(">playback<") == 1
    trace.write_bytes(http_answers(18))
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert duet("plot", str(trace), "-o", str(output)) == 0
    text = output.read_text()
    assert "not drawn" not in text
    assert text.count(">playback<") == 1


def test_an_answer_that_never_dried_has_no_marks(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    output = tmp_path / "out.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        duet("plot", TURNS, "-o", str(output))
    assert "never ran dry" in output.read_text()


def test_plot_without_matplotlib_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real: Callable[..., Any] = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingLibraryError, match=r"duet-trio\[plot\]") as caught:
        duet("plot", TURNS, "-o", str(tmp_path / "out.png"))
    assert "\n" not in str(caught.value)


def test_bad_uses_of_plot_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = str(tmp_path / "out.png")
    for words, problem in [
        ((TURNS, TURNS, TURNS, "-o", out), "one or two files"),
        ((TURNS, "--title", "a", "--title", "b", "-o", out), "once per file"),
        ((TURNS, "--generation", "9", "-o", out), "no answer to draw"),
        ((TURNS, "-o", str(tmp_path / "out.tea")), "use .png"),
        ((TURNS, "-o", str(tmp_path / "none" / "out.png")), "cannot be written"),
    ]:
        with pytest.raises(UsageError, match=problem):
            duet("plot", *words)


def test_the_other_commands_do_not_load_matplotlib() -> None:
    import subprocess

    script = (
        "import sys, duet_trio.trace.command as c; "
        "sys.exit(any(n.startswith(('matplotlib', 'trio.', 'numpy')) for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# Follow ----------------------------------------------------------------------------------------


class Writer:
    """Appends to the file each time that the reader waits; ends when nothing is left."""

    def __init__(self, path: Path, chunks: list[bytes | Callable[[], object]]) -> None:
        self.path = path
        self.chunks = chunks

    def __call__(self) -> bool:
        if not self.chunks:
            return False
        chunk = self.chunks.pop(0)
        if isinstance(chunk, bytes):
            with self.path.open("ab") as file:
                file.write(chunk)
        else:
            chunk()
        return True


def test_follow_shows_new_events_and_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    shutil.copy(ABORTS, path)
    new = b'{"t":90.0,"event":"peer.error","board":"b","generation":null,"error":"\\u001b[2J x"}\n'
    out = io.StringIO()
    follow(path, out, from_start=True, wait=Writer(path, [new[:30], new[30:]]))
    lines = out.getvalue().splitlines()
    verdicts = [line for line in lines if " = answer " in line]
    assert len(verdicts) == 4
    assert "stop after 1.0 ms" in verdicts[0]
    assert not any(" pcm " in line or "what=frame" in line for line in lines)
    assert any("peer.error" in line and "\x1b" not in line for line in lines)


def test_tail_begins_at_the_end_and_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"t":1,"event":"old"}\n')
    chunks: list[Any] = [b'{"t":2,"ev', b'ent":"new"}', b"\nrubbish\n", b'{"t":3,"event":"last"}\n']
    assert [one["event"] for one in tail(path, wait=Writer(path, chunks))] == ["new", "last"]


def test_tail_reads_a_file_that_was_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"t":1,"event":"a long old event that was here"}\n')
    anew = b'{"t":1,"event":"new"}\n'
    events = tail(path, wait=Writer(path, [lambda: path.write_bytes(anew), lambda: None]))
    assert [one["event"] for one in events] == ["new"]


def test_ctrl_c_ends_follow_cleanly(tmp_path: Path) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    out = io.StringIO()
    follow(TURNS, out, from_start=True, everything=True, colour=True, wait=interrupt)
    assert "what=frame" in out.getvalue()
    assert "\x1b[1m" in out.getvalue()
