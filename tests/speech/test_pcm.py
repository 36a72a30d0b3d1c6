"""PCM arithmetic, and the holder of quiet tails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.speech.pcm import (
    SILENCE_DBFS,
    TailHolder,
    byte_count,
    duration_s,
    fade_in,
    fade_out,
    level_dbfs,
    split_quiet_tail,
)

RATE_HZ = 24_000


def tone(ms: float, amplitude: float = 8000.0) -> bytes:
    count = round(ms * RATE_HZ / 1000)
    wave = amplitude * np.sin(2 * np.pi * 440 * np.arange(count) / RATE_HZ)
    return np.rint(wave).astype("<i2").tobytes()


def quiet(ms: float) -> bytes:
    """Room tone at about -70 dBFS."""
    return tone(ms, 10.0)


def ms(pcm: bytes) -> float:
    return duration_s(pcm) * 1000


def test_levels() -> None:
    assert level_dbfs(b"") == SILENCE_DBFS
    assert level_dbfs(bytes(200)) == SILENCE_DBFS
    assert level_dbfs(np.full(100, -32768, "<i2").tobytes()) == pytest.approx(0)
    assert level_dbfs(tone(100, 32767)) == pytest.approx(-3.01, abs=0.05)
    assert level_dbfs(quiet(100)) == pytest.approx(-73.3, abs=1)


def test_lengths() -> None:
    assert byte_count(0.06) == 2880
    assert byte_count(-1) == 0
    assert duration_s(tone(60)) == pytest.approx(0.06)
    assert byte_count(1, 16_000) == 32_000


def test_fades_end_in_nothing_and_leave_the_rest() -> None:
    pcm = np.full(2400, 1000, "<i2").tobytes()
    out = np.frombuffer(fade_out(pcm, 5), "<i2")
    assert out[-1] == 0
    assert (out[:-120] == 1000).all()
    assert (np.diff(out) <= 0).all()
    into = np.frombuffer(fade_in(pcm, 5), "<i2")
    assert into[0] == 0
    assert (into[120:] == 1000).all()
    assert (np.diff(into) >= 0).all()
    assert fade_out(b"", 5) == fade_in(b"", 5) == b""
    assert len(fade_out(pcm[:20], 5)) == 20
    assert fade_out(pcm, 0) == pcm


def test_a_torn_sample_is_refused() -> None:
    for call in (lambda: level_dbfs(b"abc"), lambda: TailHolder().feed(b"a")):
        with pytest.raises(ValueError, match="whole"):
            call()


def test_the_quiet_tail_is_parted_from_the_voice() -> None:
    voiced, tail = split_quiet_tail(tone(100) + quiet(300))
    assert ms(voiced) == pytest.approx(100, abs=10)
    assert ms(tail) == pytest.approx(300, abs=10)
    assert split_quiet_tail(tone(100)) == (tone(100), b"")
    assert split_quiet_tail(quiet(100)) == (b"", quiet(100))
    assert split_quiet_tail(b"") == (b"", b"")


def test_voiced_audio_is_never_held() -> None:
    holder = TailHolder()
    for _ in range(10):
        assert holder.feed(tone(100)) == tone(100)
        assert holder.held_bytes == 0
    assert holder.finish() == b""


def test_a_long_tail_is_cut_to_200_ms() -> None:
    holder = TailHolder()
    out = holder.feed(tone(500) + quiet(100)) + holder.feed(quiet(1200)) + holder.finish()
    assert ms(out) == pytest.approx(700, abs=11)
    assert out == (tone(500) + quiet(100) + quiet(1200))[: len(out)]


def test_a_pause_inside_is_given_back_whole() -> None:
    holder = TailHolder()
    first = holder.feed(tone(100) + quiet(700))
    assert ms(first) == pytest.approx(300, abs=11)
    assert holder.feed(tone(100)) == (tone(100) + quiet(700))[len(first) :] + tone(100)


def test_a_holder_can_be_used_for_the_next_piece() -> None:
    holder = TailHolder(keep_ms=0)
    assert holder.feed(quiet(100)) == b""
    assert holder.finish() == b""
    assert holder.feed(tone(50)) == tone(50)


BLOCKS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 40)).map(
        lambda part: tone(part[1] * 10) if part[0] else quiet(part[1] * 10)
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(BLOCKS, st.sampled_from([0, 100, 200]))
def test_what_comes_out_is_the_piece_without_the_end_of_its_tail(
    blocks: list[bytes], keep_ms: int
) -> None:
    holder = TailHolder(keep_ms)
    whole, out = b"".join(blocks), b""
    for block in blocks:
        out += holder.feed(block)
        held = holder.held_bytes
        assert held == 0 or level_dbfs(whole[len(out) : len(out) + held]) < -50
    out += holder.finish()
    assert whole.startswith(out)
    voiced, tail = split_quiet_tail(whole)
    assert out.startswith(voiced)
    assert len(out) - len(voiced) == min(len(tail), byte_count(keep_ms / 1000))
