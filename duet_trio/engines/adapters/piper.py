"""The demo voice: a Piper (VITS) model on plain onnxruntime, phonemes from gruut.

A sentence is one run of the network (about a twentieth of its audio's time on one core), so
text is spoken sentence by sentence and each one's audio leaves in short blocks. A run ends
within milliseconds when ``RunOptions.terminate`` is set from another thread. The network draws
its own noise: two readings of a text differ a little, and ``seed`` has no meaning here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from duet_trio.engines.adapter import Flag, Loaded
from duet_trio.engines.adapters.piper_phonemes import (
    has_foreign_letters,
    phoneme_ids,
    phonemes_of,
    plain_english,
)
from duet_trio.engines.contracts import SPEECH_RATE_HZ, Spoken
from duet_trio.engines.pipe import SpeakJob
from duet_trio.errors import (
    ConfigError,
    EngineFailedError,
    MissingLibraryError,
    UnreadableError,
)
from duet_trio.models.paths import damaged, locate, require

WHAT = "voice"
_BLOCK_SAMPLES = SPEECH_RATE_HZ * 120 // 1000  # two Opus packets of 60 ms
_FADE_SAMPLES = SPEECH_RATE_HZ * 5 // 1000
_WARM_UP = "Hello there, I am ready."
#: gruut reads a sentence in up to 80 ms, uninterrupted; onnxruntime stops in 1-22 ms.
_LONGEST_STEP_MS = 100.0

Samples = npt.NDArray[np.float32]


class PiperAdapter:
    """See `duet_trio.engines.adapter.TtsAdapter`."""

    def __init__(self) -> None:
        self._session: Any = None
        self._options: Any = None  # RunOptions of the job that runs

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Load the ``.onnx`` file and the ``.onnx.json`` beside it; warm up with a sentence."""
        path = require(locate("tts", settings["model"]), WHAT)
        description = require(path.with_name(path.name + ".json"), f"{WHAT} description")
        try:
            import gruut
            import onnxruntime
            import soxr
        except (ImportError, OSError) as error:
            raise MissingLibraryError(
                f"tts.engine = piper: a package cannot be used ({error}); run: make install"
            ) from None
        self._gruut, self._onnxruntime, self._soxr = gruut, onnxruntime, soxr
        try:
            self._read_description(json.loads(description.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(description, f"{WHAT} description", repr(error)) from None
        if not self._language.startswith("en"):
            raise ConfigError(
                f"tts.model: {path} speaks '{self._language}'; only English Piper voices work here"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = settings["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # A pattern is kept per input length, each with a block of its own: 541 MB after 400
        # sentences and growing, against 376 MB after 100 and 385 after 800, at the same speed.
        # (No arena at all is worse: 647 MB after 100. Giving it back after each run: 11 % slower.)
        options.enable_mem_pattern = False
        errors = onnxruntime.capi.onnxruntime_pybind11_state
        self._run_errors = (errors.Fail, errors.RuntimeException, errors.InvalidArgument)
        load_errors = (*self._run_errors, errors.InvalidProtobuf, errors.InvalidGraph)
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (*load_errors, errors.NoSuchFile, errors.NotImplemented) as error:
            raise damaged(path, WHAT, str(error).splitlines()[0]) from None
        warm_up = SpeakJob(0, _WARM_UP, generation=0, piece=0, cap_s=60.0)
        self.speak(warm_up, lambda block: None, lambda: False)
        return Loaded(
            longest_step_ms=_LONGEST_STEP_MS,
            info={"model": path.name, "rate_hz": str(self._rate_hz), "language": self._language},
        )

    def cancel_now(self) -> None:
        """Stop the network (command thread)."""
        options = self._options
        if options is not None:
            options.terminate = True

    def speak(
        self,
        job: SpeakJob,
        emit_block: Callable[[bytes], None],
        cancelled: Flag,
    ) -> Spoken:
        """Speak ``job.text``. Raises `UnreadableError` when nothing in it can be."""
        if self._session is None:
            raise EngineFailedError("tts: not loaded", engine="tts")
        self._options = options = self._onnxruntime.RunOptions()
        blocks = _Blocks(self._soxr, self._rate_hz, emit_block)
        spoke = False
        for line in self._lines(job.text):
            if cancelled():
                break
            spoke = True
            blocks.add(self._synthesise(line, job.voice, options))
        if not spoke and not cancelled():
            raise UnreadableError(f"tts: nothing to read aloud in {job.text[:60]!r}")
        if not cancelled():
            blocks.finish()
        self._options = None
        return Spoken(
            audio_s=blocks.samples / SPEECH_RATE_HZ, incomplete=has_foreign_letters(job.text)
        )

    def _read_description(self, tree: dict[str, Any]) -> None:
        self._rate_hz = int(tree["audio"]["sample_rate"])
        self._language = str(tree.get("espeak", {}).get("voice", "en"))
        self._table: dict[str, list[int]] = tree["phoneme_id_map"]
        self._speakers: dict[str, int] = tree.get("speaker_id_map") or {}
        inference = tree.get("inference", {})
        self._scales = np.array(
            [
                inference.get("noise_scale", 0.667),
                inference.get("length_scale", 1.0),
                inference.get("noise_w", 0.8),
            ],
            dtype=np.float32,
        )

    def _lines(self, text: str) -> Iterator[str]:
        """Phonemes, a sentence at a time."""
        for sentence in self._gruut.sentences(plain_english(text), lang="en-us"):
            line = phonemes_of((word.text, word.phonemes or ()) for word in sentence)
            if line:
                yield line

    def _synthesise(self, line: str, voice: str, options: Any) -> Samples:
        """Audio of one sentence at the voice's own rate; empty when terminated."""
        numbers = np.array([phoneme_ids(line, self._table)], dtype=np.int64)
        inputs = {
            "input": numbers,
            "input_lengths": np.array([numbers.shape[1]], dtype=np.int64),
            "scales": self._scales,
        }
        if self._speakers:
            speaker = self._speakers.get(voice, min(self._speakers.values()))
            inputs["sid"] = np.array([speaker], dtype=np.int64)
        try:
            audio: Samples = self._session.run(None, inputs, options)[0]
        except self._run_errors as error:
            if options.terminate:
                return np.zeros(0, dtype=np.float32)
            raise EngineFailedError(f"tts: {error}", engine="tts") from None
        return audio.reshape(-1)


class _Blocks:
    """Sentences at the voice's rate → blocks of 24 kHz s16le, faded in and out by 5 ms."""

    def __init__(self, soxr: Any, rate_hz: int, emit: Callable[[bytes], None]) -> None:
        self._resampler = soxr.ResampleStream(rate_hz, SPEECH_RATE_HZ, 1, dtype="float32")
        self._emit = emit
        self._waiting: Samples = np.zeros(0, dtype=np.float32)
        self.samples = 0  # given out

    def add(self, audio: Samples) -> None:
        """Resample; give out whole blocks but the last, whose end may be the piece's."""
        ready: Samples = self._resampler.resample_chunk(audio, last=False)
        self._waiting = np.concatenate([self._waiting, ready])
        while len(self._waiting) >= 2 * _BLOCK_SAMPLES:
            self._give(self._waiting[:_BLOCK_SAMPLES])
            self._waiting = self._waiting[_BLOCK_SAMPLES:]

    def finish(self) -> None:
        """Give out the rest, faded."""
        tail: Samples = self._resampler.resample_chunk(np.zeros(0, dtype=np.float32), last=True)
        rest = np.concatenate([self._waiting, tail])
        fade = min(_FADE_SAMPLES, len(rest))
        if fade:
            rest[-fade:] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
        for start in range(0, len(rest), _BLOCK_SAMPLES):
            self._give(rest[start : start + _BLOCK_SAMPLES])

    def _give(self, block: Samples) -> None:
        if self.samples == 0:
            block = block.copy()
            fade = min(_FADE_SAMPLES, len(block))
            block[:fade] *= np.linspace(0.0, 1.0, fade, dtype=np.float32)
        self.samples += len(block)
        self._emit((np.clip(block, -1.0, 1.0) * 32767.0).astype("<i2").tobytes())
