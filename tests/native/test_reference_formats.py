"""References as recording programs write them, and as nobody should."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.errors import UsageError
from duet_trio.voices import wav
from duet_trio.voices.reference import check_reference
from duet_trio.voices.wav import read_wav
from tests.native.support import RATE, speechlike, write_wav


def with_header(
    path: Path, data: bytes, *, code: int = 1, bits: int = 16, rate: int = RATE, channels: int = 1,
    more: bytes = b"",
) -> Path:  # fmt: skip
    block = channels * bits // 8
    fmt = struct.pack("<HHIIHH", code, channels, rate, rate * block & 0xFFFFFFFF, block, bits)
    fmt += more
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def extensible(kind: int) -> bytes:
    """The tail of WAVE_FORMAT_EXTENSIBLE: sizes, speakers, and the kind in a GUID."""
    guid = struct.pack("<H", kind) + bytes.fromhex("0000000010008000 00aa00389b71".replace(" ", ""))
    return struct.pack("<HHI", 22, 16, 4) + guid


@pytest.mark.parametrize(("kind", "bits", "code"), [(1, 16, "<i2"), (3, 32, "<f4")])
def test_the_format_that_recording_programs_write(
    tmp_path: Path, kind: int, bits: int, code: str
) -> None:
    wave_form = speechlike(3.5)
    scale = 32767 if kind == 1 else 1
    data = (wave_form * scale).astype(code).tobytes()
    path = with_header(tmp_path / "x.wav", data, code=0xFFFE, bits=bits, more=extensible(kind))
    samples, _ = read_wav(path)
    np.testing.assert_allclose(samples[:, 0], wave_form, atol=1e-4)
    assert check_reference(path).seconds == pytest.approx(3.5, abs=0.3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    samples = speechlike(4.0)
    samples[RATE] = value
    path = with_header(tmp_path / "x.wav", samples.astype("<f4").tobytes(), code=3, bits=32)
    with pytest.raises(UsageError, match="samples that are no numbers"):
        check_reference(path)


@pytest.mark.parametrize("rate", [8_000, 15_999])
def test_a_telephones_recording_is_taken_with_a_remark(tmp_path: Path, rate: int) -> None:
    time_s = np.arange(5 * rate) / rate
    tone = 0.3 * np.sin(2 * np.pi * 300 * time_s) * np.clip(np.sin(2 * np.pi * 2 * time_s), 0, 1)
    found = check_reference(write_wav(tmp_path / "x.wav", tone, rate))
    assert f"recorded at {rate} Hz only: the voice will sound dull" in found.remarks
    assert len(found.pcm) == pytest.approx(5 * RATE, rel=0.1)


@pytest.mark.parametrize(
    ("channels", "rate"), [(0, RATE), (9, RATE), (1, 0), (1, 3_999), (1, 2**31)]
)
def test_absurd_formats(tmp_path: Path, channels: int, rate: int) -> None:
    path = with_header(tmp_path / "x.wav", bytes(40_000), channels=channels, rate=rate)
    with pytest.raises(UsageError, match=f"{channels} channels at {rate} Hz"):
        read_wav(path)


def test_a_film_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.wav"
    with path.open("wb") as file:
        file.truncate(64 * 2**20 + 1)  # sparse
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("it was read"))
    with pytest.raises(UsageError, match="larger than 64 MiB"):
        read_wav(path)


@given(noise=st.binary(max_size=24), at=st.integers(0, 60), cut=st.integers(0, 4000))
@settings(max_examples=150, deadline=None)
def test_damage_is_a_users_error_or_audio(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.wav"
    write_wav(path, np.linspace(-0.5, 0.5, 2000))
    data = bytearray(path.read_bytes())
    data[at : at + len(noise)] = noise
    path.write_bytes(data[: len(data) - cut])
    with contextlib.suppress(UsageError):  # any other error fails the test
        samples, rate_hz = read_wav(path)
        assert samples.ndim == 2
        assert 1 <= samples.shape[1] <= 8
        assert wav.LEAST_HZ <= rate_hz <= wav.MOST_HZ


def test_hours_are_refused_before_they_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_header(tmp_path / "x.wav", bytes(16 * 4_000), bits=8, rate=4_000)
    monkeypatch.setattr("soxr.resample", lambda *_: pytest.fail("it was converted"))
    with pytest.raises(UsageError, match=r"too long \(16.0 s\)"):
        check_reference(path)
