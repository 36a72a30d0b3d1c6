"""The scripted engine: recogniser, writer and voice by the clock, without models.

One implementation without I/O, used in two places: in an ordinary worker process
(``worker_loop``), and in the main process on a mock clock (``in_process``). Time comes in from
outside; any number of jobs run at once and none slows another down, as on a remote engine.

* ASR answers from ``asr.script``, cycled, ``asr.delay_s`` after the request; an entry counts as
  used when its transcript has been given, so a cancelled speculation uses up none.
* LLM writes ``llm.script[(stream - 1) % len]`` in tokens of up to four characters at
  ``llm.tokens_per_s``.
* TTS makes a tone of 300 + 50 × (generation mod 40) Hz, ``tts.seconds_per_character`` long per
  character, in blocks of 200 ms: the first after ``tts.first_audio_s``, each later one
  ``tts.rtf`` × its own length after the one before.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from duet_trio.engines.contracts import EngineKind
from duet_trio.engines.pipe import (
    Cancel,
    CloseStream,
    FromWorker,
    Load,
    Pause,
    Ready,
    SpeakJob,
    ToWorker,
    TranscribeJob,
    WriteJob,
)
from duet_trio.engines.scripted_job import Act, ScriptedJob
from duet_trio.engines.scripted_output import (
    Listening,
    Output,
    Speaking,
    Story,
    Writing,
)

#: Scripted engines run any number of jobs; this many is "any" for the client's slot count.
SLOTS = 256

__all__ = ["SLOTS", "Act", "ScriptedEngine", "Scripts"]


@dataclass(frozen=True)
class Scripts:
    """The part of an engine's config section that a scripted engine reads."""

    script: tuple[str, ...]
    delay_s: float
    tokens_per_s: float
    first_audio_s: float
    rtf: float
    seconds_per_character: float

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Scripts:
        """From a config section as builtins; what a section does not have gets a default."""
        return cls(
            script=tuple(settings.get("script") or ("",)),
            delay_s=float(settings.get("delay_s", 0.05)),
            tokens_per_s=float(settings.get("tokens_per_s", 60.0)),
            first_audio_s=float(settings.get("first_audio_s", 0.1)),
            rtf=float(settings.get("rtf", 0.5)),
            seconds_per_character=float(settings.get("seconds_per_character", 0.06)),
        )


class ScriptedEngine:
    """``receive`` commands, ``advance`` the time, send what comes out.

    ``load_time_s``: seconds from `Load` to `Ready`; ``slots``: as said in `Ready`;
    ``sequences``: streams it remembers (the least recently used goes first, and a step that
    finds its stream gone fails as lost).
    """

    def __init__(
        self,
        kind: EngineKind,
        settings: dict[str, Any],
        *,
        load_time_s: float = 0.0,
        slots: int = SLOTS,
        sequences: int = 1000,
    ) -> None:
        self._kind = kind
        self._scripts = Scripts.from_settings(settings)
        self._load_time_s = load_time_s
        self._slots = slots
        self._sequences = sequences
        self._ready_at: float | None = None
        self._jobs: dict[int, ScriptedJob] = {}
        self._stories: OrderedDict[int, Story] = OrderedDict()
        self._transcripts = 0

    def start(self, now: float) -> None:
        """Begin to load."""
        self._ready_at = now + self._load_time_s

    def receive(self, message: ToWorker, now: float) -> None:
        """Take one command; what follows from it comes out of the next `advance`."""
        match message:
            case Load():
                self.start(now)
            case Cancel(id=number):
                if number in self._jobs:
                    self._jobs[number].cancel(now)
            case Pause(id=number):
                if number in self._jobs:
                    self._jobs[number].pause(now)
            case CloseStream(stream=stream):
                self._stories.pop(stream, None)
            case job:
                self._jobs[job.id] = ScriptedJob(job, self._output(job), now)

    def next_wakeup(self) -> float | None:
        """When `advance` has something to do next; None: only after another command."""
        due = [job.due for job in self._jobs.values() if job.due is not None]
        if self._ready_at is not None:
            due.append(self._ready_at)
        return min(due, default=None)

    def advance(self, now: float) -> list[FromWorker | Act]:
        """Everything that is due by ``now``, in order of time."""
        out: list[FromWorker | Act] = []
        if self._ready_at is not None and self._ready_at <= now:
            self._ready_at = None
            out.append(Ready(slots=self._slots, info={"engine": "scripted"}))
        while True:
            job = min(
                (job for job in self._jobs.values() if job.due is not None and job.due <= now),
                key=lambda job: job.due or 0.0,
                default=None,
            )
            if job is None:
                return out
            out += job.step()
            if job.over:
                del self._jobs[job.number]

    def _output(self, job: TranscribeJob | WriteJob | SpeakJob) -> Output:
        scripts = self._scripts
        match job:
            case TranscribeJob():
                return Listening(job, self._next_transcript, scripts.delay_s)
            case WriteJob():
                return Writing(job, self._story(job), 1 / scripts.tokens_per_s)
            case SpeakJob():
                length_s = len(job.text) * scripts.seconds_per_character
                return Speaking(job, length_s, scripts.first_audio_s, scripts.rtf)

    def _next_transcript(self) -> str:
        text = self._scripts.script[self._transcripts % len(self._scripts.script)]
        self._transcripts += 1
        return text

    def _story(self, job: WriteJob) -> Story | None:
        if job.messages is not None:
            script = self._scripts.script
            story = Story(script[(job.stream - 1) % len(script)], job)
            self._stories[job.stream] = story
        elif job.stream not in self._stories:
            return None
        self._stories.move_to_end(job.stream)
        while len(self._stories) > self._sequences:
            self._stories.popitem(last=False)
        return self._stories[job.stream]
