"""A server and its boards for the field reports: on the mock clock, with scripted engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from duet_trio.config import load
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.faults.plan import Fault, Plan
from duet_trio.lab.answers import Answer, answers_of
from duet_trio.lab.judge import judge_trace, judge_whole
from duet_trio.lab.lab import Lab, open_lab
from duet_trio.lab.puppet import TONES, Part, Puppet
from duet_trio.lab.spies import PromptSpy
from duet_trio.lab.standin import StandInEncoder, packet_generation
from duet_trio.session.services import Services

STORY = "The first sentence of a story. And a second, a bit longer one. Then it ends here."
CHARACTERS_PER_PACKET = 2.0
LONG = " ".join(f"This is sentence number {number} of a very long story." for number in range(20))


class Talk:
    """A lab with boards that are connected."""

    def __init__(self, lab: Lab, boards: list[Puppet], prompts: PromptSpy, story: str) -> None:
        self.lab = lab
        self.boards = boards
        self.board = boards[0]
        self.prompts = prompts
        self.story = story

    @property
    def answers(self) -> dict[int, Answer]:
        return answers_of(self.lab.recorder)

    async def until(self, reached: Callable[[], object], limit_s: float = 200.0) -> None:
        with trio.fail_after(limit_s):
            while not reached():  # noqa: ASYNC110 - of any state at all
                await trio.sleep(0.005)

    async def quiet(self) -> None:
        """Wait until nobody is answered any more and all engines are idle."""
        await trio.sleep(0.05)
        await self.until(self._is_quiet)

    def _is_quiet(self) -> bool:
        sessions = self.lab.boards.sessions.values()
        services = self.lab.engines.services.values()
        return not (
            any(session.conversation.is_answering for session in sessions)
            or any(any(service.statistics().values()) for service in services)
            or any(board.speaking for board in self.boards if board.connected)
        )

    async def hear_whole(self, board: Puppet | None = None, text: str = "and now?") -> Part:
        """Ask once more: the answer comes, whole and alone. Raises AssertionError if not."""
        board = board or self.board
        before = len(board.parts)
        board.ask(text)
        await self.until(lambda: len(board.parts) > before and not board.speaking)
        part = board.parts[-1]
        answer = [one for one in self.answers.values() if one.board == board.device_id][-1]
        found = list(judge_whole(answer, part, [self.story], CHARACTERS_PER_PACKET))
        assert found == []
        assert len(board.parts) == before + 1
        return part

    async def begun(self, count: int) -> None:
        """Wait for the start of answer number ``count`` at the first board."""
        await self.until(lambda: len(self.board.parts) >= count)

    async def packets(self, count: int, board: Puppet | None = None) -> None:
        """Wait until the answer under way has brought so many packets."""
        board = board or self.board
        await self.until(lambda: board.speaking and len(board.parts[-1].packets) >= count)

    def check(self) -> None:
        """Nothing stale, everything in pairs, nobody complains."""
        assert list(judge_trace(self.answers)) == []
        for board in self.boards:
            assert board.complaints == []

    def outcomes(self) -> list[str]:
        return [answer.outcome for answer in self.answers.values()]

    def restarts(self) -> int:
        return sum(status.restarts for status in self.lab.engines.statuses())


@asynccontextmanager
async def talk(
    *settings: str,
    story: str = STORY,
    stories: Sequence[str] = (),
    faults: Sequence[Fault] = (),
    boards: int = 1,
    slots: int = 1,
    slow_s: float = 0.0,
    gpu: bool = True,
    load_s: float = 0.2,
    wrap: Callable[[Services], Services] = lambda services: services,
) -> AsyncIterator[Talk]:
    spies: list[PromptSpy] = []

    def watch(services: Services) -> Services:
        spies.append(PromptSpy(services.llm))
        return wrap(replace(services, llm=spies[0], make_encoder=StandInEncoder))

    script = ", ".join(f'"{one}"' for one in (stories or [story]))
    config = load(
        None,
        [
            *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
            f"llm.gpu={str(gpu).lower()}",
            f"tts.gpu={str(gpu).lower()}",
            f"llm.script=[{script}]",
            "tts.seconds_per_character=0.03",
            "tts.rtf=0.3",
            *settings,
        ],
    )
    async with open_lab(
        config,
        wrap=watch,
        plan=Plan(fault=tuple(faults)),
        carriers=lambda kind, section: InProcessCarrier(
            kind, section, load_time_s=load_s, slots=slots
        ),
    ) as lab:
        puppets = [
            Puppet(
                f"02:00:00:00:00:{number:02x}",
                lab.host,
                packet_generation,
                slow_s=slow_s,
                memory=TONES // (2 * boards) - 1,
            )
            for number in range(1, boards + 1)
        ]
        for puppet in puppets:
            puppet.connect()
        await trio.sleep(0.1 + 2 * slow_s)
        yield Talk(lab, puppets, spies[0], story)
