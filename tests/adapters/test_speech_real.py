"""The demo's voice and recogniser: each on its own, and one listening to the other."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soxr

from duet_trio.config import AsrSection, TtsSection
from duet_trio.engines.adapters.piper import PiperAdapter
from duet_trio.engines.adapters.whisper import WhisperAdapter
from duet_trio.engines.contracts import LISTEN_RATE_HZ, SPEECH_RATE_HZ, Transcript
from duet_trio.engines.pipe import SpeakJob, TranscribeJob
from duet_trio.errors import ConfigError, MissingFileError, UnreadableError

pytestmark = pytest.mark.models

SENTENCES = (
    "Hello there, how are you today?",
    "The weather is nice and the water is warm.",
    "Once upon a time, a little girl lived in a small house near the forest.",
    "She had three cats, two dogs and a very old horse.",
    "I would be happy to help you with that question.",
    "Every morning they walked to the market to buy bread, butter and cheese.",
)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def piper() -> PiperAdapter:
    adapter = PiperAdapter()
    adapter.load(msgspec.to_builtins(TtsSection()))
    return adapter


@pytest.fixture(scope="module")
def whisper() -> WhisperAdapter:
    adapter = WhisperAdapter()
    adapter.load(msgspec.to_builtins(AsrSection()))
    return adapter


def speak(piper: PiperAdapter, text: str, cancelled: Any = never) -> list[bytes]:
    blocks: list[bytes] = []
    spoken = piper.speak(SpeakJob(1, text, 1, 1, cap_s=30.0), blocks.append, cancelled)
    assert sum(map(len, blocks)) == round(spoken.audio_s * SPEECH_RATE_HZ) * 2
    return blocks


def for_the_recogniser(blocks: list[bytes]) -> bytes:
    audio = np.frombuffer(b"".join(blocks), dtype="<i2").astype(np.float32)
    return bytes(soxr.resample(audio, SPEECH_RATE_HZ, LISTEN_RATE_HZ).astype("<i2").tobytes())


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def word_errors(said: list[str], heard: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(heard) + 1))
    for i, one in enumerate(said):
        above, row[0] = row[:], i + 1
        for j, other in enumerate(heard):
            row[j + 1] = min(above[j + 1] + 1, row[j] + 1, above[j] + (one != other))
    return row[-1]


def test_the_recogniser_understands_the_voice(piper: PiperAdapter, whisper: WhisperAdapter) -> None:
    errors = total = 0
    for sentence in SENTENCES:
        pcm = for_the_recogniser(speak(piper, sentence))
        transcript = whisper.transcribe(TranscribeJob(1, pcm), never)
        assert transcript.no_speech_probability < 0.5
        assert transcript.language == "en"
        errors += word_errors(words(sentence), words(transcript.text))
        total += len(words(sentence))
    # The voice draws its own noise, so a word may go wrong now and then.
    assert errors / total <= 0.2


def test_speech_comes_in_short_blocks_and_begins_and_ends_softly(piper: PiperAdapter) -> None:
    blocks = speak(piper, SENTENCES[3])
    assert {len(block) for block in blocks[:-1]} == {SPEECH_RATE_HZ * 120 // 1000 * 2}
    samples = np.frombuffer(b"".join(blocks), dtype="<i2")
    assert 2.0 < len(samples) / SPEECH_RATE_HZ < 6.0
    assert np.abs(samples).max() > 5000
    assert samples[0] == 0
    assert samples[-1] == 0


def test_each_sentence_leaves_before_the_next_is_made_and_keeps_its_length(
    piper: PiperAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first block comes, the network has only run once."""
    runs: list[int] = []
    runs_at_block: list[int] = []
    real = piper._synthesise

    def counting(line: str, voice: str, options: Any) -> Any:
        audio = real(line, voice, options)
        runs.append(len(audio))
        return audio

    monkeypatch.setattr(piper, "_synthesise", counting)
    spoken = piper.speak(
        SpeakJob(1, " ".join(SENTENCES[:3]), 1, 1, 30.0),
        lambda block: runs_at_block.append(len(runs)),
        never,
    )
    assert len(runs) == 3
    assert runs_at_block[0] == 1
    assert spoken.audio_s == pytest.approx(sum(runs) / 22050, abs=0.01)


def test_a_cancel_from_another_thread_stops_the_network(piper: PiperAdapter) -> None:
    asked, flagged = threading.Event(), threading.Event()

    def cancelled() -> bool:
        asked.set()
        return flagged.is_set()

    def command_thread() -> None:
        asked.wait(10)
        flagged.set()
        piper.cancel_now()

    thread = threading.Thread(target=command_thread)
    thread.start()
    long = "and then they walked on, " * 30
    blocks: list[bytes] = []
    piper.speak(SpeakJob(1, long, 1, 1, 120.0), blocks.append, cancelled)
    thread.join()
    # One run of this text takes a second and gives 40 s of audio; it never got there.
    assert blocks == []
    assert len(speak(piper, SENTENCES[0])) > 5  # and the switch is open again


