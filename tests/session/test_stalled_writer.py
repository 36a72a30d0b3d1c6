"""A model that stalls in mid-answer: what it has written is spoken if it can stand by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from duet_trio.board.script import Question
from duet_trio.engines.contracts import Hold, WriteRequest, Written
from duet_trio.lab.lab import Lab, open_lab
from tests.protocol.peer import scripted
from tests.session.fake_model import FakeModel

LONG = "This is a first sentence which is long enough to be a piece of its own in any case. "
Steps = Sequence[tuple[float, str]]


@dataclass
class Halting(FakeModel):
    """A model, and its one stream: waits, then writes the text of each step.

    ``obeys``: it stops once it is asked to.
    """

    steps: Steps
    obeys: bool = True

    def begin(self) -> None:
        self._left = list(self.steps)

    async def write(
        self, request: WriteRequest, on_text: Callable[[str], bool], hold: Hold | None = None
    ) -> Written:
        count = 0
        while self._left and count < request.max_tokens:
            wait_s, text = self._left.pop(0)
            await trio.sleep(wait_s)
            count += 1
            if not on_text(text) and self.obeys:
                break
        return Written(count, finished=not self._left)


async def answer(
    steps: Steps, *assignments: str, obeys: bool = True
) -> tuple[Lab, dict[str, float]]:
    """One typed question; when each piece was made, counted from the question."""
    sets = ("tts.rtf=0.5", "tts.first_audio_s=0.1", *assignments)
    async with open_lab(scripted(*sets), wrap=Halting(steps, obeys).wrap) as lab:
        await lab.board(1).run([Question("Are you there?")])
    (start,) = lab.events("answer.start")
    pieces: list[dict[str, Any]] = list(lab.events("piece"))
    made = {str(event["text"]): event["t"] - start["t"] for event in pieces}
    return lab, made


def end_of(lab: Lab) -> dict[str, Any]:
    (end,) = lab.events("answer.end")
    return end


async def test_a_short_sentence_goes_after_a_second(
    autojump_clock: object, scheduler_seed: int
) -> None:
    lab, made = await answer([(0.1, "It costs"), (0.1, " $3."), (0.1, "14."), (3.0, " Good.")])
    assert made == {
        "It costs $3.14.": pytest.approx(0.3 + 1.0, abs=0.01),
        " Good.": pytest.approx(0.3 + 3.0, abs=0.01),
    }
    assert (end_of(lab)["outcome"], end_of(lab)["heard"]) == ("done", "It costs $3.14. Good.")


async def test_what_could_go_on_waits(autojump_clock: object, scheduler_seed: int) -> None:
    _lab, made = await answer([(0.1, "It costs $3."), (3.0, "14"), (0.1, ".")])
    assert made == {"It costs $3.14.": pytest.approx(3.2, abs=0.01)}


async def test_with_audio_ahead_a_stall_is_none(
    autojump_clock: object, scheduler_seed: int
) -> None:
    """Five seconds are being played: the pause of 1.5 s is nobody's concern."""
    _lab, made = await answer([(0.1, LONG), (0.1, "Yes."), (1.5, " It is"), (0.1, " so.")])
    assert list(made) == [LONG.strip(), " Yes. It is so."]


async def test_it_goes_in_time_when_the_audio_runs_out(
    autojump_clock: object, scheduler_seed: int
) -> None:
    _lab, made = await answer([(0.1, LONG), (0.1, "Yes."), (4.5, " It is so.")])
    assert list(made) == [LONG.strip(), " Yes.", " It is so."]
    assert 2.0 < made[" Yes."] < 4.0


async def test_the_time_is_configured(autojump_clock: object) -> None:
    _lab, made = await answer([(0.1, "Yes."), (1.0, " It is so.")], "llm.flush_s=0.5")
    assert made["Yes."] == pytest.approx(0.6, abs=0.01)


async def test_on_a_shared_card_a_stalled_model_still_has_the_turn(
    autojump_clock: object, scheduler_seed: int
) -> None:
    steps = [(0.1, "Yes."), (3.0, " It is so.")]
    lab, made = await answer(steps, "llm.gpu=true", "tts.gpu=true")
    assert list(made) == ["Yes. It is so."]
    assert end_of(lab)["outcome"] == "done"


async def test_a_piece_that_finds_no_room_is_neither_lost_nor_told_twice(
    autojump_clock: object, scheduler_seed: int
) -> None:
    """The voice is at its first piece, and one waits; then the model stalls, and goes on."""
    steps = [
        *((0.01, f"Number {word} is a sentence of a length that makes a piece of it. ")
          for word in ("one", "two", "three")),
        (0.01, "Yes."),
        (2.0, " It is so."),
    ]  # fmt: skip
    lab, made = await answer(steps, "tts.rtf=3.0", "tts.first_audio_s=2.0")
    spoken = [str(event["text"]) for event in lab.events("tts.start")]
    assert spoken == [text.strip() for text in made]
    assert len(lab.events("piece")) == len(made)
    assert " ".join(spoken).endswith("Yes. It is so.")
    assert end_of(lab)["outcome"] == "done"


async def test_the_hold_ends_while_the_flush_waits_for_room(
    autojump_clock: object, scheduler_seed: int
) -> None:
    """What has been told to be a piece is handed over all the same, once."""
    numbered = [f"Number {word} is a sentence of a length that makes a piece of it. "
                for word in ("one", "two", "three", "four")]  # fmt: skip
    steps = [(0.01, "".join(numbered)), (2.0, "Yes.")]
    lab, made = await answer(steps, "tts.rtf=1.0", "tts.first_audio_s=2.0", obeys=False)
    assert "".join(made) == "".join(numbered) + "Yes."
    spoken = [str(event["text"]) for event in lab.events("tts.start")]
    assert spoken == [text.strip() for text in made]
    assert end_of(lab)["outcome"] == "done"


async def test_a_whole_piece_goes_though_the_model_stalls_instead_of_stopping(
    autojump_clock: object, scheduler_seed: int
) -> None:
    _lab, made = await answer([(0.1, LONG + "Yes"), (4.0, ".")], obeys=False)
    assert made[LONG.strip()] == pytest.approx(1.1, abs=0.01)
    assert made[" Yes."] == pytest.approx(4.1, abs=0.01)
