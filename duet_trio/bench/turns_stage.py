"""A sitting: one set of engines, both schedules, one answer at a time.

The sessions are the server's own, behind a connection without bytes. Which clock is running and
what the engines are made of is the caller's business: real workers in real time, or a modelled
card on a clock that jumps.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Literal

import msgspec
import trio

from duet_trio.bench.processes import BenchError
from duet_trio.config import Config
from duet_trio.engines.factory import CarrierFactory, EngineSet
from duet_trio.engines.gpu_turn import SelectiveGate
from duet_trio.errors import DuetError
from duet_trio.lab.lab import LoudnessDetector
from duet_trio.lab.wire import MemoryWire, Message
from duet_trio.server.assembly import make_services
from duet_trio.server.boards import Boards
from duet_trio.session.peer import Facts
from duet_trio.session.services import Services
from duet_trio.session.speech_line import PacketEncoder
from duet_trio.trace.recorder import ListRecorder
from duet_trio.trace.records import Event
from duet_trio.wire.encoding import encode
from duet_trio.wire.handshake import Handshake
from duet_trio.wire.messages import AudioParams, BoardMessage, Detect, Hello, ListenStart

Schedule = Literal["turns", "overlap"]
SCHEDULES: tuple[Schedule, Schedule] = ("turns", "overlap")
#: Longer than any answer: what has not ended by then never will.
LIMIT_S = 600.0


class NoEncoder:
    """Packets of nothing, for virtual time: what an encoder costs is measured elsewhere."""

    frame_ms = 60
    frame_bytes = 2880

    def encode(self, pcm: bytes) -> bytes:
        """One packet."""
        return b"\0"


class Stage:
    """Asks one question after the other. Use `open_stage`."""

    def __init__(
        self, config: Config, engines: EngineSet, recorder: ListRecorder, nursery: trio.Nursery,
        *, encode: bool,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._nursery = nursery
        self._numbers = count(1)
        self._boards: dict[Schedule, Boards] = {}
        generations = count(1)
        for schedule in SCHEDULES:
            services = _services(config, engines, recorder, overlap=schedule == "overlap")
            services = replace(services, generations=generations)
            if not encode:
                services = replace(services, make_encoder=_no_encoder)
            self._boards[schedule] = Boards(services, lambda _device: Facts(small=False))

    async def ask(self, schedule: Schedule, question: str) -> list[Event]:
        """One answer to a fresh board, played to its end; gives its events.

        Raises `BenchError` if it failed or did not end.
        """
        number = next(self._numbers)
        device = f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
        complaints: list[str] = []
        stopped = trio.Event()

        def take(message: Message) -> None:
            if isinstance(message, str) and '"stop"' in message and '"tts"' in message:
                stopped.set()

        wire = MemoryWire(take, complaints)
        who = Handshake(device, version=1, path="/xiaozhi/v1/")
        self._recorder.events.clear()
        self._nursery.start_soon(self._boards[schedule].host, wire, who, "memory")
        messages: tuple[BoardMessage, ...] = (
            Hello(audio_params=AudioParams(), version=1),
            ListenStart(mode="auto"),
            Detect(text=question),
        )
        for message in messages:
            wire.say(encode(message, "s"))
        with trio.move_on_after(LIMIT_S):
            await stopped.wait()
            wire.drop()
            await wire.gone.wait()
        events = list(self._recorder.events)
        ends = [event for event in events if event["event"] == "answer.end"]
        if not ends or ends[0]["outcome"] != "done" or complaints:
            why = complaints or [str(end["cause"]) for end in ends] or ["it did not end"]
            raise BenchError(f"the answer to {question!r} failed: {why[0]}")
        return events


def _no_encoder() -> PacketEncoder:
    return NoEncoder()


def _services(
    config: Config, engines: EngineSet, recorder: ListRecorder, *, overlap: bool
) -> Services:
    """What sessions of one schedule share; estimates are learned apart."""
    llm = msgspec.structs.replace(config.llm, overlap=overlap)
    config = msgspec.structs.replace(config, llm=llm)
    services = make_services(config, recorder, engines, LoudnessDetector())
    if overlap:
        gate = SelectiveGate(engines.gpu_turn, {"tts"}, recorder)
        services = replace(services, gate=gate)
    return services


@asynccontextmanager
async def open_stage(
    config: Config, carriers: CarrierFactory, *, encode: bool = True
) -> AsyncIterator[Stage]:
    """A stage with its engines ready; leaving it ends them.

    ``config`` needs both ``gpu`` switches on, or there are no turns to be taken.
    """
    recorder = ListRecorder(clock=trio.current_time)
    engines = EngineSet(config, recorder, carriers)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(engines.run)
            await engines.wait_ready()
            yield Stage(config, engines, recorder, nursery, encode=encode)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        known, other = group.split(DuetError)
        if known is None or other is not None:
            raise
        raise _leaf(known) from None  # for the user: one line instead of a tree


def _leaf(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