def test_a_cancel_before_the_first_sentence_gives_nothing(piper: PiperAdapter) -> None:
    assert speak(piper, SENTENCES[0], cancelled=lambda: True) == []


@pytest.mark.parametrize("text", ["你好", "...", "", "()"])
def test_what_cannot_be_read_aloud_is_an_error_with_a_plain_reason(
    piper: PiperAdapter, text: str
) -> None:
    with pytest.raises(UnreadableError) as caught:
        speak(piper, text)
    assert caught.value.reason == "this voice cannot read the text"


@pytest.mark.parametrize(
    ("text", "incomplete"),
    [
        ("Hello there.", False),
        ("She said: \u4f60\u597d\u5417. Then she went.", True),
        ("The na\u00efve caf\u00e9 costs $5, or 3\u00bd \u20ac \u2026 really!", False),
        ("It is \u043f\u0440\u0438\u0432\u0435\u0442.", True),
    ],
)
def test_words_in_other_scripts_are_left_out_and_that_is_said(
    piper: PiperAdapter, text: str, incomplete: bool
) -> None:
    spoken = piper.speak(SpeakJob(1, text, 1, 1, cap_s=30.0), lambda _block: None, never)
    assert spoken.audio_s > 0.3
    assert spoken.incomplete is incomplete


def test_silence_and_noise_are_told_by_their_figures(whisper: WhisperAdapter) -> None:
    noise = np.random.default_rng(1).normal(0, 800, 3 * LISTEN_RATE_HZ).astype("<i2")
    for pcm in (bytes(2 * LISTEN_RATE_HZ * 2), noise.tobytes()):
        transcript = whisper.transcribe(TranscribeJob(1, pcm), never)
        assert transcript.no_speech_probability > 0.9


@pytest.mark.parametrize("pcm", [b"", b"\0", bytes(2000), bytes(2001)])
def test_too_little_sound_is_no_work(whisper: WhisperAdapter, pcm: bytes) -> None:
    assert whisper.transcribe(TranscribeJob(1, pcm), never) == Transcript(
        "", no_speech_probability=1.0
    )


def test_odd_bytes_and_unknown_languages_are_survived(
    piper: PiperAdapter, whisper: WhisperAdapter
) -> None:
    pcm = for_the_recogniser(speak(piper, SENTENCES[1])) + b"\x01"
    for language in ("", "en-US", "de", "klingon"):
        transcript = whisper.transcribe(TranscribeJob(1, pcm, language), never)
        assert "weather" in transcript.text


@pytest.fixture
def broken_whisper(tmp_path: Path) -> Path:
    folder = tmp_path / "whisper"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.bin").write_bytes(b"\6\0\0\0")
    return folder


def test_a_broken_recognition_model_is_named(broken_whisper: Path) -> None:
    settings = msgspec.to_builtins(AsrSection(model=str(broken_whisper)))
    with pytest.raises(MissingFileError, match=f"{broken_whisper} cannot be loaded") as caught:
        WhisperAdapter().load(settings)
    assert "\n" not in str(caught.value)
    (broken_whisper / "tokenizer.json").unlink()  # else it would be looked for on the network
    with pytest.raises(MissingFileError, match=r"tokenizer\.json is missing"):
        WhisperAdapter().load(settings)


def test_a_broken_voice_is_named(tmp_path: Path) -> None:
    voice, description = tmp_path / "v.onnx", tmp_path / "v.onnx.json"
    settings = msgspec.to_builtins(TtsSection(model=str(voice)))
    voice.write_bytes(b"no network in here")
    with pytest.raises(MissingFileError, match=r"v\.onnx\.json is missing"):
        PiperAdapter().load(settings)
    description.write_text("{")
    with pytest.raises(MissingFileError, match=r"v\.onnx\.json cannot be loaded"):
        PiperAdapter().load(settings)
    description.write_text('{"audio": {"sample_rate": 22050}, "phoneme_id_map": {}}')
    with pytest.raises(MissingFileError, match=r"voice: \S+v\.onnx cannot be loaded"):
        PiperAdapter().load(settings)
    description.write_text(
        '{"audio": {"sample_rate": 22050}, "phoneme_id_map": {}, "espeak": {"voice": "de"}}'
    )
    with pytest.raises(ConfigError, match="only English Piper voices"):
        PiperAdapter().load(settings)
