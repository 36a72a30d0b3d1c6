"""Many simulated boards in one process, each with its own connection, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import trio

from duet_trio.board.client import BoardClient
from duet_trio.board.link import Connect, Identity, connect_tcp
from duet_trio.board.result import BoardResult
from duet_trio.board.script import BoardOptions, Question

#: What the board with this number (from 0) is asked.
Asker = Callable[[int], Sequence[Question]]


def identity(number: int, *, token: str = "", version: int = 1) -> Identity:
    """The identity of simulated board ``number``: a locally administered MAC, a fixed UUID."""
    if not 0 <= number < 0x1_0000:
        raise ValueError(f"there are no more than 65536 simulated boards, {number} is none")
    return Identity(
        device_id=f"02:00:00:00:{number >> 8:02x}:{number & 0xFF:02x}",
        client_id=f"00000000-0000-4000-8000-{number:012x}",
        token=token,
        version=version,
    )


async def run_fleet(
    options: BoardOptions,
    count: int,
    questions: Asker | Sequence[Question],
    *,
    stagger_s: float = 0.0,
    connect: Connect = connect_tcp,
) -> list[BoardResult]:
    """Run ``count`` boards at once, each started ``stagger_s`` after the one before.

    All have ``options`` but for their identity, which is made by `identity` with its token and
    framing. Results come in the boards' order. Raises like `BoardClient`. A cancel drops all
    connections and loses the results. With ``options.decode`` false a board costs almost no
    CPU time and no memory for sound; stalls are counted all the same.
    """
    clients = [
        BoardClient(
            replace(
                options,
                identity=identity(
                    number, token=options.identity.token, version=options.identity.version
                ),
            ),
            connect=connect,
        )
        for number in range(count)
    ]

    async def run_one(number: int) -> None:
        await trio.sleep(number * stagger_s)
        asked = questions(number) if callable(questions) else questions
        await clients[number].run(asked)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(run_one, number)
    return [client.result for client in clients]


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """What a whole fleet lived through; seconds, and ms where the name says so."""

    boards: int
    answered: int
    failures: tuple[str, ...]
    turns: int
    first_audio_median_s: float | None
    first_audio_p95_s: float | None
    first_audio_max_s: float | None
    stalls: int
    stall_s: float
    packets: int
    late_share: float
    largest_gap_ms: float
    frames_after_stop: int
    unstopped: int  # turns that the server began to answer and never ended

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def summarise(results: Sequence[BoardResult]) -> FleetFigures:
    """Put the figures of a fleet together; a figure without any data is None."""
    turns = [turn for result in results for turn in result.turns]
    waits = [turn.first_audio_s for turn in turns if turn.first_audio_s is not None]
    spaces = [turn.gaps for turn in turns]
    count = sum(space.count for space in spaces)
    late = sum(space.late_share * space.count for space in spaces)
    return FleetFigures(
        boards=len(results),
        answered=sum(result.answered for result in results),
        failures=tuple(result.failure for result in results if result.failure),
        turns=len(turns),
        first_audio_median_s=_quantile(waits, 0.5),
        first_audio_p95_s=_quantile(waits, 0.95),
        first_audio_max_s=_quantile(waits, 1.0),
        stalls=sum(len(result.stalls) for result in results),
        stall_s=round(float(sum(result.stall_s for result in results)), 3),
        packets=sum(len(turn.arrivals_s) for turn in turns),
        late_share=late / count if count else 0.0,
        largest_gap_ms=max((space.largest_ms for space in spaces), default=0.0),
        frames_after_stop=sum(turn.frames_after_stop for turn in turns),
        unstopped=sum(turn.starts > 0 and not turn.over for turn in turns),
    )


def _quantile(values: Sequence[float], share: float) -> float | None:
    return round(float(np.quantile(values, share)), 3) if values else None
