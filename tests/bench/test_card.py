"""The modelled card: its arithmetic, and how its two engines slow each other down."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.bench.card import CardModel, Variant, draw, load_card, speech_steps
from duet_trio.bench.card_engine import ModelledCard
from duet_trio.config import load
from duet_trio.engines.contracts import Message, SpeechRequest, WriteRequest
from duet_trio.engines.factory import EngineSet
from duet_trio.errors import ConfigError

FILE = Path(__file__).parents[2] / "config" / "gpu-rtx4060-laptop.toml"
TEXT = "This is a sentence of the voice that is long enough to have many blocks in it."


@pytest.fixture(name="model")
def fixture_model() -> CardModel:
    return load_card(FILE)


def test_what_is_computed_with_follows_from_the_measured_anchors(model: CardModel) -> None:
    voice = model.voice
    alone_s = voice.rtf * voice.first_sentence_s + model.request_s
    assert alone_s / voice.first_sentence_s == pytest.approx(voice.first_sentence_rtf_turns)
    assert alone_s / model.voice_share / voice.first_sentence_s == pytest.approx(
        voice.first_sentence_rtf_at_once
    )
    assert model.voice_share + model.llm_share == pytest.approx(1)


def test_blocks_of_the_first_sentence_come_as_often_as_was_measured(model: CardModel) -> None:
    steps = speech_steps(model, Variant(), model.voice.first_sentence_s, 1.1)
    later = [work_s for work_s, audio_s in steps if audio_s == pytest.approx(0.16)]
    assert later[0] == pytest.approx(0.19, abs=0.04)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.1, 16), st.floats(1.0, 1.2), st.sampled_from([0.0, 0.6, 0.75, 0.86, 1.2]))
def test_a_request_takes_its_time_and_gives_its_audio(
    audio_s: float, burst_s: float, rtf: float
) -> None:
    model = load_card(FILE)
    steps = speech_steps(model, Variant(rtf=rtf), audio_s, burst_s)
    wanted_s = rtf * audio_s if rtf else model.voice.rtf * audio_s + model.request_s
    assert sum(work_s for work_s, _ in steps) == pytest.approx(wanted_s)
    assert sum(audio for _, audio in steps) == pytest.approx(audio_s)
    assert min(work_s for work_s, _ in steps) >= 0
    blocks = [audio for _, audio in steps if audio]
    assert blocks[0] <= burst_s + 1e-9
    assert all(audio <= model.voice.block_s + 1e-9 for audio in blocks[1:])


def test_both_schedules_draw_the_same_speeds(model: CardModel) -> None:
    drawn = [draw(model, 1, number) for number in range(1, 31)]
    assert drawn == [draw(model, 1, number) for number in range(1, 31)]
    assert len({one.burst_s for one in drawn}) == 30
    assert all(61 <= one.tokens_per_s <= 66 and 1.0 <= one.burst_s <= 1.2 for one in drawn)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[card", "not a modelled card"),
        ('[card]\nname = "x"\n', "llm"),
        ("more = 1\n" + FILE.read_text(), "more"),
        (FILE.read_text().replace("rtf = 0.6", "rtf = -1"), "rtf"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "card.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_card(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_card(tmp_path / "none.toml")


async def times(model: CardModel, variant: Variant, *, beside: bool) -> tuple[float, float]:
    """Seconds to speak `TEXT` and to write 60 tokens, beside each other or one by one."""
    words = "word " * 200
    config = load(
        None,
        [
            *(f"{kind}.engine=scripted" for kind in ("asr", "llm", "tts")),
            f"llm.script=[{words!r}]",
        ],
    )
    card = ModelledCard(model, variant, seed=1)
    engines = EngineSet(config, None, card.carrier)
    taken: dict[str, float] = {}

    async def speak() -> None:
        began = trio.current_time()
        request = SpeechRequest(TEXT, generation=1, piece=0, cap_s=20)
        spoken = await engines.tts.speak(request, lambda _pcm: None)
        assert spoken.audio_s == pytest.approx(len(TEXT) * 0.06, abs=0.01)
        taken["tts"] = trio.current_time() - began

    async def write(tokens: int) -> None:
        began = trio.current_time()
        stream = engines.llm.start([Message("user", "hello")], generation=1)
        written = await stream.write(WriteRequest(tokens), lambda _text: True)
        assert written.tokens == tokens
        stream.close()
        taken["llm"] = trio.current_time() - began

    async with trio.open_nursery() as nursery:
        await nursery.start(engines.run)
        await engines.wait_ready()
        async with trio.open_nursery() as both:
            both.start_soon(speak)
            if beside:
                both.start_soon(write, 60)
        if not beside:
            await write(60)
        nursery.cancel_scope.cancel()
    return taken["tts"], taken["llm"]


async def test_alone_each_has_its_own_speed(model: CardModel, autojump_clock: object) -> None:
    tts_s, llm_s = await times(model, Variant(), beside=False)
    assert tts_s == pytest.approx(0.6 * len(TEXT) * 0.06 + model.request_s, abs=0.01)
    assert 60 / 66 <= llm_s - model.llm.prompt_s <= 60 / 61


async def test_side_by_side_they_share_the_card(model: CardModel, autojump_clock: object) -> None:
    tts_s, llm_s = await times(model, Variant(), beside=True)
    alone_s = 0.6 * len(TEXT) * 0.06 + model.request_s
    # The language model is beside the voice all the time, the voice only until it has written.
    rate = draw(model, 1, 1).tokens_per_s
    assert llm_s == pytest.approx((60 / rate + model.llm.prompt_s) / model.llm_share, rel=0.03)
    assert tts_s == pytest.approx(alone_s + llm_s * (1 - model.voice_share), rel=0.03)


async def test_off_the_card_nobody_slows_the_voice(
    model: CardModel, autojump_clock: object
) -> None:
    tts_s, llm_s = await times(model, Variant(off_card=True), beside=True)
    assert tts_s == pytest.approx(0.6 * len(TEXT) * 0.06 + model.request_s, abs=0.01)
    assert llm_s == pytest.approx(2.0 + 60 / 8, abs=0.01)


async def test_a_throttle_is_a_pause_and_not_slower_work(
    model: CardModel, autojump_clock: object
) -> None:
    _, llm_s = await times(model, Variant(throttle_tokens_per_s=20), beside=False)
    assert llm_s == pytest.approx(60 / 20 + model.llm.prompt_s, abs=0.06)
    free, _ = await times(model, Variant(), beside=False)
    throttled, _ = await times(model, Variant(throttle_tokens_per_s=5), beside=True)
    assert free < throttled < free / model.voice_share


def test_the_file_has_nothing_that_is_not_read() -> None:
    tree = msgspec.toml.decode(FILE.read_bytes())
    assert msgspec.to_builtins(load_card(FILE)) == msgspec.to_builtins(
        msgspec.convert(tree, CardModel)
    )
    assert set(tree) == set(CardModel.__struct_fields__)
