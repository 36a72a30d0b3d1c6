"""Waiting until a scenario has come to rest: who still moves, and what is left over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from duet_trio.lab.lab import Lab
from duet_trio.lab.puppet import Puppet
from duet_trio.lab.scenario import Scenario

#: Longest wait for everything to come to rest: a stalled socket, a hung engine, its restart.
REST_S = 150.0
STEP_S = 0.5
GONE_S = 10.0


async def until_rest(lab: Lab, puppets: Sequence[Puppet], complain: Callable[[str], None]) -> None:
    """Wait until nothing moves any more; a complaint if something does after `REST_S`."""
    deadline = trio.current_time() + REST_S
    quiet = 0
    while quiet < 2 and trio.current_time() < deadline:
        await trio.sleep(STEP_S)
        quiet = 0 if moving(lab, puppets) else quiet + 1
    if quiet < 2:
        complain(f"after {REST_S:g} s still: {', '.join(moving(lab, puppets))}")


async def until_gone(
    lab: Lab,
    scenario: Scenario,
    puppets: Sequence[Puppet],
    tasks: int,
    complain: Callable[[str], None],
) -> None:
    """Wait until no session and no task beyond ``tasks`` is left; a complaint after `GONE_S`."""
    deadline = trio.current_time() + GONE_S
    while trio.current_time() < deadline:
        living = trio.lowlevel.current_statistics().tasks_living
        if living == tasks and not lab.boards.sessions:
            return
        await trio.sleep(STEP_S)
    if _half_open(lab, scenario, puppets):
        return  # the server cannot know yet that this one has gone
    complain(f"{living - tasks} tasks left over; sessions {list(lab.boards.sessions)}")


def moving(lab: Lab, puppets: Sequence[Puppet]) -> list[str]:
    """What has not come to rest, in words."""
    engines = lab.engines
    found = [
        f"{kind} {service.state} {service.statistics()}"
        for kind, service in engines.services.items()
        if service.state != "ready" or any(service.statistics().values())
    ]
    turn = engines.gpu_turn.statistics()
    if turn["holder"] is not None or turn["waiting"]:
        found.append(f"turn {turn}")
    admission = engines.admission.statistics()
    if admission["speaking"] or admission["waiting"]:
        found.append(f"admission {admission}")
    found += [
        f"{board} answering"
        for board, session in lab.boards.sessions.items()
        if session.conversation.is_answering or session.outbox.statistics().controls
    ]
    found += [
        f"{puppet.device_id} speaking"
        for puppet in puppets
        if puppet.speaking and puppet.connected and not is_deaf(lab, puppet)
    ]
    return found


def is_deaf(lab: Lab, puppet: Puppet) -> bool:
    """Has an injected fault cut this board off without its noticing?"""
    return any(
        event["board"] == puppet.device_id and event["effect"] in ("half_open", "stall")
        for event in lab.recorder.select("fault")
        if str(event["seam"]).startswith("socket")
    )


def _half_open(lab: Lab, scenario: Scenario, puppets: Sequence[Puppet]) -> bool:
    return any(is_deaf(lab, puppet) for puppet in puppets) or any(
        deed.kind == "vanish" for board in scenario.boards for deed in board.deeds
    )
