"""``bench soak``: a real server process under everything that happens in a year, in minutes.

Three parts. *Answers*, most of them aborted: what each process holds after the 200th is compared
with what it holds after the last. *Reconnects*: the same. *Chaos*: boards that ask, interrupt,
vanish and come back, duplicate ids, killed and stopped workers, port scans and garbage, all at
random; then a plain question to every board must be answered whole.

With the scripted engines, in ordinary workers, it is the server and the workers' own program that
are soaked, and every packet is checked for whose answer it is. With a configuration of real
engines their libraries are soaked too; whose answer a packet is cannot be heard there.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from duet_trio.bench.answer import speak_all
from duet_trio.bench.processes import RunningServer, named_config, serving
from duet_trio.bench.soak_answers import WARM_UP, Habits, Questions, TonedEars, any_voice
from duet_trio.bench.soak_harm import Chaos
from duet_trio.bench.soak_look import (
    NOT_MEASURED,
    Growth,
    Look,
    look,
    measurable,
    report_growth,
)
from duet_trio.config import load
from duet_trio.lab.lab import loud
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.real import bridge
from duet_trio.lab.wire import MemoryWire
from duet_trio.wire.handshake import Handshake

STORY = "The first sentence of a story. And a second, a bit longer one. And here it ends."
WHOLE_S = 40.0  # longest wait for the last answers: a worker may just have been killed
GROWTH_MB = 5.0  # of the main process, and of a scripted worker
#: Of a real engine's worker. A voice keeps what its longest sentence so far has needed: Piper on
#: onnxruntime took 16 MB more from the 200th to the 1,200th question; it stays level once long
#: sentences have come (385 MB after 500 and after 800 sentences of up to 28 words).
ENGINE_GROWTH_MB = 30.0
#: Reconnects before the first look. Sessions that have ended are cycles, freed by a full garbage
#: collection only; about one in 300 reconnects. What waits for it (5 MB) is a level, and reached
#: by then.
WARM_UP_RECONNECTS = 600
SPOKEN = (
    "What is your name?",
    "Can you tell me a story about a dog?",
    "How do I make a cup of tea?",
    "Please tell me something about the moon.",
    "Who wrote the book about the white whale?",
    "Stop.",
)
LONGEST_S = 3.9  # of a question: more waits in no server
SCRIPTED_SETTINGS = (
    f"llm.script=[{STORY!r}]",
    "llm.tokens_per_s=400",
    "tts.rtf=0.1",
    "tts.seconds_per_character=0.03",
    "tts.first_s=2",
    "tts.stall_s=1",
    "llm.first_s=2",
    "llm.stall_s=1",
    "vad.threshold=0.0",  # a tone is the speech here
)
SCRIPTED_WAITS_S = (0.02, 0.1, 0.3)
# Short prompts: full histories of so many boards would be evaluated again for every answer.
REAL_SETTINGS = ("llm.max_tokens=24", "llm.history_tokens=256")
REAL_WAITS_S = (0.05, 0.3, 0.8, 2.0)


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """How much of each part; ``boards`` at once. ``config``: a path or a name in ``config/``."""

    aborts: int = 1200
    reconnects: int = 1200
    chaos_s: float = 60.0
    boards: int = 8
    seed: int = 1
    config: str = "scripted.toml"


async def measure(options: SoakOptions) -> dict[str, Any]:
    """Run the soak; returns what ``--json`` prints. ``failures`` is empty if all is well."""
    path = named_config(options.config)
    scripted = load(path).tts.engine == "scripted"
    if scripted:
        habits = Habits((loud(0.6),), ("a question",), SCRIPTED_WAITS_S)
    else:
        longest = 2 * int(LONGEST_S * 16_000)
        recordings = [pcm[:longest] for pcm in await speak_all(path, SPOKEN)]
        habits = Habits(tuple(recordings), SPOKEN, REAL_WAITS_S)
    settings = SCRIPTED_SETTINGS if scripted else REAL_SETTINGS
    with tempfile.TemporaryDirectory() as folder:
        async with serving(path, settings, Path(folder)) as server:
            return await Soak(server, options, habits, scripted=scripted).run()


class Soak:
    """A soak of a server that runs."""

    def __init__(
        self, server: RunningServer, options: SoakOptions, habits: Habits, *, scripted: bool
    ) -> None:
        self._server = server
        self._options = options
        self._scripted = scripted
        rng = random.Random(options.seed)
        self._questions = Questions(habits, rng)
        self._chaos = Chaos(server, rng)
        self._failures: list[str] = []

    async def run(self) -> dict[str, Any]:
        """All parts; the figures."""
        figures: dict[str, Any] = {"not_measured": "" if measurable() else NOT_MEASURED}
        async with trio.open_nursery() as nursery:
            boards = [self._board(number, nursery) for number in range(self._options.boards)]
            figures["aborts"] = await self._aborts(boards)
            figures["worst_abort_to_stop_ms"] = self._worst_ms(boards)
            figures["after_aborts"] = await self._whole(boards)
            figures["reconnects"] = await self._reconnects(boards)
            figures["after_reconnects"] = await self._whole(boards)
            await self._chaos.run(boards, self._options.chaos_s)
            figures["chaos"] = dict(self._chaos.deeds)
            figures["after_chaos"] = await self._whole(boards)
            figures["at_the_end"] = look(self._server.pid).to_dict()
            nursery.cancel_scope.cancel()
        stale = [one for board in boards for one in board.complaints]
        figures["worst_in_chaos_ms"] = self._worst_ms(boards)
        figures["complaints"] = stale[:10]
        figures["failures"] = self._failures + [f"stale: {one}" for one in stale[:10]]
        return figures

    def _board(self, number: int, nursery: trio.Nursery) -> Puppet:
        def host(wire: MemoryWire, who: Handshake) -> None:
            nursery.start_soon(bridge, self._server.url, wire, who)

        ears = TonedEars() if self._scripted else any_voice
        return Puppet(f"02:00:00:00:01:{number:02x}", host, ears, memory=1)

    def _worst_ms(self, boards: list[Puppet]) -> float:
        return round(1000 * max(board.worst_stop_s for board in boards), 1)

    async def _aborts(self, boards: list[Puppet]) -> dict[str, Any]:
        questions = self._questions
        await questions.ask_until(boards, min(WARM_UP, self._options.aborts // 2))
        warm = await self._at_rest()
        await questions.ask_until(boards, self._options.aborts)
        late = await self._at_rest()
        return self._compared("answers", warm, late) | {
            "asked": questions.asked,
            "spoken": questions.spoken,
            "answers": sum(len(board.parts) for board in boards),
            "whole": questions.whole,
        }

    async def _reconnects(self, boards: list[Puppet]) -> dict[str, Any]:
        warm = await self._reconnect(boards, min(WARM_UP_RECONNECTS, self._options.reconnects // 2))
        late = await self._reconnect(boards, self._options.reconnects)
        return self._compared("reconnects", warm, late) | {"count": self._options.reconnects}

    async def _reconnect(self, boards: list[Puppet], count: int) -> Look:
        for number in range(count):
            board = boards[number % len(boards)]
            if number % 3:
                board.drop()
            board.connect()  # every third time beside the old connection
            await trio.sleep(0.02)
            if number % 2:
                board.ask("a question")
        await trio.sleep(0.5)
        return await self._at_rest()

    def _compared(self, what: str, warm: Look, late: Look) -> dict[str, Any]:
        growth = Growth(warm, late)
        workers_mb = GROWTH_MB if self._scripted else ENGINE_GROWTH_MB
        self._failures += [f"{what}: {one}" for one in growth.faults(GROWTH_MB, workers_mb)]
        return growth.to_dict()

    async def _at_rest(self) -> Look:
        """What is held once answers and closed connections have been forgotten."""
        await trio.sleep(2.5)
        return look(self._server.pid)

    async def _whole(self, boards: list[Puppet]) -> int:
        """A plain question to every board; how many were answered whole."""
        whole = 0
        async with trio.open_nursery() as nursery:
            for board in boards:
                board.drop()
                board.connect()
                nursery.start_soon(self._ask_whole, board)
        for board in boards:
            packets = board.parts[-1].packets if board.parts else []
            foreign = {whose for _at, whose in packets} - {board.parts[-1].generation}
            good = len(packets) >= (len(STORY) // 2 if self._scripted else 5) and not foreign
            whole += good
            if not good:
                self._failures.append(f"{board.device_id}: no whole answer at the end of a part")
        return whole

    async def _ask_whole(self, board: Puppet) -> None:
        deadline = trio.current_time() + WHOLE_S
        while trio.current_time() < deadline:
            await trio.sleep(0.3)
            before = len(board.parts)
            board.ask("and now?")
            with trio.move_on_at(deadline):
                while len(board.parts) == before or board.speaking:
                    await board.news.wait()
            if len(board.parts) > before and not board.parts[-1].alerts:
                return


def report(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    aborts, reconnects = figures["aborts"], figures["reconnects"]
    asked = f"{aborts['asked']} questions ({aborts['spoken']} spoken)"
    first = f"{asked}, {aborts['answers']} answers begun, {aborts['whole']} heard whole"
    lines = [figures["not_measured"]] if figures["not_measured"] else []
    lines += report_growth(first, aborts)
    lines += report_growth(f"{reconnects['count']} reconnects", reconnects)
    done = ", ".join(f"{count} x {name}" for name, count in sorted(figures["chaos"].items()))
    lines.append(f"chaos: {done or 'none'}")
    whole = figures["after_aborts"], figures["after_reconnects"], figures["after_chaos"]
    lines.append(f"answered whole afterwards: {whole[0]}, {whole[1]}, {whole[2]} boards")
    lines.append(
        f"abort to stop, worst: {figures['worst_abort_to_stop_ms']} ms,"
        f" in the chaos {figures['worst_in_chaos_ms']} ms"
    )
    lines += [f"FAILED {failure}" for failure in figures["failures"]]
    return "\n".join(lines)
