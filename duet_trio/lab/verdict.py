"""What a scenario showed: complaints and counts, judged once everything has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from duet_trio.engines.contracts import Message
from duet_trio.lab.answers import answers_of
from duet_trio.lab.judge import (
    judge_heard,
    judge_lateness,
    judge_pace,
    judge_prompts,
    judge_trace,
)
from duet_trio.lab.lab import Lab
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.scenario import DEADLY, Scenario

#: At 30 ms of speech per character.
CHARACTERS_PER_PACKET = 2.0
LEAD = 3  # packets


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

    def complain(self, complaint: str) -> None:
        """Note a complaint, once."""
        if complaint not in self.complaints:
            self.complaints.append(complaint)


def judge(
    lab: Lab,
    scenario: Scenario,
    puppets: Sequence[Puppet],
    prompts: Mapping[int, Sequence[Message]],
    outcome: Outcome,
) -> None:
    """Fill in ``outcome`` from the trace, the boards and the engines' restarts."""
    answers = answers_of(lab.recorder)
    for complaint in chain(
        judge_trace(answers),
        judge_pace(answers, LEAD, _slowness(scenario, puppets)),
        judge_prompts(answers, prompts),
    ):
        outcome.complain(complaint)
    slow_socket = any(fault.seam.startswith("socket") for fault in scenario.plan.fault)
    for puppet in puppets:
        exact = puppet.slow_s == 0 and not slow_socket
        for complaint in chain(
            puppet.complaints,
            judge_heard(answers, puppet, CHARACTERS_PER_PACKET, exact=exact),
            _late_stop(puppet, exact=exact),
            [] if slow_socket else judge_lateness(answers, puppet, puppet.slow_s),
        ):
            outcome.complain(f"{puppet.device_id}: {complaint}")
        outcome.worst_stop_s = max(outcome.worst_stop_s, puppet.worst_stop_s)
    for complaint in _restarts(lab):
        outcome.complain(complaint)
    outcome.answers = len(answers)
    outcome.pieces = sum(len(answer.pieces) for answer in answers.values())
    outcome.packets = sum(len(part.packets) for p in puppets for part in p.parts)


def _restarts(lab: Lab) -> Iterator[str]:
    effects = {str(event["effect"]) for event in lab.recorder.select("fault")}
    for status in lab.engines.statuses():
        if status.restarts and not effects & DEADLY:
            yield f"{status.kind} was restarted without a reason: {status.detail}"


def _slowness(scenario: Scenario, puppets: Sequence[Puppet]) -> dict[str, float]:
    slow_s = {puppet.device_id: puppet.slow_s for puppet in puppets}
    if any(fault.effect == "slow" for fault in scenario.plan.fault):
        return dict.fromkeys(slow_s, 1.0)
    return slow_s


def _late_stop(puppet: Puppet, *, exact: bool) -> Iterator[str]:
    if exact and puppet.worst_stop_s > 0.001:
        yield f"{puppet.worst_stop_s:.3f} s from an abort to its stop"
