"""What a soak sees of processes: names, memory, growth."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duet_trio.bench import soak_look
from duet_trio.bench.soak_look import Growth, Look, ProcessMemory, look, report_growth

MAIN = ProcessMemory("main", 1, 100.0, 60.0)
TTS = ProcessMemory("worker tts", 2, 500.0, 80.0)

on_linux = pytest.mark.skipif(not soak_look.measurable(), reason="needs /proc")


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says a byte once it is there, and ends with its stdin."""
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.read(1)
            yield process
        finally:
            process.kill()


@on_linux
def test_a_child_is_seen_by_name_and_below_its_parent() -> None:
    program = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}])"
    inner = "print('x', flush=True)\ninput()"
    with child("-c", program.format(inner)):
        seen = look(os.getpid())
        names = [one.name for one in seen.processes]
    assert names[0] == "main"
    assert names.count(Path(sys.executable).name) == 2  # the grandchild too
    assert seen.files == pytest.approx(len(os.listdir("/proc/self/fd")), abs=4)
    assert all(0 < one.own_mb < one.rss_mb for one in seen.processes)


@on_linux
def test_memory_that_a_child_takes_is_its_own_and_counts_as_growth() -> None:
    take = "data = bytearray()\nprint('x', flush=True)\ninput()\ndata += b'x' * 9_000_000\n"
    with child("-c", take + "print('y', flush=True)\ninput()") as process:
        before = look(os.getpid())
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert b"y" in process.stdout.readline() + process.stdout.readline()
        growth = Growth(before, look(os.getpid()))
        faults = list(growth.faults(5.0, 5.0))
        assert len(faults) == 1, faults
        assert "own memory" in faults[0]
        grown = [one["own_mb"] for one in growth.to_dict()["growth"]]
        assert grown[-1] == pytest.approx(9.0, abs=2.0)


@on_linux
def test_a_worker_is_named_after_its_engine() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "duet_trio.engines.worker", "tts"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            deadline = time.monotonic() + 5  # a process without a command line yet has just begun
            while soak_look._name(process.pid) == "a process" and time.monotonic() < deadline:
                time.sleep(0.001)
            assert soak_look._name(process.pid) == "worker tts"
        finally:
            process.kill()


def test_the_same_again_is_no_fault() -> None:
    same = Look(30, (MAIN, TTS))
    assert list(Growth(same, same).faults(5.0, 5.0)) == []


def test_pages_of_files_are_no_leak() -> None:
    later = Look(30, (MAIN, ProcessMemory("worker tts", 2, 700.0, 80.0)))
    assert list(Growth(Look(30, (MAIN, TTS)), later).faults(5.0, 5.0)) == []


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (Look(31, (MAIN, TTS)), "open files"),
        (Look(30, (MAIN,)), "processes"),
        (Look(30, (MAIN, ProcessMemory("worker tts", 3, 500.0, 80.0))), "worker tts (3)"),
        (Look(30, (MAIN, ProcessMemory("worker tts", 2, 506.0, 85.1))), "worker tts: own"),
        (Look(30, (ProcessMemory("main", 1, 106.0, 66.0), TTS)), "main: own"),
    ],
)
def test_what_has_changed_is_a_fault(later: Look, said: str) -> None:
    (fault,) = Growth(Look(30, (MAIN, TTS)), later).faults(5.0, 5.0)
    assert said in fault


def test_the_report_says_which_process_is_which() -> None:
    later = Look(30, (MAIN, ProcessMemory("worker tts", 2, 501.0, 81.25)))
    text = "\n".join(report_growth("9 questions", Growth(Look(30, (MAIN, TTS)), later).to_dict()))
    assert "9 questions: open files 30 -> 30" in text
    assert "(+1.25)" in text


def test_where_nothing_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_look, "PROC", tmp_path)
    assert not soak_look.measurable()
    assert look(os.getpid()) == Look(0, ())


def test_a_real_engine_may_take_more_than_the_server() -> None:
    later = ProcessMemory("worker tts", 2, 520.0, 100.0)
    growth = Growth(Look(30, (MAIN, TTS)), Look(30, (MAIN, later)))
    assert list(growth.faults(5.0, 30.0)) == []
    assert len(list(growth.faults(30.0, 5.0))) == 1
