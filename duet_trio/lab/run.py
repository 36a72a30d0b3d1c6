"""One drawn scenario, run whole on a mock clock with the server's own code, and judged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import trio
import trio._core._run as trio_run
import trio.testing

from duet_trio.engines.carrier import Carrier
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.lab.answers import answers_of, phase
from duet_trio.lab.judge import (
    judge_heard,
    judge_lateness,
    judge_pace,
    judge_prompts,
    judge_trace,
    judge_whole,
)
from duet_trio.lab.lab import Lab, loud, open_lab
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.scenario import DEADLY, STORIES, BoardScenario, Deed, Scenario
from duet_trio.lab.spies import GateSpy, PromptSpy
from duet_trio.lab.standin import StandInEncoder, packet_generation
from duet_trio.session.services import Services
from duet_trio.wire.messages import ListenStart

#: At 30 ms of speech per character.
CHARACTERS_PER_PACKET = 2.0
LEAD = 3
#: Longest wait for everything to come to rest: a stalled socket, a hung engine, its restart.
REST_S = 150.0
STEP_S = 0.5


@dataclass(slots=True)
class Outcome:
    """What one scenario showed. ``complaints``: empty if all is well."""

    seed: int
    complaints: list[str] = field(default_factory=list)
    packets: int = 0
    pieces: int = 0
    answers: int = 0
    worst_stop_s: float = 0.0
    coverage: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def run_scenario(scenario: Scenario) -> Outcome:
    """Run one scenario in a trio of its own."""
    saved = trio_run._r
    trio_run._r = random.Random(scenario.seed)
    try:
        return trio.run(Run(scenario).run, clock=trio.testing.MockClock(autojump_threshold=0))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        leaves = " / ".join(f"{type(leaf).__name__}: {leaf}" for leaf in _leaves(error))
        return Outcome(scenario.seed, [f"raised {leaves}"])
    finally:
        trio_run._r = saved


class Run:
    """One scenario while it runs."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.outcome = Outcome(scenario.seed)
        self.puppets: list[Puppet] = []
        self._prompts: PromptSpy | None = None

    async def run(self) -> Outcome:
        """Deeds, rest, one more answer for everybody, the end; then the judgement."""
        scenario = self.scenario
        lab = Lab(scenario.config(), wrap=self._watch, plan=scenario.plan, carriers=self._carrier)
        async with open_lab(lab=lab):
            if scenario.turns and not scenario.overlap:
                self._watch_gate(lab)
            before = trio.lowlevel.current_statistics().tasks_living
            self.puppets = [
                Puppet(
                    f"02:00:00:00:00:{number:02x}",
                    lab.host,
                    packet_generation,
                    slow_s=board.slow_s,
                    mode=board.mode,
                )
                for number, board in enumerate(scenario.boards, 1)
            ]
            async with trio.open_nursery() as nursery:
                for puppet, board in zip(self.puppets, scenario.boards, strict=True):
                    nursery.start_soon(self._play, lab, puppet, board)
            await self._rest(lab)
            lab.faults.disarm()
            await self._ask_again(lab)
            for puppet in self.puppets:
                puppet.drop()
            await self._rest(lab)
            await self._gone(lab, before)
            self._judge(lab)
        return self.outcome

    # --- setting up

    def _watch(self, services: Services) -> Services:
        self._prompts = PromptSpy(services.llm)
        return replace(services, llm=self._prompts, make_encoder=StandInEncoder)

    def _watch_gate(self, lab: Lab) -> None:
        def running() -> int:
            services = lab.engines.services
            return sum(services[kind].statistics()["running"] for kind in ("llm", "tts"))

        gate = GateSpy(lab.services.gate, running, self.outcome.complaints)
        lab.rewire(replace(lab.services, gate=gate))

    def _carrier(self, kind: EngineKind, settings: dict[str, Any]) -> Carrier:
        scenario = self.scenario
        return InProcessCarrier(kind, settings, load_time_s=scenario.load_s, reap_s=scenario.reap_s)

    # --- while it runs

    async def _play(self, lab: Lab, puppet: Puppet, board: BoardScenario) -> None:
        puppet.connect()
        asked = 0
        for deed in board.deeds:
            await trio.sleep(deed.after_s)
            where = phase(lab.recorder.events, puppet.device_id)
            faults = self.scenario.plan.fault or (None,)
            for fault in faults:
                effect = f"{fault.seam} {fault.effect}" if fault else "none"
                self.outcome.coverage[where, deed.kind, effect] += 1
            asked += deed.kind == "ask"
            await _do(puppet, deed, asked)

    async def _rest(self, lab: Lab) -> None:
        """Wait until nothing moves any more."""
        deadline = trio.current_time() + REST_S
        quiet = 0
        while quiet < 2 and trio.current_time() < deadline:
            await trio.sleep(STEP_S)
            moving = self._moving(lab)
            quiet = 0 if moving else quiet + 1
        if quiet < 2:
            self._complain(f"after {REST_S:g} s still: {', '.join(self._moving(lab))}")

    def _moving(self, lab: Lab) -> list[str]:
        engines = lab.engines
        moving = [
            f"{kind} {service.state} {service.statistics()}"
            for kind, service in engines.services.items()
            if service.state != "ready" or any(service.statistics().values())
        ]
        turn = engines.gpu_turn.statistics()
        if turn["holder"] is not None or turn["waiting"]:
            moving.append(f"turn {turn}")
        admission = engines.admission.statistics()
        if admission["speaking"] or admission["waiting"]:
            moving.append(f"admission {admission}")
        moving += [
            f"{board} answering"
            for board, session in lab.boards.sessions.items()
            if session.conversation.is_answering or session.outbox.statistics().controls
        ]
        moving += [
            f"{puppet.device_id} speaking"
            for puppet in self.puppets
            if puppet.speaking and puppet.connected and not self._is_deaf(lab, puppet)
        ]
        return moving

    def _is_deaf(self, lab: Lab, puppet: Puppet) -> bool:
        """Has an injected fault cut this board off without its noticing?"""
        return any(
            event["board"] == puppet.device_id and event["effect"] in ("half_open", "stall")
            for event in lab.recorder.select("fault")
            if str(event["seam"]).startswith("socket")
        )

    async def _ask_again(self, lab: Lab) -> None:
        """The next answer of every board comes, whole."""
        for puppet in self.puppets:
            if not puppet.connected or self._is_deaf(lab, puppet):
                puppet.vanish()
                puppet.connect()
        await trio.sleep(0.3)
        known = [len(puppet.parts) for puppet in self.puppets]
        for puppet in self.puppets:
            puppet.say(ListenStart(mode=puppet.mode))  # else a text after audio is a wake word
            puppet.ask("and now?")
        deadline = trio.current_time() + REST_S
        for puppet, before in zip(self.puppets, known, strict=True):
            while len(puppet.parts) == before or puppet.speaking:
                with trio.move_on_at(deadline) as scope:
                    await puppet.news.wait()
                if scope.cancelled_caught:
                    self._complain(f"{puppet.device_id}: no whole answer to the last question")
                    break
            else:
                self._judge_last(lab, puppet, before)

    def _judge_last(self, lab: Lab, puppet: Puppet, before: int) -> None:
        if len(puppet.parts) != before + 1:
            self._complain(f"{puppet.device_id}: {len(puppet.parts) - before} answers at once")
        answers = [a for a in answers_of(lab.recorder).values() if a.board == puppet.device_id]
        part, answer = puppet.parts[-1], answers[-1]
        for complaint in judge_whole(answer, part, STORIES, CHARACTERS_PER_PACKET):
            self._complain(complaint)

    async def _gone(self, lab: Lab, before: int) -> None:
        deadline = trio.current_time() + 10
        while trio.current_time() < deadline:
            living = trio.lowlevel.current_statistics().tasks_living
            if living == before and not lab.boards.sessions:
                return
            await trio.sleep(STEP_S)
        if self._half_open(lab):
            return  # the server cannot know yet that this one has gone
        self._complain(f"{living - before} tasks left over; sessions {list(lab.boards.sessions)}")

    def _half_open(self, lab: Lab) -> bool:
        return any(self._is_deaf(lab, puppet) for puppet in self.puppets) or any(
            deed.kind == "vanish" for board in self.scenario.boards for deed in board.deeds
        )

    # --- afterwards

    def _judge(self, lab: Lab) -> None:
        outcome, scenario = self.outcome, self.scenario
        answers = answers_of(lab.recorder)
        assert self._prompts is not None
        for complaint in chain(
            judge_trace(answers),
            judge_pace(answers, LEAD, self._slowness()),
            judge_prompts(answers, self._prompts.prompts),
        ):
            self._complain(complaint)
        slow_socket = any(fault.seam.startswith("socket") for fault in scenario.plan.fault)
        for puppet in self.puppets:
            exact = puppet.slow_s == 0 and not slow_socket
            for complaint in chain(
                puppet.complaints,
                judge_heard(answers, puppet, CHARACTERS_PER_PACKET, exact=exact),
                _late_stop(puppet, exact=exact),
                [] if slow_socket else judge_lateness(answers, puppet, puppet.slow_s),
            ):
                self._complain(f"{puppet.device_id}: {complaint}")
            outcome.worst_stop_s = max(outcome.worst_stop_s, puppet.worst_stop_s)
        effects = {str(event["effect"]) for event in lab.recorder.select("fault")}
        for status in lab.engines.statuses():
            if status.restarts and not effects & DEADLY:
                self._complain(f"{status.kind} was restarted without a reason: {status.detail}")
        outcome.answers = len(answers)
        outcome.pieces = sum(len(answer.pieces) for answer in answers.values())
        outcome.packets = sum(len(part.packets) for p in self.puppets for part in p.parts)

    def _slowness(self) -> dict[str, float]:
        slow_s = {puppet.device_id: puppet.slow_s for puppet in self.puppets}
        if any(fault.effect == "slow" for fault in self.scenario.plan.fault):
            return dict.fromkeys(slow_s, 1.0)
        return slow_s

    def _complain(self, complaint: str) -> None:
        if complaint not in self.outcome.complaints:
            self.outcome.complaints.append(complaint)


async def _do(puppet: Puppet, deed: Deed, asked: int) -> None:
    match deed.kind:
        case "ask":
            puppet.ask(f"question {asked}")
        case "speak":
            await puppet.speak(loud(0.6))
        case "abort":
            puppet.abort()
        case "wake_word":
            puppet.abort("wake_word_detected")
        case "press":
            puppet.press()
        case "drop":
            puppet.drop()
            puppet.connect()
        case "reconnect":
            puppet.connect()
        case "vanish":
            puppet.vanish()
            puppet.connect()
        case "junk":
            puppet.raw("{")
            puppet.raw(b"\xff" * 7)
        case "ping":
            puppet.raw('{"type":"ping"}')


def _late_stop(puppet: Puppet, *, exact: bool) -> Iterator[str]:
    if exact and puppet.worst_stop_s > 0.001:
        yield f"{puppet.worst_stop_s:.3f} s from an abort to its stop"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
