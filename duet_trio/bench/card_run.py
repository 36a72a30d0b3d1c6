"""``duet bench turns --model``: both schedules on a modelled card, beside what the card did.

Virtual time, the real session code. What the model was fitted on is shown as such; everything
else is a prediction, printed with the reference and the error, whatever they are.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio
import trio.testing

from duet_trio.bench.card import CardModel, Variant
from duet_trio.bench.card_engine import ModelledCard
from duet_trio.bench.turns_figures import Answers, Sitting, align
from duet_trio.bench.turns_stage import SCHEDULES, Schedule, open_stage
from duet_trio.bench.turns_texts import QUESTIONS, STORIES
from duet_trio.config import Config, load
from duet_trio.trace.records import Event
from duet_trio.trace.statistics import BUFFER_S

#: Runs of each of the smaller set-ups, as many as the controlled test had.
FEW = 6
CONTROLLED_BUFFER_S = 0.5


@dataclass(slots=True)
class CardFigures:
    """Everything that one call found. ``events`` of each answer of the sitting."""

    model: CardModel
    rtf: float
    sitting: Sitting
    extra: dict[str, Answers] = field(default_factory=dict)
    events: dict[Schedule, list[list[Event]]] = field(default_factory=dict)


def measure(
    model: CardModel, *, answers: int, seed: int, rtf: float, buffer_s: float = BUFFER_S
) -> CardFigures:
    """Run the sitting; with the file's own speeds (``rtf`` 0) the other set-ups as well."""
    found = CardFigures(model, rtf, {schedule: Answers() for schedule in SCHEDULES})
    variant = Variant(rtf=rtf)
    for schedule in SCHEDULES:
        runs = _run(model, variant, schedule, answers, seed, STORIES)
        found.events[schedule] = runs
        for events in runs:
            found.sitting[schedule].add(events, buffer_s)
    if rtf:
        return found
    few = min(FEW, answers)
    smaller: tuple[tuple[str, Variant, Schedule], ...] = (
        ("LLM on the CPU", Variant(off_card=True), "overlap"),
        ("at once, LLM 20 tok/s", Variant(throttle_tokens_per_s=20), "overlap"),
        ("at once, LLM 14 tok/s", Variant(throttle_tokens_per_s=14), "overlap"),
    )
    for name, other, schedule in smaller:
        found.extra[name] = _judge(_run(model, other, schedule, few, seed, STORIES), buffer_s)
    for schedule in SCHEDULES:
        runs = _run(model, variant, schedule, few, seed + 1, STORIES[:1])
        found.extra[f"controlled, {schedule}"] = _judge(runs, CONTROLLED_BUFFER_S)
    return found


def _judge(runs: Sequence[Sequence[Event]], buffer_s: float) -> Answers:
    answers = Answers()
    for events in runs:
        answers.add(events, buffer_s)
    return answers


