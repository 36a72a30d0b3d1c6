"""The worker's adapter: guards around a real engine, and around one that misbehaves."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duet_trio.engines.adapter import Loaded, find_adapter
from duet_trio.engines.adapters.qwen import QwenAdapter
from duet_trio.engines.native.loading import TONE
from duet_trio.engines.native.types import Request
from duet_trio.engines.native.voice import NativeVoice
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.engines.pipe import SpeakJob
from duet_trio.errors import ConfigError, EngineFailedError, MissingFileError
from duet_trio.lab.tiny_gguf import Pair, write_pair
from duet_trio.lab.tiny_talker import SPEAKERS
from tests.native.support import add_voice, speechlike, standin, tts_settings

RATE = 24_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def adapter(
    pair: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[QwenAdapter, Loaded]]:
    made = QwenAdapter()
    loaded = made.load(tts_settings(pair, voices=str(tmp_path_factory.mktemp("voices"))))
    yield made, loaded
    made.close()


def job_of(text: str, **more: Any) -> SpeakJob:
    fields: dict[str, Any] = {"id": 1, "generation": 3, "piece": 0, "cap_s": 1.0, **more}
    return SpeakJob(text=text, **fields)


def speak(
    adapter: QwenAdapter, job: SpeakJob, cancelled: Callable[[], bool] = lambda: False
) -> tuple[bytes, float, bool]:
    blocks: list[bytes] = []
    spoken = adapter.speak(job, blocks.append, cancelled)
    return b"".join(blocks), spoken.audio_s, spoken.capped


def with_standin(name: str, folder: Path, pair: Pair, **more: Any) -> QwenAdapter:
    made = QwenAdapter()
    codec = {} if name.startswith("libqwen") else {"codec": ""}
    made.load(tts_settings(pair, standin(name, folder), voices=str(folder), **codec, **more))
    return made


def test_it_is_found_by_its_name_and_says_what_it_is(
    adapter: tuple[QwenAdapter, Loaded],
) -> None:
    assert isinstance(find_adapter("tts", "qwen"), QwenAdapter)
    loaded = adapter[1]
    assert loaded.slots == 1
    assert loaded.longest_step_ms == 640
    assert loaded.info["engine"] == "libqwen ABI 5"
    assert loaded.info["streaming"] == "yes"


def test_real_speech_is_24_khz_s16le_with_soft_edges(adapter: tuple[QwenAdapter, Loaded]) -> None:
    pcm, audio_s, capped = speak(adapter[0], job_of("Hi.", cap_s=10))
    samples = np.frombuffer(pcm, "<i2")
    assert not capped
    assert audio_s == len(samples) / RATE
    assert 0.2 < audio_s < 2
    assert np.abs(samples).max() > 30
    assert abs(int(samples[0])) < 5
    assert abs(int(samples[-1])) < 5


def test_a_reply_keeps_its_seed(adapter: tuple[QwenAdapter, Loaded]) -> None:
    by_generation = [
        speak(adapter[0], job_of("Hi.", cap_s=0.2, generation=g))[0] for g in (7, 7, 8)
    ]
    assert by_generation[0] == by_generation[1] != by_generation[2]
    assert speak(adapter[0], job_of("Hi.", cap_s=0.2, generation=9, seed=7))[0] == by_generation[0]


def test_the_cap_bounds_the_engine_itself(adapter: tuple[QwenAdapter, Loaded]) -> None:
    _, audio_s, capped = speak(adapter[0], job_of("~" * 60 + "a", cap_s=0.4))
    assert capped
    assert audio_s <= 0.4 + 0.005


def test_unspeakable_text_is_nothing(adapter: tuple[QwenAdapter, Loaded]) -> None:
    assert speak(adapter[0], job_of("… <|im_end|> !?")) == (b"", 0.0, False)


def test_control_tokens_do_not_reach_the_engine(adapter: tuple[QwenAdapter, Loaded]) -> None:
    plain = speak(adapter[0], job_of("Hi.", cap_s=0.2))[0]
    marked = job_of("<|im_start|>Hi.<|im_end|>", cap_s=0.2)
    assert speak(adapter[0], marked)[0] == plain != b""


def test_cancel_now_stops_a_real_engine(adapter: tuple[QwenAdapter, Loaded]) -> None:
    made = adapter[0]
    stop = threading.Event()
    blocks: list[bytes] = []

    def emit(pcm: bytes) -> None:
        blocks.append(pcm)
        if len(blocks) == 1:
            stop.set()
            made.cancel_now()

    made.speak(job_of("~" * 200 + "a", cap_s=30), emit, stop.is_set)
    assert len(blocks) == 1
    assert speak(made, job_of("Hi."))[0]


def test_a_job_cancelled_before_it_began_is_not_begun(
    adapter: tuple[QwenAdapter, Loaded],
) -> None:
    assert speak(adapter[0], job_of("Hi."), lambda: True)[0] == b""


def test_long_texts_are_spoken_in_portions(tmp_path: Path, pair: Pair) -> None:
    made = with_standin("libqwen5", tmp_path, pair)
    text = "Ten words are in this sentence, which I say again. " * 8
    pcm, audio_s, capped = speak(made, job_of(text, cap_s=600))
    # The stand-in gives a frame per byte, at most the cap of 250 characters.
    assert not capped
    assert audio_s == pytest.approx(len(text) * 0.08, abs=1.0)
    assert len(pcm) == audio_s * RATE * 2


def test_the_cap_of_a_piece_ends_its_portions_too(tmp_path: Path, pair: Pair) -> None:
    made = with_standin("libqwen5", tmp_path, pair)
    first = "Some words that are spoken, as many as fit into one portion. " * 4
    # Exactly used up: the second portion is not begun (it would be an error).
    job = job_of(first + "error" * 9, cap_s=len(first.strip()) * 0.08)
    _, audio_s, capped = speak(made, job)
    assert capped
    assert audio_s == pytest.approx(len(first.strip()) * 0.08, abs=0.01)
    # It falls into the second one's quiet beginning: cut, not failed.
    _, audio_s, capped = speak(made, job_of(first + "silent" * 9, cap_s=len(first) * 0.08 + 0.4))
    assert capped
    with pytest.raises(EngineFailedError, match="only silence"):
        speak(made, job_of(first + "silent" * 9, cap_s=60))


def test_long_silence_after_speech_ends_a_portion(tmp_path: Path, pair: Pair) -> None:
    made = with_standin("libqwen5", tmp_path, pair)
    _, audio_s, capped = speak(made, job_of("fades", cap_s=30))
    assert not capped
    assert audio_s == pytest.approx(3 * 0.08 + 0.15, abs=0.02)


def test_cancel_now_reaches_an_engine_that_gives_no_block(tmp_path: Path, pair: Pair) -> None:
    made = with_standin("libqwen5", tmp_path, pair)
    stop = threading.Event()

    def cancel() -> None:
        stop.set()
        made.cancel_now()

    timer = threading.Timer(0.1, cancel)
    timer.start()
    began = time.monotonic()
    assert speak(made, job_of("polls"), stop.is_set)[0] == b""
    assert time.monotonic() - began < 10, "it went on until its deadline"
    timer.join()


def test_a_cancel_just_before_the_engine_is_asked(tmp_path: Path, pair: Pair) -> None:
    """`cancel_now` has named the job before; only the flag can tell."""
    made = with_standin("libqwen5", tmp_path, pair)
    answers = iter([False])
    assert speak(made, job_of("error"), lambda: next(answers, True))[0] == b""


def test_what_a_request_says(tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GGML_NO_BACKTRACE", raising=False)
    made = with_standin("libqwen5", tmp_path, pair)
    assert os.environ["GGML_NO_BACKTRACE"] == "1"
    asked: list[Request] = []
    speak_natively = NativeVoice.speak

    def record(native: NativeVoice, request: Request, *given: Any, **more: Any) -> Any:
        asked.append(request)
        return speak_natively(native, request, *given, **more)

    monkeypatch.setattr(NativeVoice, "speak", record)
    for seed in (5, -5, (1 << 40) + 7):
        assert speak(made, job_of("ok", seed=seed))[0]
    assert [request.seed for request in asked] == [5, (1 << 31) - 5, 7]
    assert asked[0].quiet_start_ban == 3


def test_endless_patience_is_no_error(tmp_path: Path, pair: Pair) -> None:
    for seconds in (1e9, float("inf")):
        made = with_standin("libqwen5", tmp_path, pair, piece_s=seconds)
        assert speak(made, job_of("ok"))[0]


def test_an_endless_engine_is_capped_and_a_slow_one_is_told(tmp_path: Path, pair: Pair) -> None:
    made = with_standin("libqwen5", tmp_path, pair, piece_s=0.001, piece_per_audio=0.0001)
    with pytest.raises(EngineFailedError, match="too slow"):
        speak(made, job_of("endless " + "a" * 200, cap_s=30))
    made = with_standin("libqwen5", tmp_path, pair)
    _, audio_s, capped = speak(made, job_of("endless", cap_s=2))
    assert capped
    assert audio_s == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(
    ("text", "message"), [("empty", "nothing"), ("error", "no luck"), ("nan", "NaN")]
)
def test_engine_faults_are_errors(tmp_path: Path, pair: Pair, text: str, message: str) -> None:
    made = with_standin("libqwen5", tmp_path, pair)
    with pytest.raises(EngineFailedError, match=message):
        speak(made, job_of(text))
    assert speak(made, job_of("ok"))[0]


def test_an_engine_without_streaming_says_how_long_a_cancel_takes(
    tmp_path: Path, pair: Pair
) -> None:
    made = QwenAdapter()
    loaded = made.load(tts_settings(pair, standin("pointer", tmp_path), codec=""))
    assert loaded.info["streaming"] == "no"
    assert loaded.longest_step_ms > 30_000  # the whole deadline of a long piece
    assert speak(made, job_of("hello"))[1] == pytest.approx(0.4, abs=0.01)


def test_a_tone_without_any_model() -> None:
    made = QwenAdapter()
    loaded = made.load({"library": TONE, "threads": 1})
    assert loaded.info["engine"] == "tone"
    assert speak(made, job_of("hello", cap_s=5))[1] == pytest.approx(0.3, abs=0.01)


def test_an_unknown_language_names_the_known_ones(pair: Pair) -> None:
    with pytest.raises(ConfigError, match=r"tts.language = klingon: the model knows .*english"):
        QwenAdapter().load(tts_settings(pair, language="klingon"))


def test_the_default_voice_is_made_at_load_and_only_once(pair: Pair, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))
    made = QwenAdapter()
    loaded = made.load(tts_settings(pair, voices=str(tmp_path), voice="ann"))
    assert loaded.info["voice"] == "ann"
    (identity,) = store.made_for(record)
    file = tmp_path / ".made" / f"{record.key}-{identity}.npz"
    before = file.stat().st_mtime_ns
    ann = speak(made, job_of("Hi.", cap_s=0.2))[0]
    assert speak(made, job_of("Hi.", cap_s=0.2, voice="ann"))[0] == ann
    made.close()
    again = QwenAdapter()
    again.load(tts_settings(pair, voices=str(tmp_path), voice="ann"))
    assert file.stat().st_mtime_ns == before
    assert speak(again, job_of("Hi.", cap_s=0.2))[0] == ann
    again.close()


def test_voices_that_are_not_there(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"voice 'bob': not in .*duet voice add"):
        QwenAdapter().load(tts_settings(pair, voices=str(tmp_path), voice="bob"))
    made = QwenAdapter()
    made.load(tts_settings(pair, voices=str(tmp_path)))
    with pytest.raises(EngineFailedError, match="voice 'bob'"):
        speak(made, job_of("Hi.", voice="bob"))
    add_voice(VoiceStore(tmp_path), "carl", speechlike(3.0))
    with pytest.raises(EngineFailedError, match="has not been made for this model"):
        speak(made, job_of("Hi.", voice="carl"))
    assert speak(made, job_of("Hi."))[0]
    made.close()


def test_named_speakers_of_the_model(tmp_path: Path) -> None:
    named = write_pair(tmp_path, kind="custom_voice")
    made = QwenAdapter()
    made.load(tts_settings(named, voice=SPEAKERS[0]))
    assert speak(made, job_of("Hi."))[0]
    with pytest.raises(EngineFailedError, match="no such speaker"):
        speak(made, job_of("Hi.", voice="carl"))
    made.close()
    echoing = with_standin("libqwen5", tmp_path, named, voice=SPEAKERS[0])
    for voice, speaker in (("", SPEAKERS[0]), (SPEAKERS[1], SPEAKERS[1])):
        with pytest.raises(EngineFailedError, match=f"lang=english .* speaker={speaker} "):
            speak(echoing, job_of("echo", voice=voice))
