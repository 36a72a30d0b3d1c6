"""Named cases: a plan of faults and of what the user does, run once on the mock clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing

from duet_trio.config import Config, load
from duet_trio.engines.in_process import InProcessCarrier
from duet_trio.faults.plan import Deed, Plan
from duet_trio.lab.answers import Event, answers_of
from duet_trio.lab.judge import judge_trace, judge_whole
from duet_trio.lab.lab import Lab, open_lab
from duet_trio.lab.play import (
    CHARACTERS_PER_PACKET,
    LOAD_S,
    SECONDS_PER_CHARACTER,
    STORIES,
    OpusEars,
)
from duet_trio.lab.puppet import Puppet

BOARD = "02:00:00:00:00:01"
LONGEST_S = 120.0
#: Fields that are shown behind an event's name, in this order.
SHOWN = (
    "question", "seam", "effect", "cause", "who", "held_ms", "engine", "state", "index", "piece",
    "what", "outcome", "heard", "text",
)  # fmt: skip
LONGEST_VALUE = 44


@dataclass(slots=True)
class CaseResult:
    """One case. ``complaints``: empty if all is as it must be."""

    plan: Plan
    events: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def case_config() -> Config:
    """LLM and TTS scripted, taking turns on one GPU."""
    stories = ", ".join(f'"{story}"' for story in STORIES)
    return load(
        None,
        [
            *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
            "llm.gpu=true",
            "tts.gpu=true",
            f"llm.script=[{stories}]",
            f"tts.seconds_per_character={SECONDS_PER_CHARACTER}",
        ],
    )


def run_case(plan: Plan) -> CaseResult:
    """Run it in a trio of its own."""
    return trio.run(_run, plan, clock=trio.testing.MockClock(autojump_threshold=0))


async def _run(plan: Plan) -> CaseResult:
    result = CaseResult(plan)
    deeds = plan.deed or (Deed(do="ask"),)
    async with open_lab(
        case_config(),
        plan=plan,
        carriers=lambda kind, settings: InProcessCarrier(
            kind, settings, load_time_s=LOAD_S, slots=1
        ),
    ) as lab:
        puppet = Puppet(BOARD, lab.host, OpusEars())
        puppet.connect()
        await trio.sleep(0.2)
        for deed in deeds:
            if not await _until(lambda deed=deed: _has_come(lab, deed)):
                result.complaints.append(f"{deed.after} never came, so {deed.do} was not done")
                break
            await trio.sleep(deed.wait_s)
            _do(puppet, deed)
        await trio.sleep(0.1)
        await _until(lambda: _is_over(lab, puppet))
        before = len(puppet.parts)
        puppet.ask("and now?")
        await _until(lambda: len(puppet.parts) > before and not puppet.speaking)
        result.events = [dict(event) for event in lab.recorder]
        _judge(result, lab, puppet)
    return result


def _has_come(lab: Lab, deed: Deed) -> bool:
    if not deed.after:
        return True
    events = lab.recorder.select(deed.after, deed.generation)
    return sum(deed.match in _values(event) for event in events) >= deed.nth


def _values(event: Event) -> str:
    return " ".join(str(value) for value in event.values())


def _do(puppet: Puppet, deed: Deed) -> None:
    match deed.do:
        case "ask":
            puppet.ask(deed.text)
        case "abort":
            puppet.abort()
        case "wake_word":
            puppet.abort("wake_word_detected")
        case "disconnect":
            puppet.drop()
            puppet.connect()


def _is_over(lab: Lab, puppet: Puppet) -> bool:
    return not puppet.speaking and not any(
        session.conversation.is_answering for session in lab.boards.sessions.values()
    )


async def _until(reached: Any) -> bool:
    deadline = trio.current_time() + LONGEST_S
    while not reached():
        if trio.current_time() >= deadline:
            return False
        await trio.sleep(0.01)
    return True


def _judge(result: CaseResult, lab: Lab, puppet: Puppet) -> None:
    answers = answers_of(lab.recorder)
    result.complaints += [*judge_trace(answers), *puppet.complaints]
    for fault in result.plan.fault:
        if not any(event["effect"] == fault.effect for event in lab.recorder.select("fault")):
            result.complaints.append(f"{fault.seam} {fault.effect} never fired")
    result.complaints += judge_whole(
        answers[max(answers)], puppet.parts[-1], STORIES, CHARACTERS_PER_PACKET
    )


def trace_lines(result: CaseResult) -> Iterator[str]:
    """The trace for people: time, answer, event; blocks and packets of a row in one line."""
    row: list[Event] = []
    states: dict[str, str] = {}
    for event in result.events:
        kind = _kind(event)
        if kind == "engine" and not _is_news(event, states):
            continue
        if kind in ("frame", "control", "board.open", "admission"):
            continue  # what has been queued is told when it is sent
        in_row = kind in ("pcm", "packet")
        if row and (not in_row or event["generation"] != row[0]["generation"]):
            yield _row(row)
            row = []
        if in_row:
            row.append(event)
        else:
            yield f"{event['t']:8.3f}  {_answer(event):>6}  {kind:13} {_shown(event)}".rstrip()
    if row:
        yield _row(row)


def _is_news(event: Event, states: dict[str, str]) -> bool:
    """Busy and ready again is every job; loading, restarting and what follows is news."""
    engine, state = str(event["engine"]), str(event["state"])
    known = states.get(engine, "")
    if state == "busy" or (state == "ready" and known == "ready"):
        return False
    states[engine] = state
    return True


def _kind(event: Event) -> str:
    if event["event"] == "sent" and event["what"] == "frame":
        return "packet"
    return str(event["event"])


def _answer(event: Event) -> str:
    generation = event.get("generation")
    return "" if generation is None else f"#{generation}"


def _row(row: list[Event]) -> str:
    first, last = row[0], row[-1]
    blocks = sum(_kind(event) == "pcm" for event in row)
    counts = [f"{blocks} blocks made"] if blocks else []
    if len(row) > blocks:
        counts.append(f"{len(row) - blocks} packets sent")
    until = f", until {last['t']:.3f}" if len(row) > 1 else ""
    return f"{first['t']:8.3f}  {_answer(first):>6}  {'audio':13} {', '.join(counts)}{until}"


def _shown(event: Event) -> str:
    shown = []
    for name in SHOWN:
        value = event.get(name)
        if value not in (None, ""):
            text = str(value)
            text = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
            shown.append(f"{name}={text}")
    return "  ".join(shown)
