"""Plans: what is read, what is refused and how, and what counts as the n-th occurrence."""

from __future__ import annotations

from pathlib import Path

import pytest

from duet_trio.errors import ConfigError
from duet_trio.events import NullRecorder
from duet_trio.faults.hub import Faults
from duet_trio.faults.plan import SEAMS, Fault, Plan, effects_of, load_plan


def written(path: Path, text: str) -> Path:
    file = path / "plan.toml"
    file.write_text(text)
    return file


def test_a_plan_is_read(tmp_path: Path) -> None:
    plan = load_plan(
        written(
            tmp_path,
            'seed = 7\n[[fault]]\nseam = "tts.block"\ngeneration = 2\nnth = 3\neffect = "hang"\n',
        )
    )
    assert plan.seed == 7
    assert plan.fault == (Fault(seam="tts.block", generation=2, nth=3, effect="hang"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[fault]]\nseam = "tts.blok"\neffect = "hang"',
            "unknown seam 'tts.blok'; one of asr.call",
        ),
        ('[[fault]]\nseam = "tts.block"\neffect = "explode"', "no effect 'explode'; one of crash"),
        ('[[fault]]\nseam = "socket.send"\neffect = "hang"', "socket.send has no effect 'hang'"),
        ('[[fault]]\nseam = "tts.block"', "effect"),
        ('[[fault]]\nseam = "tts.block"\neffect = "hang"\nnth = 0', "nth"),
        ('[[fault]]\nseam = "tts.block"\neffect = "hang"\nwhen = 1', "when"),
        ("seed = ", "not valid TOML"),
    ],
)
def test_a_wrong_plan_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_plan(written(tmp_path, text))
    message = str(caught.value)
    assert said in message
    assert "plan.toml" in message
    assert "\n" not in message


def test_a_missing_plan_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file; give faults\.plan"):
        load_plan(tmp_path / "none.toml")


def test_every_shipped_plan_can_be_read() -> None:
    plans = sorted(Path("config/faults").glob("*.toml"))
    assert len(plans) >= 3
    for path in plans:
        assert load_plan(path).about


def test_every_seam_has_effects() -> None:
    assert all(effects_of(seam) for seam in SEAMS)


def hub(**fault: object) -> Faults:
    return Faults(Plan(seed=1, fault=(Fault(**fault),)), NullRecorder())  # type: ignore[arg-type]


def struck(faults: Faults, seam: str, count: int, generation: int = 1) -> list[int]:
    """Which of so many occurrences are hit (from 1)."""
    return [
        number
        for number in range(1, count + 1)
        if faults.occurred(seam, generation, "board", "a text") is not None
    ]


def test_nth_counts_occurrences_and_strikes_once() -> None:
    assert struck(hub(seam="tts.start", effect="error", nth=3), "tts.start", 9) == [3]


def test_times_strikes_in_a_row() -> None:
    assert struck(hub(seam="tts.start", effect="error", nth=2, times=3), "tts.start", 9) == [
        2,
        3,
        4,
    ]


def test_nth_counts_within_the_generation_that_is_named() -> None:
    faults = hub(seam="tts.start", effect="error", generation=2, nth=2)
    assert struck(faults, "tts.start", 5, generation=1) == []
    assert struck(faults, "tts.start", 5, generation=2) == [2]


@pytest.mark.parametrize(
    ("only", "hit"),
    [
        ({"board": "board"}, [1]),
        ({"board": "x"}, []),
        ({"match": "text"}, [1]),
        ({"match": "y"}, []),
    ],
)
def test_board_and_text_choose(only: dict[str, str], hit: list[int]) -> None:
    assert struck(hub(seam="tts.start", effect="error", **only), "tts.start", 3) == hit


def test_chance_is_drawn_from_the_seed() -> None:
    fault = {"seam": "tts.start", "effect": "error", "times": 1000, "chance": 0.3}
    first, again = struck(hub(**fault), "tts.start", 200), struck(hub(**fault), "tts.start", 200)
    assert first == again
    assert 30 < len(first) < 90


def test_no_plan_changes_nothing() -> None:
    faults = Faults(Plan(), NullRecorder())
    services = object()
    assert faults.wrap(services) is services  # type: ignore[arg-type]
    assert faults.transport(services, "board") is services  # type: ignore[comparison-overlap, arg-type]
