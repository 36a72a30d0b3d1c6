"""The voices that ``bench tts`` measures: the published libqwen on a tiny pair, or the demo's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from duet_trio.bench.chunk_clock import ChunkClock, build_clock
from duet_trio.config import TtsSection
from duet_trio.engines.native.maker_task import Task
from duet_trio.lab.tiny_gguf import write_pair
from duet_trio.models.catalogue import LIBQWEN_CPU
from duet_trio.models.paths import model_folder, require
from duet_trio.voices.making import run_task

LONG_TEXT = "This goes on and on, until somebody stops it. " * 12
RUN_AWAY = "~" * 200 + "a"  # the tiny pair speaks to its cap


@dataclass(frozen=True, slots=True)
class BenchVoice:
    """A voice as configured; ``clock`` tells when its engine gave each block (None: it cannot).

    ``long_text`` takes it so long that there is time to cancel it.
    """

    section: TtsSection
    clock: ChunkClock | None
    long_text: str

    @property
    def settings(self) -> dict[str, Any]:
        """For a worker."""
        made: dict[str, Any] = msgspec.to_builtins(self.section)
        return made


def native_voice(library: str, folder: Path) -> BenchVoice:
    """The tiny pair, written to ``folder``, on that libqwen (empty: the one that was pulled).

    Raises `UsageError` if it is not there, `BenchError` without a C compiler.
    """
    pulled = model_folder() / LIBQWEN_CPU.name / "libqwen.so"
    libqwen = require(Path(library).expanduser() if library else pulled, "libqwen")
    pair = write_pair(folder)
    clock = build_clock(libqwen.resolve(), folder)
    section = TtsSection(
        engine="qwen",
        library=str(clock.library),
        model=str(pair.talker),
        codec=str(pair.codec),
        voices=str(folder),
        first_s=30.0,
        stall_s=30.0,
        piece_s=30.0,
        piece_per_audio=10.0,
    )
    return BenchVoice(section, clock, RUN_AWAY)


def demo_voice() -> BenchVoice:
    """The demo's, by its own engine."""
    return BenchVoice(TtsSection(engine="piper"), None, LONG_TEXT)


def load_time_s(voice: BenchVoice, folder: Path) -> float:
    """The engine's own load of its model, in a process that is started already; 0: not known."""
    if voice.section.engine != "qwen":
        return 0.0
    out = str(folder / "load.wav")
    task = Task(do="say", settings=voice.settings, text="Hi.", cap_s=2.0, out=out)
    return run_task(task, voice.section.load_s).load_s
