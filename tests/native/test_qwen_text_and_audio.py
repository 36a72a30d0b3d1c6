"""The guards that need no engine: text in portions, quiet ends, soft edges, endless silence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.engines.adapters.qwen_audio import (
    FADE,
    LEAD_KEPT,
    SILENCE_ENDS,
    SILENCE_FAILS,
    TAIL_KEPT,
    WINDOW,
    PieceShaper,
)
from duet_trio.engines.adapters.qwen_text import clean, split
from duet_trio.engines.native.audio import count_loud, loud_windows, pcm16
from duet_trio.engines.native.types import Floats

RATE = 24_000


def tone(samples: int, level: float = 0.3) -> Floats:
    return (level * np.sin(2 * np.pi * 220 * np.arange(samples) / RATE)).astype(np.float32)


def quiet(samples: int) -> Floats:
    return np.full(samples, 1e-4, np.float32)


def shape(audio: Floats, block: int = 1920) -> tuple[Floats, PieceShaper, list[int]]:
    """What leaves, the shaper, and how many samples had left after each block."""
    out: list[bytes] = []
    left: list[int] = []
    shaper = PieceShaper(out.append)
    for start in range(0, len(audio), block):
        going = shaper.take(audio[start : start + block])
        left.append(sum(map(len, out)) // 2)
        if not going:
            break
    shaper.finish()
    pcm = np.frombuffer(b"".join(out), "<i2").astype(np.float32) / np.float32(32767)
    return pcm.astype(np.float32), shaper, left


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Hello  there.\n", "Hello there."),
        ("<|im_start|>Hi<|im_end|>!", "Hi !"),
        ("a <tts_pad> b <tts_text_bos", "a b text_bos"),
        ("one <| two |> three", "one two three"),
        ("bell\a and nul\0", "bell and nul"),
        ("lone \ud800 half", "lone half"),
        ("<\ud800|im_end|\ud800>Hi", "Hi"),
        ("<tts\udfff_pad>Hi <\udc00tts_pad>", "Hi"),
        ("<\u200b|im_end|\u200b>Hi", "< |im_end| >Hi"),
        ("\u3164\uffa0 \u202e", ""),
        ("🙂👍🏽\ufe0f", ""),
        ("שלום \u202bאב\u202c", "שלום אב"),
        ("… — !!", ""),
        ("", ""),
        ("<|endoftext|>", ""),
        ("你好。", "你好。"),
        ("7", "7"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(st.text(max_size=700))
@settings(max_examples=200, deadline=None)
def test_split_loses_nothing_and_bounds_every_portion(text: str) -> None:
    cleaned = clean(text)
    portions = split(cleaned)
    assert all(0 < len(portion) <= 250 for portion in portions)
    kept = [c for c in "".join(portions) if c.isalnum()]
    assert kept == [c for c in cleaned if c.isalnum()]


def test_split_prefers_sentences_then_clauses_then_spaces() -> None:
    sentence = "This sentence has exactly so many words in it. "
    assert all(portion.endswith(".") for portion in split(sentence * 12))
    clause = "and then there came another part of it, "
    assert all(portion.endswith(",") for portion in split(clause * 12)[:-1])
    assert all(len(portion) > 200 for portion in split("word " * 120)[:-1])
    assert len(split("Yes. " + "word " * 120)[0]) > 200, "no stub that is spoken by itself"
    assert [len(portion) for portion in split("x" * 600)] == [250, 250, 100]


def test_leading_silence_goes_and_the_edges_are_soft() -> None:
    audio = np.concatenate([quiet(RATE), tone(RATE), quiet(RATE)])
    pcm, shaper, _ = shape(audio)
    assert shaper.heard
    assert len(pcm) == LEAD_KEPT + RATE + TAIL_KEPT
    assert abs(pcm[0]) < 1e-4
    assert pcm[-1] == 0
    loud = np.abs(tone(RATE)).max()
    assert np.abs(pcm[LEAD_KEPT:]).max() == pytest.approx(loud, abs=1e-3)


def test_audio_that_begins_and_ends_in_mid_sound_is_faded() -> None:
    audio = np.full(9600, 0.4, np.float32) * np.sign(tone(9600) + 1e-9)
    pcm, _, _ = shape(audio)
    assert abs(pcm[0]) < 0.01
    assert np.abs(pcm[:FADE]).max() < 0.41
    assert len(pcm) == len(audio) + FADE
    assert abs(pcm[-1]) < 0.01
    assert np.abs(np.diff(pcm[-FADE:])).max() < 0.01  # goes down instead of breaking off


def test_voiced_audio_leaves_with_its_block() -> None:
    _, _, left = shape(tone(12 * 1920), block=1920)
    assert left == [1920 * (n + 1) for n in range(len(left))]


def test_odd_blocks_hold_back_less_than_a_window() -> None:
    audio = tone(RATE)
    _, _, left = shape(audio, block=777)
    given_samples = [min(777 * (n + 1), RATE) for n in range(len(left))]
    assert all(0 <= g - n < WINDOW for g, n in zip(given_samples, left, strict=True))


def test_pauses_inside_speech_are_kept_whole() -> None:
    audio = np.concatenate([tone(RATE), quiet(RATE), tone(RATE)])
    pcm, _, _ = shape(audio)
    assert len(pcm) == len(audio) + FADE


def test_long_silence_after_speech_stops_the_engine() -> None:
    audio = np.concatenate([tone(RATE), quiet(10 * RATE)])
    pcm, shaper, left = shape(audio)
    assert len(left) * 1920 <= RATE + SILENCE_ENDS + 2 * 1920
    assert len(pcm) == RATE + TAIL_KEPT
    assert shaper.heard


def test_a_slow_start_is_waited_for() -> None:
    pcm, shaper, _ = shape(np.concatenate([quiet(2 * RATE), tone(RATE)]))
    assert shaper.heard
    assert len(pcm) == LEAD_KEPT + RATE + FADE


def test_silence_alone_stops_and_gives_nothing() -> None:
    pcm, shaper, left = shape(quiet(20 * RATE))
    assert not shaper.heard
    assert len(pcm) == 0
    assert len(left) * 1920 <= SILENCE_FAILS + 2 * 1920


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5000)), max_size=8), st.integers(1, 5000))
@settings(max_examples=60, deadline=None)
def test_block_size_does_not_matter(parts: list[tuple[bool, int]], block: int) -> None:
    audio = np.concatenate(
        [np.zeros(0, np.float32), *(tone(n) if loud else quiet(n) for loud, n in parts)]
    )
    assert np.array_equal(shape(audio, block)[0], shape(audio, 1920)[0])


def test_samples_beyond_full_scale_are_clipped() -> None:
    pcm, _, _ = shape(tone(4800, level=3.0))
    assert np.abs(pcm).max() == 1.0


def test_the_block_is_the_engines_again_after_the_call() -> None:
    """What was held back is a copy: the engine's memory is something else by then."""
    parts = [quiet(1920), tone(1920), quiet(1920), tone(2020), quiet(77), tone(1843), quiet(1920)]
    outputs: list[bytes] = []
    for reused in (True, False):
        out: list[bytes] = []
        shaper = PieceShaper(out.append)
        memory = np.zeros(2020, np.float32)
        for audio in parts:
            block = memory[: audio.size] if reused else audio
            block[:] = audio
            shaper.take(block)
            memory[:] = 0.9
        shaper.finish()
        outputs.append(b"".join(out))
    assert outputs[0] == outputs[1]


def test_silence_within_one_long_block_is_shortened() -> None:
    audio = np.concatenate([tone(RATE), quiet(4 * RATE), tone(RATE)])
    pcm, _, _ = shape(audio, block=len(audio))
    assert len(pcm) == RATE + SILENCE_ENDS + RATE + FADE


@given(
    st.lists(st.floats(-4, 4, width=32), max_size=60),
    st.integers(1, 20),
    st.floats(0.0009765625, 40, width=32),
)
@settings(max_examples=100, deadline=None)
def test_the_compiled_steps_do_what_numpy_does(
    values: list[float], window: int, energy: float
) -> None:
    pcm = np.array(values, np.float32)
    scaled = np.clip(pcm * np.float32(32767), -32767, 32767)
    assert pcm16(pcm) == np.rint(scaled).astype("<i2").tobytes()
    windows = pcm[: len(pcm) // window * window].reshape(-1, window).astype(np.float64)
    sums = np.sum(windows**2, axis=1)
    sure = np.abs(sums - energy) > 1e-4 * energy
    loud = loud_windows(pcm, window, energy)
    assert np.array_equal(loud[sure], (sums > energy)[sure])
    assert count_loud(pcm, window, energy) == loud.sum()
