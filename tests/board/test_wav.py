"""Any 16-bit WAV file comes in as 16 kHz mono; anything else is one clear error."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from duet_trio.board.fingerprint import tone_hz
from duet_trio.board.wav import read_wav, write_wav
from duet_trio.errors import MissingFileError, UsageError


def make(path: Path, rate_hz: int, channels: int, width: int = 2) -> None:
    times = np.arange(rate_hz) / rate_hz
    samples = (8000 * np.sin(2 * np.pi * 440 * times)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        data = np.repeat(samples, channels).tobytes()
        file.writeframes(data if width == 2 else bytes(rate_hz * channels * width))


@pytest.mark.parametrize(("rate_hz", "channels"), [(16_000, 1), (44_100, 2), (8_000, 1)])
def test_any_rate_and_channels(tmp_path: Path, rate_hz: int, channels: int) -> None:
    make(tmp_path / "a.wav", rate_hz, channels)
    pcm = read_wav(tmp_path / "a.wav")
    assert len(pcm) == pytest.approx(2 * 16_000, abs=4)
    assert tone_hz(pcm, 16_000) == pytest.approx(440, abs=1)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    pcm = np.arange(-1000, 1000, dtype="<i2").tobytes()
    write_wav(tmp_path / "a.wav", pcm, 24_000)
    assert read_wav(tmp_path / "a.wav", 24_000) == pcm


@pytest.mark.parametrize("width", [1, 3, 4])
def test_other_sample_widths(tmp_path: Path, width: int) -> None:
    make(tmp_path / "a.wav", 16_000, 1, width)
    with pytest.raises(UsageError, match=f"{8 * width}-bit samples; convert it to 16-bit PCM"):
        read_wav(tmp_path / "a.wav")


def test_no_wav_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"ID3 not a wave file")
    (tmp_path / "empty.wav").write_bytes(b"")
    write_wav(tmp_path / "silent.wav", b"", 16_000)
    with pytest.raises(UsageError, match="not a PCM WAV file"):
        read_wav(tmp_path / "a.wav")
    with pytest.raises(UsageError, match="not a PCM WAV file"):
        read_wav(tmp_path / "empty.wav")
    with pytest.raises(UsageError, match="holds no audio"):
        read_wav(tmp_path / "silent.wav")
    with pytest.raises(UsageError, match="cannot be read"):
        read_wav(tmp_path)
    with pytest.raises(MissingFileError, match="no such file"):
        read_wav(tmp_path / "missing.wav")
    with pytest.raises(UsageError, match="cannot be written"):
        write_wav(tmp_path / "missing" / "a.wav", b"", 16_000)
