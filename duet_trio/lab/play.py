"""One cell of the matrix, played: question, fault, trigger, and the next question at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio
import trio.testing

from duet_trio.board.fingerprint import generation_of
from duet_trio.config import Config, load
from duet_trio.engines.carrier import Carrier
from duet_trio.engines.contracts import EngineKind
from duet_trio.faults.plan import Fault, Plan
from duet_trio.lab.answers import Answer, answers_of, phase
from duet_trio.lab.carriers import BreakableCarrier
from duet_trio.lab.cells import Cell, CellResult
from duet_trio.lab.judge import judge_trace, judge_whole
from duet_trio.lab.lab import Lab, loud, open_lab
from duet_trio.lab.puppet import Puppet
from duet_trio.opus import Decoder

STORIES = (
    "The first sentence of a story. And a second, a bit longer one. Then comes a third sentence,"
    " not a short one either. And here it ends at last.",
    "A fox lived in a wood, not far away. It had a friend, a crow. They shared a cheese, which"
    " they had found on the way. It was a good cheese.",
)
SECONDS_PER_CHARACTER = 0.03
CHARACTERS_PER_PACKET = 2.0
LOAD_S = 0.5
#: What the trigger waits for after the fault: the board has a little of the answer by then.
PAUSE_S = 0.1
LONGEST_S = 90.0
STEP_S = 0.02


def run_cell(cell: Cell) -> CellResult:
    """Run one cell in a trio of its own."""
    return trio.run(Play(cell).run, clock=trio.testing.MockClock(autojump_threshold=0))


def cell_config(
    *,
    barge_in: bool = False,
    seconds_per_character: float = SECONDS_PER_CHARACTER,
    more: Sequence[str] = (),
) -> Config:
    """Scripted engines, LLM and TTS taking turns; ``more``: settings over these."""
    stories = ", ".join(f'"{story}"' for story in STORIES)
    return load(
        None,
        [
            *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
            "llm.gpu=true",
            "tts.gpu=true",
            f"llm.script=[{stories}]",
            "llm.hold_tokens=12",  # so that an answer has several stays of the writer
            'asr.script=["tell me a story"]',
            f"tts.seconds_per_character={seconds_per_character}",
            f"voice.barge_in={str(barge_in).lower()}",
            "pacer.complexity=0",
            *more,
        ],
    )


class OpusEars:
    """Decodes what a board gets and names the answer by its tone."""

    def __init__(self) -> None:
        self._decoder = Decoder(24_000)

    def __call__(self, packet: bytes) -> int | None:
        """The generation (mod 40) that sounds in it."""
        return generation_of(self._decoder.decode(packet))


class Play:
    """One cell while it runs; subclasses run it elsewhere than on the mock clock."""

    characters_per_packet = CHARACTERS_PER_PACKET

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._result = CellResult(cell)
        self._carriers: dict[EngineKind, BreakableCarrier] = {}
        self._failed_at: float | None = None

    async def run(self) -> CellResult:
        """Question, fault, trigger, next question, judgement."""
        cell = self._cell
        async with self._open() as lab:
            mode = "realtime" if cell.trigger == "barge-in" else "auto"
            puppet = Puppet("02:00:00:00:00:01", lab.host, OpusEars(), mode=mode)  # type: ignore[arg-type]
            puppet.connect()
            await trio.sleep(0.3)
            async with trio.open_nursery() as nursery:
                if cell.phase != "idle":
                    nursery.start_soon(self._ask, puppet)
                await self._fault(lab)
                nursery.cancel_scope.cancel()
            if self._result.fired:
                await self._answer_again(lab, puppet)
            self._judge(lab, puppet)
        return self._result

    def _open(self) -> AbstractAsyncContextManager[Lab]:
        return open_lab(
            cell_config(barge_in=self._cell.trigger == "barge-in"),
            plan=self._plan(),
            carriers=self._carrier,
        )

    def _harm(self, lab: Lab) -> None:
        """Do to a worker what the kernel could do at any moment."""
        self._carriers[self._cell.engine].harm(self._cell.effect)  # type: ignore[arg-type]

    def _plan(self) -> Plan:
        cell = self._cell
        if not cell.seam:
            return Plan()
        generation = None if cell.engine == "asr" else 1
        value = 1.0 if cell.effect == "late" else 0.0
        fault = Fault(
            seam=cell.seam, effect=cell.effect, generation=generation, nth=cell.nth, value=value
        )
        return Plan(seed=1, fault=(fault,))

    def _carrier(self, kind: EngineKind, settings: dict[str, Any]) -> Carrier:
        carrier = BreakableCarrier(kind, settings, load_time_s=LOAD_S, slots=1)
        self._carriers[kind] = carrier
        return carrier

    async def _ask(self, puppet: Puppet) -> None:
        if self._cell.spoken:
            await puppet.speak(loud(0.6))
        else:
            puppet.ask("tell me a story")

    async def _fault(self, lab: Lab) -> None:
        cell = self._cell
        if not cell.seam:
            await self._until(lambda: self._phase_is_here(lab))
            lab.recorder.emit("fault", seam=f"{cell.engine}.worker", effect=cell.effect)
            self._harm(lab)
        self._result.fired = await self._until(lambda: bool(lab.recorder.select("fault")))

    def _phase_is_here(self, lab: Lab) -> bool:
        now = phase(lab.recorder.events, "02:00:00:00:00:01")
        if self._cell.phase == "LLM paused for TTS":
            return now == "mid-piece, LLM paused" and bool(lab.recorder.select("sent", 1))
        return now == self._cell.phase

    async def _answer_again(self, lab: Lab, puppet: Puppet) -> None:
        """The user does something about it, and asks once more."""
        cell = self._cell
        if cell.trigger == "none":
            await self._until(lambda: not puppet.speaking and self._is_over(lab))
            await self._note_failure(lab, puppet)
        else:
            await trio.sleep(PAUSE_S)
        before = len(puppet.parts)
        was_speaking, asked_at = puppet.speaking, trio.current_time()
        stopped = puppet.parts[-1] if puppet.parts else None
        await self._trigger(puppet)
        if not await self._next(puppet, before) and cell.effect == "stop" and not cell.seam:
            # A worker that was stopped while idle is found out by the job that it gets next.
            before = len(puppet.parts)
            await self._ask_when_listening(puppet)
            await self._next(puppet, before)
        told = was_speaking and cell.trigger in ("button", "wake word", "new question")
        if told and stopped is not None and stopped.stopped_at is not None:
            self._result.stop_s = stopped.stopped_at - asked_at
        if puppet.parts and puppet.parts[-1].first_at is not None:
            self._result.next_spoke_s = puppet.parts[-1].first_at - asked_at

    async def _note_failure(self, lab: Lab, puppet: Puppet) -> None:
        fault_at = float(lab.recorder.select("fault")[0]["t"])
        if puppet.parts and puppet.parts[-1].alerts and puppet.parts[-1].stopped_at is not None:
            self._result.stop_s = puppet.parts[-1].stopped_at - fault_at

    async def _trigger(self, puppet: Puppet) -> None:
        match self._cell.trigger:
            case "none":
                await self._ask_when_listening(puppet)
            case "button":
                puppet.abort()
                await self._ask_when_listening(puppet)
            case "wake word":
                puppet.abort("wake_word_detected")
                await self._ask_when_listening(puppet)
            case "barge-in":
                await puppet.speak(loud(0.8))
            case "new question":
                puppet.ask("and then?")
            case "disconnect":
                puppet.drop()
                puppet.connect()
                await self._ask_when_listening(puppet)
            case "reconnect":
                puppet.connect()
                await self._ask_when_listening(puppet)

    async def _ask_when_listening(self, puppet: Puppet) -> None:
        if self._cell.spoken:
            await trio.sleep(0.5)  # the microphone opens again when the room is quiet
            await puppet.speak(loud(0.6))
        else:
            puppet.ask("and then?")

    async def _next(self, puppet: Puppet, before: int) -> bool:
        """Wait for the next answer's end; was any of it heard?"""
        alerts = len(puppet.alerts)

        def over() -> bool:
            if puppet.speaking:
                return False
            return len(puppet.parts) > before or len(puppet.alerts) > alerts

        await self._until(over, limit_s=45)
        return len(puppet.parts) > before and bool(puppet.parts[-1].packets)

    def _is_over(self, lab: Lab) -> bool:
        busy = any(any(s.statistics().values()) for s in lab.engines.services.values())
        return not busy and not any(
            session.conversation.is_answering for session in lab.boards.sessions.values()
        )

    def _judge(self, lab: Lab, puppet: Puppet) -> None:
        result = self._result
        if not result.fired:
            result.complaints.append("the fault never fired")
            return
        answers = answers_of(lab.recorder)
        found = [*judge_trace(answers), *puppet.complaints]
        result.stale = sum("after its stop" in one or "earlier answer" in one for one in found)
        if not puppet.parts or not answers:
            found.append("no answer at all")
        else:
            found += judge_whole(
                self._last(answers), puppet.parts[-1], STORIES, self.characters_per_packet
            )
        result.complaints += found

    def _last(self, answers: dict[int, Answer]) -> Answer:
        return answers[max(answers)]

    async def _until(self, reached: Any, limit_s: float = LONGEST_S) -> bool:
        """Look again and again (the mock clock makes that cheap)."""
        deadline = trio.current_time() + limit_s
        while not reached():
            if trio.current_time() >= deadline:
                return False
            await trio.sleep(STEP_S)
        return True
