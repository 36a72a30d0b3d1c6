"""libopus is found, packets survive a round trip, bad ones are the peer's fault."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio import opus
from duet_trio.errors import MissingLibraryError, PeerError


def tone(hz: float, rate_hz: int, seconds: float) -> bytes:
    times = np.arange(int(rate_hz * seconds)) / rate_hz
    return (8000 * np.sin(2 * np.pi * hz * times)).astype("<i2").tobytes()


def peak_hz(pcm: bytes, rate_hz: int) -> float:
    samples = np.frombuffer(pcm, dtype="<i2").astype(float)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate_hz / len(samples)


@pytest.mark.parametrize(("rate_hz", "frame_ms"), [(24_000, 60), (16_000, 60), (16_000, 20)])
def test_a_tone_survives_the_round_trip(rate_hz: int, frame_ms: int) -> None:
    encoder = opus.Encoder(rate_hz, frame_ms)
    decoder = opus.Decoder(rate_hz, frame_ms)
    packets = list(encoder.packets(tone(440, rate_hz, 0.6)))
    assert len(packets) == 600 // frame_ms
    pcm = b"".join(decoder.decode(packet) for packet in packets)
    assert len(pcm) == 2 * rate_hz * 600 // 1000
    assert abs(peak_hz(pcm, rate_hz) - 440) < 5


def test_a_short_last_frame_is_filled() -> None:
    encoder = opus.Encoder(16_000, 60)
    assert len(list(encoder.packets(b"\0\0" * 961))) == 2
    with pytest.raises(ValueError, match="1920 bytes"):
        encoder.encode(b"\0\0" * 961)


def test_settings_take_effect() -> None:
    noise = np.random.default_rng(1).integers(-8000, 8000, 24_000).astype("<i2").tobytes()
    small = sum(map(len, opus.Encoder(bitrate=8_000).packets(noise)))
    large = sum(map(len, opus.Encoder(bitrate=64_000).packets(noise)))
    assert large > 3 * small
    silence = bytes(2 * 16_000 * 2)
    quiet = list(opus.Encoder(16_000, dtx=True).packets(silence))
    assert min(map(len, quiet)) <= 2
    with pytest.raises(ValueError, match="complexity 11"):
        opus.Encoder(complexity=11)
    with pytest.raises(ValueError, match="22050"):
        opus.Encoder(22_050)
    with pytest.raises(ValueError, match="30 ms"):
        opus.Decoder(16_000, 30)


def test_reset_makes_a_stream_start_afresh() -> None:
    pcm = tone(300, 24_000, 0.3)
    encoder = opus.Encoder()
    first = list(encoder.packets(pcm))
    assert list(encoder.packets(pcm)) != first
    encoder.reset()
    assert list(encoder.packets(pcm)) == first


def test_an_empty_packet_is_one_concealed_frame() -> None:
    decoder = opus.Decoder(16_000, 60)
    assert len(decoder.decode(b"")) == 2 * 960


def test_a_packet_longer_than_announced_is_refused_on_request() -> None:
    packet = next(opus.Encoder(24_000, 120).packets(tone(440, 24_000, 0.12)))
    assert len(opus.Decoder(24_000, 60).decode(packet)) == 2 * 2880
    strict = opus.Decoder(24_000, 60, longest_ms=60)
    with pytest.raises(PeerError, match="buffer too small"):
        strict.decode(packet)


@settings(max_examples=200, deadline=None)
@given(packet=st.binary(min_size=0, max_size=300))
def test_any_bytes_give_pcm_or_a_peer_error(packet: bytes) -> None:
    decoder = opus.Decoder(16_000, 60)
    try:
        pcm = decoder.decode(packet)
    except PeerError:
        pcm = decoder.decode(b"")
    assert 0 < len(pcm) <= 2 * 16 * opus.LONGEST_PACKET_MS


def test_missing_library_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "_candidates", lambda: iter(["/nowhere/libopus.so.0"]))
    with pytest.raises(MissingLibraryError, match="libopus not found; install it"):
        opus.find_libopus()


def test_the_systems_library_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: "libsystem-opus.so")
    assert next(iter(opus._candidates())) == "libsystem-opus.so"


def test_loading_imports_no_pyav() -> None:
    script = (
        "import sys; from duet_trio.opus import Encoder; Encoder();"
        "sys.exit(any(name == 'av' or name.startswith('av.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
