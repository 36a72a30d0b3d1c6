"""Speech recognition: whisper through faster-whisper (CTranslate2), int8 on the CPU, no network.

One call recognises one utterance and cannot be interrupted. The encoder works through a window of
30 s, whatever the utterance's length; half of it does for utterances up to `_SHORT_S` and takes
0.13 instead of 0.35 s (whisper-tiny, one core), with the same text. A window of 6 s was tried:
there the decoder repeats short utterances until its limit. Repeats at higher temperatures are off:
they multiply the time of exactly the noises that are no speech. Judging the figures of a doubtful
transcript is left to the caller.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from duet_trio.engines.adapter import Flag, Loaded
from duet_trio.engines.contracts import LISTEN_RATE_HZ, Transcript
from duet_trio.engines.pipe import TranscribeJob
from duet_trio.errors import EngineFailedError, MissingFileError, MissingLibraryError
from duet_trio.models.paths import damaged, locate, require

WHAT = "speech recognition model"
_SHORTEST_S = 0.1
#: Fast speech has 4 words a second, about 6 tokens; beyond twice that whisper is looping.
_TOKENS_PER_S = 12
_TOKENS_BASE = 16
_TOKENS_MOST = 224
#: Longest utterance that is recognised in half a window: silence must follow it there too.
_SHORT_S = 11.0
_FRAMES_PER_S = 100
_SHORT_WINDOW_S = 15
#: A call against the warm-up's time: text to decode comes on top of the encoder's window.
_STEP_FACTOR = 3.0


class WhisperAdapter:
    """See `duet_trio.engines.adapter.AsrAdapter`."""

    def __init__(self) -> None:
        self._model: Any = None
        self._languages: frozenset[str] = frozenset()

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Load a folder with a CTranslate2 whisper model and recognise a second of silence."""
        path = require(locate("asr", settings["model"]), WHAT)
        _check_folder(path)
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported
        try:
            from faster_whisper import WhisperModel
        except (ImportError, OSError) as error:
            raise MissingLibraryError(
                f"asr.engine = whisper: faster-whisper cannot be used ({error}); run: make install"
            ) from None
        try:
            self._model = _windowed(WhisperModel)(
                str(path),
                device="cpu",
                compute_type="int8",
                cpu_threads=settings["threads"],
                num_workers=1,
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise damaged(path, WHAT, str(error).splitlines()[0]) from None
        self._languages = frozenset(self._model.supported_languages)
        started = time.monotonic()
        self._recognise(np.zeros(LISTEN_RATE_HZ, dtype=np.float32), "en", lambda: False)
        warm_up_s = time.monotonic() - started
        return Loaded(
            longest_step_ms=warm_up_s * 1000 * _STEP_FACTOR,
            info={
                "model": path.name,
                "languages": "en" if self._languages <= {"en"} else str(len(self._languages)),
            },
        )

    def cancel_now(self) -> None:
        """Nothing to throw: CTranslate2 has no switch."""

    def transcribe(self, job: TranscribeJob, cancelled: Flag) -> Transcript:
        """Recognise ``job.pcm``; under 0.1 s the transcript is empty.

        A language the model does not know is left to its own detection.
        """
        if self._model is None:
            raise EngineFailedError("asr: not loaded", engine="asr")
        samples = np.frombuffer(job.pcm[: len(job.pcm) & ~1], dtype="<i2")
        if cancelled() or len(samples) < _SHORTEST_S * LISTEN_RATE_HZ:
            return Transcript("", no_speech_probability=1.0)
        audio = samples.astype(np.float32) / 32768.0
        return self._recognise(audio, job.language, cancelled)

    def _recognise(self, audio: np.ndarray[Any, Any], language: str, cancelled: Flag) -> Transcript:
        code = language.lower().replace("_", "-").partition("-")[0]
        if self._languages <= {"en"}:
            code = "en"
        duration_s = len(audio) / LISTEN_RATE_HZ
        self._model.window_s = _SHORT_WINDOW_S if duration_s <= _SHORT_S else None
        segments, info = self._model.transcribe(
            audio,
            language=code if code in self._languages else None,
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            no_speech_threshold=None,
            log_prob_threshold=None,
            compression_ratio_threshold=None,
            max_new_tokens=min(_TOKENS_MOST, _TOKENS_BASE + int(_TOKENS_PER_S * duration_s)),
        )
        found = []
        for segment in segments:  # lazy: this is where the work happens
            found.append(segment)
            if cancelled():
                break
        return _transcript(found, str(info.language))


def _windowed(model: type[Any]) -> type[Any]:
    """``WhisperModel`` whose encoder sees the first ``window_s`` of its window only."""

    class Windowed(model):  # type: ignore[misc]  # faster-whisper has no types
        window_s: int | None = None

        def encode(self, features: np.ndarray[Any, Any]) -> Any:
            if self.window_s is not None:
                features = features[..., : self.window_s * _FRAMES_PER_S]
            return super().encode(features)

    return Windowed


def _transcript(segments: list[Any], language: str) -> Transcript:
    """One transcript of all windows (one, up to 30 s); figures of the most doubtful one."""
    if not segments:
        return Transcript("", language, no_speech_probability=1.0)
    return Transcript(
        text=" ".join(segment.text.strip() for segment in segments).strip(),
        language=language,
        no_speech_probability=max(float(segment.no_speech_prob) for segment in segments),
        compression_ratio=max(float(segment.compression_ratio) for segment in segments),
        mean_log_probability=min(float(segment.avg_logprob) for segment in segments),
    )


def _check_folder(path: Path) -> None:
    """All files that faster-whisper would otherwise look for on the network."""
    for name in ("model.bin", "config.json", "tokenizer.json"):
        if not (path / name).is_file():
            raise MissingFileError(
                f"{WHAT}: {path / name} is missing; asr.model must be the folder of a "
                "CTranslate2 whisper model"
            )
