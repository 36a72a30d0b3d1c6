"""Qwen3-TTS through a native engine named by path (see `engines.native`).

Runs in the TTS worker. Guards, because these models sometimes do not end, begin or speak:

* the text loses control tokens and is asked for in portions of at most 250 characters;
* each portion has a cap on its frames from its text, and a deadline inside the client's own, so
  that a slow engine is stopped here instead of killed there;
* long silence after speech ends a portion; silence alone, or nothing, is an error, which the
  client answers with one more try under another seed;
* one seed for a whole reply keeps its timbre together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duet_trio.engines.adapter import Flag, Loaded
from duet_trio.engines.adapters.qwen_audio import PieceShaper
from duet_trio.engines.adapters.qwen_text import clean, split
from duet_trio.engines.contracts import SPEECH_RATE_HZ, Spoken
from duet_trio.engines.native.loading import OpenEngine, open_engine
from duet_trio.engines.native.types import Can, Floats, Request, Stats, Status, Voice
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.engines.pipe import SpeakJob
from duet_trio.errors import ConfigError, EngineFailedError, UsageError
from duet_trio.speech.caps import audio_cap_s

FRAME_S = 0.08
#: Of the client's deadline; the rest is for stopping (one codec block) and the way back.
_DEADLINE_SHARE = 0.85
_SEED_MASK = _MOST_MS = (1 << 31) - 1  # what the interface takes
#: Frames at the start in which the codec's silence codes are banned (0.7 s of leading silence).
_QUIET_START_BAN = 3


class QwenAdapter:
    """See `duet_trio.engines.adapter.TtsAdapter`."""

    def __init__(self) -> None:
        self._engine: OpenEngine | None = None
        self._settings: dict[str, Any] = {}
        self._voices: dict[str, tuple[Voice | None, str]] = {}  # name → (clone, speaker)
        self._job = 0

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Open library and model, get the default voice ready."""
        self._settings = settings
        engine = self._engine = open_engine(settings)
        self._language = _language(settings.get("language", ""), engine.model.languages)
        self._voices[""] = (None, "")
        default = settings.get("voice", "")
        if default:
            self._voices[""] = self._find_voice(default, may_make=True)
        info = engine.native.info
        return Loaded(
            longest_step_ms=self._longest_step_ms(),
            info={
                "engine": info.engine,
                "version": info.version,
                "model": Path(str(settings.get("model", ""))).name,
                "voice": default or "(the model's own)",
                "streaming": "yes" if Can.STREAM in info.can else "no",
            },
        )

    def cancel_now(self) -> None:
        """Raise the engine's own atomic flag for the running job."""
        if self._engine is not None:
            self._engine.native.cancel(self._job)

    def speak(self, job: SpeakJob, emit_block: Callable[[bytes], None], cancelled: Flag) -> Spoken:
        """Speak ``job.text`` portion by portion, all under one deadline."""
        voice, speaker = self._voice_of(job.voice)
        deadline = time.monotonic() + _DEADLINE_SHARE * self._deadline_s(job.cap_s)
        capped, samples = False, 0
        for portion in split(clean(job.text)):
            if cancelled():
                break
            left_s = job.cap_s - samples / SPEECH_RATE_HZ
            if samples and left_s < FRAME_S:
                capped = True
                break
            shaper = PieceShaper(emit_block)
            request = Request(
                text=portion,
                max_frames=max(1, math.ceil(min(audio_cap_s(portion), left_s) / FRAME_S)),
                language=self._language,
                speaker=speaker,
                voice=voice,
                seed=(job.seed or job.generation) & _SEED_MASK,
                deadline_ms=int(min(max(1, (deadline - time.monotonic()) * 1000), _MOST_MS)),
                quiet_start_ban=_QUIET_START_BAN,
            )
            stats = self._say(request, shaper, cancelled)
            cut = stats.status is Status.CAPPED
            if not (cancelled() or (cut and samples)):  # a cap may fall into a quiet beginning
                _check(stats, shaper, portion)
            samples += shaper.samples
            capped = capped or cut
        return Spoken(samples / SPEECH_RATE_HZ, capped)

    def close(self) -> None:
        """Give the model back."""
        if self._engine is not None:
            self._engine.native.close()
            self._engine = None

    def _say(self, request: Request, shaper: PieceShaper, cancelled: Flag) -> Stats:
        native = self._open().native

        def on_block(block: Floats) -> bool:
            # A block that comes after a cancel goes no further than `emit_block`.
            return shaper.take(block) and not cancelled()

        # The number is set before `cancelled` is asked: a cancel in between names this job.
        self._job = native.next_job()
        if cancelled():
            return Stats(Status.CANCELLED, 0, 0, -1.0, 0.0)
        stats = native.speak(request, on_block, job=self._job)
        if not cancelled():
            shaper.finish()
        return stats

    def _voice_of(self, name: str) -> tuple[Voice | None, str]:
        if name not in self._voices:
            try:
                # Making a voice takes seconds, longer than a piece may: only `load` does it.
                self._voices[name] = self._find_voice(name, may_make=False)
            except UsageError as error:
                raise EngineFailedError(str(error)) from None
        return self._voices[name]

    def _find_voice(self, name: str, *, may_make: bool) -> tuple[Voice | None, str]:
        """A named speaker of the model, or a cloned voice of that name."""
        engine = self._open()
        if name in engine.model.speakers:
            return None, name
        if engine.model.kind != "base":
            known = ", ".join(engine.model.speakers) or "none"
            raise ConfigError(
                f"tts.voice = {name}: a {engine.model.kind} model has no such speaker ({known})"
            )
        store = VoiceStore(Path(self._settings.get("voices") or "").expanduser())
        record = store.read(name)
        voice = store.load(record, engine.model.identity)
        if voice is None and not may_make:
            raise ConfigError(
                f"voice '{name}' has not been made for this model; run: duet voice add {name} …"
            )
        return voice or store.make(record, engine.model.identity, engine.native), ""

    def _deadline_s(self, cap_s: float) -> float:
        per_audio = float(self._settings.get("piece_per_audio", 1.5))
        return float(self._settings.get("piece_s", 3.0)) + per_audio * cap_s

    def _longest_step_ms(self) -> float:
        """One codec block at real time; an engine that hears no cancel: a whole long piece."""
        info = self._open().native.info
        if Can.STREAM in info.can:
            return info.step_frames * FRAME_S * 1000
        return self._deadline_s(audio_cap_s("a" * 250)) * 1000

    def _open(self) -> OpenEngine:
        if self._engine is None:
            raise EngineFailedError("the engine is not loaded")
        return self._engine


def _language(name: str, known: tuple[str, ...]) -> str:
    """The engine answers an unknown language with an error without a text."""
    name = name.strip().lower()
    if name in ("", "auto"):
        return ""
    if known and name not in known:
        raise ConfigError(f"tts.language = {name}: the model knows {', '.join(known)}, auto")
    return name


def _check(stats: Stats, shaper: PieceShaper, portion: str) -> None:
    if stats.status is Status.LATE:
        raise EngineFailedError(f"the voice was too slow for {len(portion)} characters")
    if not shaper.heard:
        what = "only silence" if stats.samples else "nothing"
        raise EngineFailedError(f"the voice put out {what}")
