"""When a job is overdue."""

from __future__ import annotations

import math

from duet_trio.engines.deadline import DISOWNED_S, Deadline


def test_it_runs_only_once_asked() -> None:
    deadline = Deadline(5.0)
    assert deadline.at == math.inf
    deadline.start(100.0)
    assert deadline.at == 105.0


def test_a_stall_counts_from_the_last_output_and_the_total_holds() -> None:
    deadline = Deadline(5.0, stall_s=3.0, total_s=7.0)
    deadline.start(0.0)
    deadline.progress(1.0)
    assert deadline.at == 4.0
    deadline.progress(6.0)
    assert deadline.at == 7.0


def test_a_disowned_job_keeps_what_remains_but_two_seconds_at_least() -> None:
    deadline = Deadline(5.0, stall_s=3.0, total_s=20.0)
    deadline.start(0.0)
    deadline.disown(1.0)
    assert deadline.at == 5.0
    deadline.disown(4.5)
    assert deadline.at == 4.5 + DISOWNED_S


def test_a_job_disowned_at_its_very_end_gets_more_than_its_total() -> None:
    deadline = Deadline(5.0, stall_s=3.0, total_s=7.0)
    deadline.start(0.0)
    deadline.progress(6.5)
    deadline.disown(6.9)
    assert deadline.at == 6.9 + DISOWNED_S
    deadline.progress(8.0)
    assert deadline.at == 6.9 + DISOWNED_S


def test_a_disowned_writer_gets_its_first_wait_once_more() -> None:
    deadline = Deadline(10.0, stall_s=5.0)
    deadline.start(0.0)
    deadline.progress(30.0)
    deadline.disown(31.0)
    for now in range(32, 40):
        deadline.progress(float(now))
    assert deadline.at == 41.0
