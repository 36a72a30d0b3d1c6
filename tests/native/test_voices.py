"""``duet voice``: references are checked, voices made in a process of their own, kept, removed."""

from __future__ import annotations

import struct
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from duet_trio.cli import main
from duet_trio.engines.native.maker_task import Task
from duet_trio.engines.native.types import Voice
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.errors import MissingFileError, UsageError
from duet_trio.lab.tiny_gguf import Pair, write_pair
from duet_trio.voices.making import VoiceFailedError, run_task
from duet_trio.voices.reference import check_reference
from duet_trio.voices.wav import read_wav
from tests.native.support import (
    RATE,
    add_voice,
    libqwen,
    speechlike,
    standin,
    tts_settings,
    write_wav,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


def raw_wav(
    path: Path, code: int, bits: int, data: bytes, *, rate: int = RATE, channels: int = 1
) -> Path:
    block = channels * bits // 8
    fmt = struct.pack("<HHIIHH", code, channels, rate, rate * block, block, bits)
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"LIST" + struct.pack("<I", 3) + b"abc\0"
    body += b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def test_all_usual_kinds_of_wav(tmp_path: Path) -> None:
    wave_form = np.linspace(-0.9, 0.9, 999)
    kinds: list[tuple[int, int, npt.NDArray[Any], float]] = [
        (1, 8, (wave_form * 127 + 128).astype("u1"), 0.02),
        (1, 16, (wave_form * 32767).astype("<i2"), 1e-4),
        (1, 32, (wave_form * (2**31 - 1)).astype("<i4"), 1e-6),
        (3, 32, wave_form.astype("<f4"), 1e-7),
    ]
    for code, bits, data, tolerance in kinds:
        samples, rate = read_wav(raw_wav(tmp_path / "x.wav", code, bits, data.tobytes()))
        assert (samples.shape, rate) == ((999, 1), RATE)
        np.testing.assert_allclose(samples[:, 0], wave_form, atol=tolerance)
    wide = (wave_form * (2**23 - 1)).astype("<i4")
    packed = wide.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    samples, _ = read_wav(raw_wav(tmp_path / "x.wav", 1, 24, packed))
    np.testing.assert_allclose(samples[:, 0], wave_form, atol=1e-6)
    stereo = np.column_stack([wave_form, -wave_form]).astype("<f4")
    samples, _ = read_wav(raw_wav(tmp_path / "x.wav", 3, 32, stereo.tobytes(), channels=2))
    np.testing.assert_allclose(samples, stereo, atol=1e-7)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a WAV file"),
        (b"ID3" + bytes(100), "not a WAV file"),
        (b"RIFF\0\0\0\0WAVE", "no format or no audio"),
        (b"RIFF\0\0\0\0WAVEfmt \x04\0\0\0abcddata\0\0\0\0", "cannot be used"),
    ],
)
def test_what_is_no_wav(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        read_wav(path)


def test_other_formats_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format 6 with 8 bits"):
        read_wav(raw_wav(tmp_path / "x.wav", 6, 8, bytes(100)))
    with pytest.raises(UsageError, match="no such file"):
        read_wav(tmp_path / "none.wav")


def test_a_good_reference_is_trimmed_converted_and_levelled(tmp_path: Path) -> None:
    rate = 44_100
    time_s = np.arange(int(5 * rate)) / rate
    tone = np.sin(2 * np.pi * 300 * time_s) * np.clip(np.sin(2 * np.pi * 2 * time_s), 0, 1)
    silence = np.zeros(rate)
    audio = 0.1 * np.concatenate([silence, tone, silence])
    stereo = np.column_stack([audio, audio]).flatten()
    reference = check_reference(write_wav(tmp_path / "x.wav", stereo, rate, channels=2))
    assert reference.seconds == pytest.approx(5.0, abs=0.4)
    assert float(np.abs(reference.pcm).max()) == pytest.approx(0.7, abs=0.01)
    assert reference.remarks == ("converted from 44100 Hz", "mixed down from 2 channels")
    spectrum = np.abs(np.fft.rfft(reference.pcm))
    assert np.argmax(spectrum) * RATE / len(reference.pcm) == pytest.approx(300, abs=5)


def test_icl_references_end_in_silence(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "x.wav", speechlike(4.0))
    plain, icl = check_reference(path), check_reference(path, icl=True)
    assert len(icl.pcm) == len(plain.pcm) + RATE // 2
    assert not np.any(icl.pcm[-RATE // 2 :])


def bad_references() -> dict[str, tuple[npt.NDArray[Any], str, bool]]:
    good = speechlike(5.0)
    noise = np.random.default_rng(1).standard_normal(5 * RATE) * 0.1
    return {
        "short": (good[: 2 * RATE], r"too short \(2.0 s\)", False),
        "long": (np.tile(good, 4), r"too long \(20.0 s\)", False),
        "long for ICL": (np.tile(good, 2), r"too long \(10.0 s\).*with a transcript", True),
        "clipped": (good * 20, "clipped .*less gain", False),
        "quiet": (good * 0.01, r"too quiet \(speech at -", False),
        "empty": (np.zeros(5 * RATE), "hardly any speech", False),
        "click": (np.concatenate([np.zeros(4 * RATE), good[:RATE]]), "hardly any speech", False),
        "noisy": (noise, "too noisy", False),
    }


@pytest.mark.parametrize("case", bad_references())
def test_bad_references_say_why_and_what_to_do(tmp_path: Path, case: str) -> None:
    samples, message, icl = bad_references()[case]
    path = write_wav(tmp_path / "x.wav", samples)
    with pytest.raises(UsageError, match=message) as caught:
        check_reference(path, icl=icl)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_store_keeps_shares_and_removes(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path / "voices")
    assert store.names() == []
    first = add_voice(store, "ann", speechlike(3.0), source="a.wav")
    twin = add_voice(store, "twin", speechlike(3.0))
    icl = add_voice(store, "icl", speechlike(3.0), transcript="words")
    assert (store.names(), first.key) == (["ann", "icl", "twin"], twin.key)
    assert icl.key != first.key
    assert store.read("ann") == first
    assert store.load(first, "model") is None
    made = tmp_path / "voices" / ".made" / f"{first.key}-model.npz"
    made.parent.mkdir()
    np.savez(made, embedding=np.arange(3, dtype=np.float32))
    loaded = store.load(twin, "model")
    assert isinstance(loaded, Voice)
    assert loaded.embedding is not None
    assert loaded.embedding.tolist() == [0, 1, 2]
    assert store.made_for(first) == ["model"]
    store.remove("ann")
    assert made.exists(), "its twin still uses it"
    store.remove("twin")
    assert not made.exists()
    with pytest.raises(MissingFileError, match=r"there: icl\)"):
        store.read("ann")


@pytest.mark.parametrize("name", ["", "../x", "A", "a" * 33, "-x", "a/b", ".made"])
def test_voice_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="voice name"):
        add_voice(VoiceStore(tmp_path), name, speechlike(3.0))


def test_damaged_files_of_a_voice(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add_voice(store, "ann", speechlike(3.0))
    (tmp_path / "ann" / "voice.json").write_text("{")
    with pytest.raises(MissingFileError, match=r"voice\.json: damaged .*; add that voice again"):
        store.read("ann")


def options(pair: Pair, folder: Path, library: Path | None = None) -> list[str]:
    sets = tts_settings(pair, library, voices=str(folder))
    return [
        word
        for key in ("engine", "library", "model", "codec", "voices")
        for word in ("--set", f"tts.{key}={sets[key]}")
    ]


@pytest.mark.slow
def test_add_list_try_remove_with_the_real_engine(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "voices", tmp_path / "out.wav"
    reference = write_wav(tmp_path / "ref.wav", speechlike(3.5), 24_000)
    common = options(pair, folder)
    assert main(["voice", "add", "ann", str(reference), *common]) == 0
    assert "ann: x-vector voice of 3." in capsys.readouterr().out
    assert main(["voice", "add", "twin", str(reference), *common]) == 0
    assert "had been made before" in capsys.readouterr().out
    assert main(["voice", "add", "bob", str(reference), "--text", "some words", *common]) == 0
    assert "bob: ICL voice" in capsys.readouterr().out
    assert main(["voice", "list", *common]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["ann", "bob", "twin"]
    assert all("none yet" not in line for line in listed)
    trial = ["voice", "try", "ann", "--text", "Hi.", "--out", str(out)]
    assert main([*trial, *common]) == 0
    assert "real-time factor" in capsys.readouterr().out
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.getnchannels()) == (RATE, 1)
        assert file.getnframes() > 4000
    assert main(["voice", "remove", "bob", *common]) == 0
    assert VoiceStore(folder).names() == ["ann", "twin"]


def test_add_fails_in_one_line(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write_wav(tmp_path / "ref.wav", speechlike(3.5))
    folder = tmp_path / "voices"
    nowhere = options(pair, folder, tmp_path / "none.so")
    assert main(["voice", "add", "ann", str(reference), *nowhere]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "tts.library" in error
    assert VoiceStore(folder).names() == []
    assert main(["voice", "add", "ann", str(reference)]) == 2
    assert "only qwen clones voices" in capsys.readouterr().err
    assert main(["voice", "try", "none", *options(pair, folder)]) == 2
    assert "voice 'none'" in capsys.readouterr().err


def test_an_engine_that_aborts_does_not_take_us_along(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = standin("libqwen5", tmp_path)
    common = options(pair, tmp_path / "voices", library)
    trial = ["voice", "try", "--text", "crash", "--out", str(tmp_path / "x.wav")]
    assert main([*trial, *common]) == 1
    assert "process died (signal 6)" in capsys.readouterr().err


def test_an_engine_that_hangs_is_stopped(pair: Pair, tmp_path: Path) -> None:
    settings = tts_settings(pair, libqwen(), voices=str(tmp_path))
    task = Task(do="say", settings=settings, text="Hi.", out=str(tmp_path / "x.wav"))
    hanging = (sys.executable, "-c", "import time; time.sleep(600)")
    with pytest.raises(VoiceFailedError, match="did not answer"):
        run_task(task, load_s=0.3, work_s=0.0, command=hanging)


@pytest.mark.parametrize("name", ["pointer", "value_new"])
def test_voices_of_qwen3_tts_cpp(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / "voices"
    library = standin(name, tmp_path)
    sets = {"engine": "qwen", "library": library, "model": pair.talker.parent, "voices": folder}
    common = [w for k, v in sets.items() for w in ("--set", f"tts.{k}={v}")]
    reference = write_wav(tmp_path / "ref.wav", speechlike(3.5))
    assert main(["voice", "add", "ann", str(reference), *common]) == 0
    capsys.readouterr()
    kind = ".voice" if name.startswith("value") else ".npz"
    assert [path.suffix for path in (folder / ".made").iterdir()] == [kind]
    trial = ["voice", "try", "ann", "--text", "hello", "--out", str(tmp_path / "x.wav")]
    assert main([*trial, *common]) == 0
    assert "0.4 s of speech" in capsys.readouterr().out
