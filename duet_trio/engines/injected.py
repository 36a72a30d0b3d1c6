"""Injected faults inside a worker, around any adapter.

A job that carries an `Inject` commits it when its ``at``-th output (token, block, transcript)
has gone out; 0 is before anything. An `Injected` message goes out right before. What follows:

====== ==========================================================================================
hang    never returns, ignores the cancel
error   the job fails; the worker lives
crash   ``os.abort()``
stop    SIGSTOP to itself: the process is there and does nothing
slow    from now on ``value`` (default 1.3) seconds per second of audio; other engines take
        ``value`` times their own time
empty   the job ends now, without (further) output
short   46 ms of audio (one token, one word), then the end
endless output without end; the step's own bound (cap, tokens) still holds
garbage random bytes on the pipe
flood   output without end and without pause, well-formed
late    a cancel takes effect only ``value`` seconds after it came, and output goes on till then
deaf    a cancel is ignored; the job runs to its normal end
====== ==========================================================================================
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from duet_trio.engines.contracts import SPEECH_RATE_HZ, Inject
from duet_trio.engines.pipe import Block, Job, Text, WriteJob, encode

EFFECTS = frozenset(
    "hang error crash stop slow empty short endless garbage flood late deaf".split()  # noqa: SIM905
)
#: Effects that decide how the job ends; the adapter is left (or not even called).
ENDINGS = frozenset({"error", "empty", "short", "endless"})
SLOW_FACTOR = 1.3
SHORT_AUDIO_S = 0.046
GARBAGE_BYTES = 4096
FLOOD_BYTES = 9600  # 0.2 s of speech
ENDLESS_TEXT = " and so on"
ENDLESS_REPEATS = 50


def short_block() -> bytes:
    """46 ms of silence: what a voice that fails at once gives (absurdly short audio)."""
    return bytes(2 * int(SHORT_AUDIO_S * SPEECH_RATE_HZ))


def garbage(seed: int) -> bytes:
    """Random bytes that are the same for the same seed."""
    return random.Random(seed).randbytes(GARBAGE_BYTES)


def flood_message(job: Job) -> bytes:
    """One message of a flood, framed: output such as that job's, or a block where it has none."""
    if isinstance(job, WriteJob):
        return encode(Text(job.id, ENDLESS_TEXT * 100))
    return encode(Block(job.id, bytes(FLOOD_BYTES)))


class Committer:
    """Commits one job's fault. Lives on the job's thread, save `ignores_cancel`."""

    def __init__(
        self,
        inject: Inject | None,
        *,
        seed: int,
        announce: Callable[[str], None],
        write_raw: Callable[[bytes], None],
        flood: bytes = b"",
    ) -> None:
        self._inject = inject
        self._flood = flood
        self._seed = seed
        self._announce = announce
        self._write_raw = write_raw
        self._outputs = 0
        self.ending = ""  # one of ENDINGS once it has been committed
        self.slow_factor = 0.0  # 0: not slowed
        self.deaf = False
        self.late_s = 0.0

    def before(self) -> None:
        """The job is about to begin."""
        self._commit_if_due()

    def count(self) -> None:
        """One more output has gone out."""
        self._outputs += 1
        self._commit_if_due()

    def ignores_cancel(self, since_s: float) -> bool:
        """Is a cancel that came ``since_s`` seconds ago still ignored? (Any thread.)"""
        return self.deaf or since_s < self.late_s

    def _commit_if_due(self) -> None:
        inject = self._inject
        if inject is None or self._outputs != inject.at:
            return
        self._inject = None
        self._announce(inject.effect)
        match inject.effect:
            case "hang":
                _hang()
            case "crash":
                os.abort()
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "garbage":
                self._write_raw(garbage(self._seed))
            case "flood":
                while True:  # until somebody ends this process
                    self._write_raw(self._flood)
            case "slow":
                self.slow_factor = inject.value or SLOW_FACTOR
            case "late":
                self.late_s = inject.value
            case "deaf":
                self.deaf = True
            case ending if ending in ENDINGS:
                self.ending = ending
            case unknown:
                raise ValueError(f"unknown effect '{unknown}'")


def _hang() -> NoReturn:
    while True:
        time.sleep(3600)
