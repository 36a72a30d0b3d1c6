"""Simulated boards for ``bench boards``: bare connections that speak, ask and listen in turns.

Each board, over and over: three seconds of microphone packets in real time (the server decodes
them and looks for speech in them), then a typed question, then its answer to the ``tts stop``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import trio
from trio_websocket import ConnectionClosed

from duet_trio.bench.talker import LISTEN, Talker, talking
from duet_trio.opus import Encoder

FRAME_S = 0.06
SPEAK_PACKETS = 50
#: A board's id as `talking` makes it.
DEVICE = "02:00:00:00:{:02x}:{:02x}"


@dataclass(slots=True)
class ClientFigures:
    """What the boards saw: gaps between an answer's packets, question to first packet."""

    gaps_ms: list[float] = field(default_factory=list)
    first_audio_s: list[float] = field(default_factory=list)
    answers: int = 0
    lost: int = 0  # connections that broke; 0 unless the server failed
    speaking_s: float = 0.0  # microphone open, of all boards together
    listening_s: float = 0.0  # an answer arriving


def device_ids(boards: int) -> list[str]:
    """The Device-Ids of so many boards."""
    return [DEVICE.format(number // 256, number % 256) for number in range(1, boards + 1)]


async def run_boards(
    url: str, boards: int, *, seconds: float, spread_s: float, seed: int
) -> ClientFigures:
    """Connect all, then let them talk for ``seconds``; first questions within ``spread_s``."""
    figures = ClientFigures()
    microphone = _microphone()
    rng = random.Random(seed)
    delays = [rng.uniform(0, spread_s) for _ in range(boards)]
    async with trio.open_nursery() as nursery:
        talkers = [
            await nursery.start(_connected, url, number, figures) for number in range(1, boards + 1)
        ]
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as talk:
                for talker, delay_s in zip(talkers, delays, strict=True):
                    talk.start_soon(_board, talker, delay_s, microphone, figures)
        nursery.cancel_scope.cancel()
    return figures


async def _connected(
    url: str,
    number: int,
    figures: ClientFigures,
    task_status: trio.TaskStatus[Talker] = trio.TASK_STATUS_IGNORED,
) -> None:
    try:
        async with talking(url, number) as talker:
            task_status.started(talker)
            await trio.sleep_forever()
    except* ConnectionClosed:
        figures.lost += 1


async def _board(
    talker: Talker, delay_s: float, microphone: Sequence[bytes], figures: ClientFigures
) -> None:
    await trio.sleep(delay_s)
    first = True
    while True:
        try:
            if not first:
                await _speak(talker, microphone)
                figures.speaking_s += len(microphone) * FRAME_S
            first = False
            await _ask(talker, figures)
        except ConnectionClosed:
            figures.lost += 1
            return


async def _ask(talker: Talker, figures: ClientFigures) -> None:
    await talker.say(LISTEN)  # what was just heard shall not count as a wake word's sound
    seen, stops = len(talker.arrivals), len(talker.stops)
    asked = trio.current_time()
    await talker.ask("go on")
    await talker.until_stops(stops + 1)
    arrivals = talker.arrivals[seen:]
    if arrivals:
        figures.answers += 1
        figures.first_audio_s.append(arrivals[0] - asked)
        figures.listening_s += arrivals[-1] - arrivals[0]
        figures.gaps_ms += [(after - before) * 1000 for before, after in pairwise(arrivals)]


async def _speak(talker: Talker, microphone: Sequence[bytes]) -> None:
    start = trio.current_time()
    for number, packet in enumerate(microphone):
        await trio.sleep_until(start + number * FRAME_S)
        await talker.socket.send_message(packet)


def _microphone() -> list[bytes]:
    """Three seconds of a room: noise of −50 dBFS, which is no speech."""
    samples = np.random.default_rng(1).standard_normal(16_000 * 3) * 100
    return list(Encoder(16_000, 60, complexity=0).packets(samples.astype("<i2").tobytes()))[
        :SPEAK_PACKETS
    ]