def _run(
    model: CardModel,
    variant: Variant,
    schedule: Schedule,
    answers: int,
    seed: int,
    stories: Sequence[str],
) -> list[list[Event]]:
    async def main() -> list[list[Event]]:
        card = ModelledCard(model, variant, seed=seed)
        async with open_stage(_config(stories), card.carrier, encode=False) as stage:
            return [
                await stage.ask(schedule, QUESTIONS[number % len(QUESTIONS)])
                for number in range(answers)
            ]

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def _config(stories: Sequence[str]) -> Config:
    return load(
        None,
        [
            *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
            "llm.gpu=true",
            "tts.gpu=true",
            f"llm.script={list(stories)!r}",
        ],
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One predicted figure beside its reference; ``error`` is 0 inside the reference's range."""

    setup: str
    figure: str
    mean: float
    least: float
    most: float
    reference: tuple[float, float]
    fitted: bool = False

    @property
    def error(self) -> float:
        """Distance of the mean from the reference's range."""
        low, high = self.reference
        return self.mean - min(max(self.mean, low), high)

    def row(self) -> list[str]:
        """For the table."""
        low, high = self.reference
        reference = f"{low:g}" if low == high else f"{low:g}–{high:g}"
        kind = "fitted" if self.fitted else "predicted"
        found = f"{self.mean:.2f} ({self.least:.2f}–{self.most:.2f})"
        return [self.setup, self.figure, kind, found, reference, f"{self.error:+.2f}"]


def compare(found: CardFigures) -> list[Comparison]:
    """All figures that the model's file has a reference for, the fitted ones first."""
    turns, overlap = found.sitting["turns"], found.sitting["overlap"]
    setups = {
        "at_once": ("at once", overlap),
        "turns": ("in turns", turns),
        "off_card": ("LLM on the CPU", found.extra.get("LLM on the CPU", Answers())),
    }
    rows: list[Comparison] = []
    voice = found.model.voice
    for name, anchor in (
        ("at_once", voice.first_sentence_rtf_at_once),
        ("turns", voice.first_sentence_rtf_turns),
    ):
        label, answers = setups[name]
        rows.append(_one(label, "first_rtf", answers, (anchor, anchor), fitted=True))
    for key, reference in found.model.reference.items():
        for name, (label, answers) in setups.items():
            figure = key.removeprefix(f"{name}_")
            if figure != key and answers.each:
                rows.append(_one(label, figure, answers, reference))
    return rows


def _one(
    setup: str,
    figure: str,
    answers: Answers,
    reference: tuple[float, float],
    *,
    fitted: bool = False,
) -> Comparison:
    values = answers.values(figure)
    mean = statistics.fmean(values)
    return Comparison(setup, figure, mean, min(values), max(values), reference, fitted)


def report(found: CardFigures) -> list[str]:
    """The lines for a person, below the table of both schedules."""
    model = found.model
    lines = [
        f"modelled card: {model.card.name}; virtual time, no model and no card is running",
        f"voice {model.voice.rtf:g} x audio + {model.request_s:.2f} s a request,"
        f" beside the LLM at {model.voice_share:.2f} of its speed;"
        f" LLM at {model.llm_share:.2f} beside the voice",
    ]
    if found.rtf:
        turns = found.sitting["turns"]
        first = sorted(turns.values("first_audio_s"))
        whole = sum(not one.stalls for one in turns.each)
        lines[1] = f"every piece takes {found.rtf:g} x its audio when alone (--rtf)"
        lines.append(
            f"in turns: {whole} of {len(first)} answers without a stall; first audio, hold"
            f" included, p50 {first[len(first) // 2]:.2f} s,"
            f" p95 {first[min(len(first) - 1, int(0.95 * len(first)))]:.2f} s"
        )
        return lines
    rows = [["set-up", "figure", "", "model: mean (range)", "reference", "error"]]
    rows += [one.row() for one in compare(found)]
    lines += ["", *align(rows), "", *_verdicts(found)]
    return lines


def _verdicts(found: CardFigures) -> list[str]:
    def stalled(answers: Answers) -> str:
        return f"{sum(one.stalls > 0 for one in answers.each)} of {len(answers.each)}"

    def effect(answers: Answers) -> str:
        delay_s = statistics.fmean(answers.values("start_delay_s"))
        return f"start delay {delay_s:.2f} s, stalled {stalled(answers)}"

    extra = found.extra
    return [
        "controlled test (one text, player with 0.5 s): stalled at once"
        f" {stalled(extra['controlled, overlap'])} (reference 6 of 6),"
        f" in turns {stalled(extra['controlled, turns'])} (reference 0 of 6)",
        "throttling the LLM at once (reference: did not help):",
        f"  not throttled  {effect(found.sitting['overlap'])}",
        f"  20 tok/s       {effect(extra['at once, LLM 20 tok/s'])}",
        f"  14 tok/s       {effect(extra['at once, LLM 14 tok/s'])}",
        f"  in turns       {effect(found.sitting['turns'])}",
    ]
