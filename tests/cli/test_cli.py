"""What a person meets at the command line: help, bad use, errors of one line, exit codes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from duet_trio import __version__, cli
from duet_trio.config import load
from duet_trio.errors import ConfigError

DUET = [sys.executable, "-m", "duet_trio"]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Make ``duet doctor`` call the given function, with the options for a configuration."""

    def put(func: Callable[[argparse.Namespace], int]) -> None:
        def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
            parser = subparsers.add_parser("doctor")
            cli.add_config_options(parser)
            parser.set_defaults(func=func)

        module = ModuleType("duet_trio.doctor")
        setattr(module, "register", register)  # noqa: B010 - a module has no such attribute
        monkeypatch.setitem(sys.modules, "duet_trio.doctor", module)

    return put


def test_help_names_every_command_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for entry in cli.COMMANDS:
        assert (f"\n    {entry.name} " in shown) == cli._exists(entry.module)


@pytest.mark.parametrize(
    "entry", [c for c in cli.COMMANDS if cli._exists(c.module)], ids=lambda c: c.name
)
def test_every_command_has_help(entry: cli.Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([entry.name, "--help"])
    assert ended.value.code == 0
    assert f"usage: duet {entry.name}" in capsys.readouterr().out


def test_help_imports_no_command() -> None:
    script = (
        "import sys; from duet_trio import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(result.stderr.split())
    assert "duet_trio.cli" in loaded
    assert not loaded & {"trio", "numpy", "quart", "msgspec", *(c.module for c in cli.COMMANDS)}


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"duet-trio {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["--nonsense"]])
def test_bad_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_exit_code_is_the_commands_own(
    command: Callable[[Callable[[argparse.Namespace], int]], None],
) -> None:
    command(lambda args: 7)
    assert cli.main(["doctor"]) == 7


def test_user_error_is_one_line(
    command: Callable[[Callable[[argparse.Namespace], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise ConfigError("tts.rtf: too slow; choose less")

    command(fail)
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr() == ("", "duet: tts.rtf: too slow; choose less\n")


def test_interrupt(command: Callable[[Callable[[argparse.Namespace], int]], None]) -> None:
    def interrupt(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    command(interrupt)
    assert cli.main(["doctor"]) == 130


@pytest.mark.parametrize("cause", [BrokenPipeError(), ConfigError("x"), KeyboardInterrupt()])
def test_a_nursery_around_it_changes_nothing(
    command: Callable[[Callable[[argparse.Namespace], int]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cause: BaseException,
) -> None:
    monkeypatch.setattr(cli, "_silence_stdout", lambda: None)
    codes = []
    for raised in (cause, BaseExceptionGroup("n", [BaseExceptionGroup("m", [cause])])):

        def fail(args: argparse.Namespace, raised: BaseException = raised) -> int:
            raise raised

        command(fail)
        codes.append((cli.main(["doctor"]), capsys.readouterr()))
    assert codes[0] == codes[1]


def test_what_an_interrupt_breaks_is_not_shown(
    command: Callable[[Callable[[argparse.Namespace], int]], None],
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise BaseExceptionGroup("n", [ValueError("half"), KeyboardInterrupt()])

    command(fail)
    assert cli.main(["doctor"]) == 130


def test_several_errors_of_a_nursery_are_all_shown(
    command: Callable[[Callable[[argparse.Namespace], int]], None],
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise ExceptionGroup("n", [BrokenPipeError(), ZeroDivisionError()])

    command(fail)
    with pytest.RaisesGroup(BrokenPipeError, ZeroDivisionError):
        cli.main(["doctor"])


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_closed_streams() -> None:
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *DUET, "models", "list"], check=False
    )
    assert result.returncode in (0, 1)  # as with open ones: are all models there?
    shown = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *DUET, "models", "list"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (result.returncode, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_device_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*DUET, "models", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr == "duet: the device written to is full; make room and run it again\n"


def test_settings_go_over_the_file(
    command: Callable[[Callable[[argparse.Namespace], int]], None], tmp_path: Path
) -> None:
    file = tmp_path / "duet.toml"
    file.write_text("[server]\nhttp_port = 1000\nwebsocket_port = 2000\n")
    seen = []

    def read(args: argparse.Namespace) -> int:
        seen.append(cli.read_config(args).server)
        return 0

    command(read)
    assert cli.main(["doctor", "--config", str(file), "--set", "server.http_port=1", "--set",
                     "server.host=::1"]) == 0  # fmt: skip
    assert (seen[0].http_port, seen[0].websocket_port, seen[0].host) == (1, 2000, "::1")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_matter(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "duet.toml"
    file.write_text('[voice]\nname = "Jörg"\n', encoding=encoding)
    assert load(file).voice.name == "Jörg"


@pytest.mark.parametrize(("encoding", "line"), [("latin-1", 2), ("utf-16", 1)])
def test_another_encoding_is_told_with_its_line(tmp_path: Path, encoding: str, line: int) -> None:
    file = tmp_path / "duet.toml"
    file.write_text('[voice]\nname = "Jörg"\n', encoding=encoding)
    with pytest.raises(ConfigError) as caught:
        load(file)
    said = f"{file}: not valid TOML: line {line} is not UTF-8; save the file as UTF-8"
    assert str(caught.value) == said


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX pipe")
def test_reader_that_leaves_early_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as gone:
        result = subprocess.run(
            [*DUET, "doctor"], stdout=gone, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (result.returncode, result.stderr) == (0, "")


def test_missing_config_file_from_the_shell() -> None:
    result = subprocess.run(
        [*DUET, "doctor", "--config", "no-such.toml"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr == "duet: no-such.toml: no such file; give --config an existing one\n"
