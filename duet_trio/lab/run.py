"""One drawn scenario, run whole on a mock clock with the server's own code, and judged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import trio
import trio._core._run as trio_run
import trio.testing

from duet_trio.engines.carrier import Carrier
from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.lab.answers import answers_of, phase
from duet_trio.lab.judge import judge_whole
from duet_trio.lab.lab import Lab, loud, open_lab
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.rest import REST_S, is_deaf, until_gone, until_rest
from duet_trio.lab.scenario import STORIES, BoardScenario, Deed, Scenario
from duet_trio.lab.spies import GateSpy, PromptSpy
from duet_trio.lab.standin import StandInEncoder, packet_generation
from duet_trio.lab.verdict import CHARACTERS_PER_PACKET, Outcome, judge
from duet_trio.session.services import Services
from duet_trio.wire.messages import ListenStart


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
            await until_rest(lab, self.puppets, self.outcome.complain)
            lab.faults.disarm()
            await self._ask_again(lab)
            for puppet in self.puppets:
                puppet.drop()
            await until_rest(lab, self.puppets, self.outcome.complain)
            await until_gone(lab, scenario, self.puppets, before, self.outcome.complain)
            assert self._prompts is not None
            judge(lab, scenario, self.puppets, self._prompts.prompts, self.outcome)
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

    async def _ask_again(self, lab: Lab) -> None:
        """The next answer of every board comes, whole."""
        for puppet in self.puppets:
            if not puppet.connected or is_deaf(lab, puppet):
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
                    self.outcome.complain(
                        f"{puppet.device_id}: no whole answer to the last question"
                    )
                    break
            else:
                self._judge_last(lab, puppet, before)

    def _judge_last(self, lab: Lab, puppet: Puppet, before: int) -> None:
        if len(puppet.parts) != before + 1:
            self.outcome.complain(
                f"{puppet.device_id}: {len(puppet.parts) - before} answers at once"
            )
        answers = [a for a in answers_of(lab.recorder).values() if a.board == puppet.device_id]
        part, answer = puppet.parts[-1], answers[-1]
        for complaint in judge_whole(answer, part, STORIES, CHARACTERS_PER_PACKET):
            self.outcome.complain(complaint)


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


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
