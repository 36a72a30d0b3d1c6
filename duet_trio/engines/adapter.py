"""What an engine library's adapter must do. Adapters are plain synchronous classes that run
inside a worker process (`engines.worker`) and know nothing of pipes, queues or injected faults.

Rules for all adapters:

* The class is made without arguments; ``load(settings)`` gets the engine's config section
  (``config.AsrSection`` / ``LlmSection`` / ``TtsSection``) as a plain dict and may take long.
  Import the engine's library inside ``load``, not at the top of the module.
* ``load`` raises `MissingFileError`, `MissingLibraryError` or `ConfigError` (one line: what,
  where, how to mend) for what only the user can mend; anything else is tried again later.
* One job at a time, on the thread that loaded (the process's main thread), unless
  `Loaded.slots` is above 1: then up to that many jobs run at once, each on its own thread, and
  the adapter must be safe for that. An engine that computes one job after the other says 1,
  however many sequences it keeps.
* ``cancelled()`` and ``should_pause()`` are cheap and may be called from any thread: ask them
  as often as the engine allows (an abort callback may simply be ``cancelled``). When
  ``cancelled()`` is true return at once, with anything: the result is dropped.
* ``cancel_now()`` is called from the command thread, after ``cancelled()`` has become true and
  only while a job runs; it is for engines with a switch that another thread may throw
  (``RunOptions.terminate``). It must not block. A switch is reset at the start of a job,
  *before* ``cancelled()`` is asked for the first time; else a cancel could be wiped out.
* A job that fails raises `EngineFailedError` (or anything else); the worker reports it and
  lives. State must stay usable after an error or a cancel.
* Printing to stdout is harmless (it goes to stderr); stderr's last lines reach the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from duet_trio.engines.contracts import EngineKind, Spoken, Transcript, Written
from duet_trio.engines.pipe import SpeakJob, TranscribeJob, WriteJob
from duet_trio.errors import ConfigError, MissingLibraryError

Flag = Callable[[], bool]


class SequenceLostError(Exception):
    """``write`` got no prompt and does not know that stream: the client sends it again.

    Raise it only before anything has been written in that step.
    """


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an adapter says about itself (see `engines.pipe.Ready`)."""

    slots: int = 1
    longest_step_ms: float = 0.0
    info: dict[str, str] = field(default_factory=dict)
    control_tokens: list[str] = field(default_factory=list)


class Adapter(Protocol):
    """What every adapter has."""

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Load the model; called once, before any job. An LLM also prefills
        ``settings["system_prompt"]`` here.
        """

    def cancel_now(self) -> None:
        """Throw the engine's own stop switch, if it has one (command thread; see the rules)."""


class AsrAdapter(Adapter, Protocol):
    """Speech recognition."""

    def transcribe(self, job: TranscribeJob, cancelled: Flag) -> Transcript:
        """Recognise ``job.pcm`` (16 kHz s16le mono); ``job.language`` may be empty."""


class LlmAdapter(Adapter, Protocol):
    """A language model."""

    def write(
        self,
        job: WriteJob,
        emit_text: Callable[[str], None],
        should_pause: Flag,
        cancelled: Flag,
    ) -> Written:
        """Write on in ``job.stream``, at most ``job.max_tokens`` tokens.

        With ``job.messages`` the stream begins anew: prompt, then ``job.written``, then new
        tokens. Without, it goes on where it stopped; a stream that is not known (any more)
        raises `SequenceLostError`, or is evaluated again from what the adapter kept, counted in
        ``Written.reevaluated_tokens``. Emit each token's text as it comes (whole characters
        only). When ``should_pause()`` is true end the step after the token at hand: all text
        that belongs to evaluated tokens is emitted then or in the next step, never lost.
        ``finished``: end of text or the context is full. Never give another stream's text.
        """

    def close_stream(self, stream: int) -> None:
        """Forget that stream (main thread, between jobs); unknown ones are ignored."""


class TtsAdapter(Adapter, Protocol):
    """A voice."""

    def speak(
        self,
        job: SpeakJob,
        emit_block: Callable[[bytes], None],
        cancelled: Flag,
    ) -> Spoken:
        """Speak ``job.text``, giving PCM (24 kHz s16le mono) to ``emit_block`` as it is made.

        ``job.cap_s`` is kept by the worker: past it blocks are dropped, ``cancelled()`` becomes
        true and the audio sent ends in a fade. The worker counts the audio, so the returned
        ``audio_s`` need not be exact; an adapter that cuts by itself sets ``capped``.
        """


#: (kind, config name) → "module:class", imported only in a worker.
ADAPTERS: dict[tuple[EngineKind, str], str] = {
    ("asr", "whisper"): "duet_trio.engines.adapters.whisper:WhisperAdapter",
    ("llm", "llama"): "duet_trio.engines.adapters.llama:LlamaAdapter",
    ("tts", "piper"): "duet_trio.engines.adapters.piper:PiperAdapter",
    ("tts", "qwen"): "duet_trio.engines.adapters.qwen:QwenAdapter",
}


def find_adapter(kind: EngineKind, engine: str) -> Any:
    """Import and make the adapter for ``kind`` and config name ``engine``.

    A name with a colon is itself "module:class" (adapters of one's own, tests). Raises
    `ConfigError` for an unknown name, `MissingLibraryError` when the import fails.
    """
    path = engine if ":" in engine else ADAPTERS.get((kind, engine))
    if path is None:
        known = ", ".join(sorted(name for k, name in ADAPTERS if k == kind))
        raise ConfigError(f"{kind}.engine: unknown engine '{engine}'; one of {known}, scripted")
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)()
    except ImportError as error:
        raise MissingLibraryError(
            f"{kind}.engine = {engine}: {error}; install the package that holds it"
        ) from None
