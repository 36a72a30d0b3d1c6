"""`Lab`: one server and any number of boards, all in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
import trio
import trio.testing

from duet_trio.board.client import BoardClient
from duet_trio.board.link import Address, Identity
from duet_trio.board.result import BoardResult
from duet_trio.board.script import BoardOptions, Question
from duet_trio.config import Config
from duet_trio.engines.factory import CarrierFactory, EngineSet
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.faults.hub import Faults
from duet_trio.faults.plan import Plan
from duet_trio.lab.wire import MemoryWire
from duet_trio.server.assembly import make_services
from duet_trio.server.boards import Boards
from duet_trio.session.peer import Facts
from duet_trio.session.services import Services
from duet_trio.trace.recorder import ListRecorder
from duet_trio.wire.handshake import Handshake

URL = "ws://127.0.0.1:8000/xiaozhi/v1/"
#: RMS (of full scale 1) above which `LoudnessDetector` calls a chunk speech: −40 dBFS.
SPEECH_RMS = 0.01


class LoudnessDetector:
    """Speech is what is loud: exact, fast, and good enough for made-up audio."""

    def stream(self) -> LoudnessStream:
        """A stream; it has no state."""
        return LoudnessStream()


class LoudnessStream:
    """See `LoudnessDetector`."""

    def probability(self, pcm: bytes) -> float:
        """1 for a loud chunk, else 0."""
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32768
        return float(np.sqrt(np.mean(samples * samples)) > SPEECH_RMS)

    def reset(self) -> None:
        """Nothing to forget."""


def loud(seconds: float, hz: float = 200.0) -> bytes:
    """Microphone audio that `LoudnessDetector` takes for speech (16 kHz s16le)."""
    times = np.arange(int(16_000 * seconds)) / 16_000
    return bytes((6000 * np.sin(2 * np.pi * hz * times)).astype("<i2").tobytes())


def quiet(seconds: float) -> bytes:
    """Digital silence for the microphone."""
    return bytes(2 * int(16_000 * seconds))


class Lab:
    """A server without sockets. Use `open_lab`.

    ``wrap`` may put something between sessions and engines, ``plan`` puts faults there and on
    the boards' connections; ``carriers`` make other engines than scripted ones in this process.
    """

    def __init__(
        self,
        config: Config,
        *,
        wrap: Callable[[Services], Services] | None = None,
        plan: Plan | None = None,
        carriers: CarrierFactory = InProcessCarrier,
    ) -> None:
        self.config = config
        self.recorder = ListRecorder(clock=trio.current_time)
        self.engines = EngineSet(config, self.recorder, carriers)
        services = make_services(config, self.recorder, self.engines, LoudnessDetector())
        services = wrap(services) if wrap is not None else services
        self.faults = Faults(plan or Plan(), self.recorder)
        self.rewire(self.faults.wrap(services))
        self._nursery: trio.Nursery | None = None

    def rewire(self, services: Services) -> None:
        """Give other services to all sessions from now on."""
        self.services = services
        self.boards = Boards(
            services, lambda _device: Facts(small=False), wrap=self.faults.transport
        )

    def host(self, wire: MemoryWire, who: Handshake) -> None:
        """Serve a board that stands on a wire of messages instead of a WebSocket."""
        assert self._nursery is not None, "the lab is not open"
        self._nursery.start_soon(self.boards.host, wire, who, "memory")

    async def connect(self, address: Address) -> trio.abc.Stream:
        """What a `BoardClient` connects with: its end of a pair of memory streams (any address)."""
        assert self._nursery is not None, "the lab is not open"
        ours, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self.boards.serve, ours)
        await trio.lowlevel.checkpoint()
        return theirs

    def board(self, number: int = 1, **options: object) -> BoardClient:
        """A simulated board; ``options`` are those of `BoardOptions`."""
        identity = Identity(device_id=f"02:00:00:00:00:{number:02x}")
        return BoardClient(
            BoardOptions(url=URL, identity=identity, **options),  # type: ignore[arg-type]
            connect=self.connect,
        )

    async def ask(self, *questions: Question | str, number: int = 1) -> BoardResult:
        """Let one board put these questions one after the other, then hang up."""
        return await self.board(number).run(
            [Question(text=item) if isinstance(item, str) else item for item in questions]
        )

    def events(self, name: str, generation: int | None = None) -> Sequence[dict[str, object]]:
        """The trace events of a name."""
        return self.recorder.select(name, generation)


@asynccontextmanager
async def open_lab(
    config: Config | None = None,
    *,
    wrap: Callable[[Services], Services] | None = None,
    plan: Plan | None = None,
    carriers: CarrierFactory = InProcessCarrier,
    lab: Lab | None = None,
) -> AsyncIterator[Lab]:
    """A lab with its engines ready; leaving ends everything in it.

    Arguments: see `Lab`; or give one that has been made.
    """
    if lab is None:
        lab = Lab(config or Config(), wrap=wrap, plan=plan, carriers=carriers)
    async with trio.open_nursery() as nursery:
        lab._nursery = nursery
        await nursery.start(lab.engines.run)
        await lab.engines.wait_ready()
        yield lab
        nursery.cancel_scope.cancel()
