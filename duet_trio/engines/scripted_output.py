"""What scripted jobs put out and when: a transcript, tokens, blocks of a tone.

Each output object is asked how long its next item takes, and made to give it when that time has
come; faults and cancels are applied around it (``scripted_job``).
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable
from functools import cache
from typing import Protocol

from duet_trio.engines.cap import AudioCap
from duet_trio.engines.contracts import SPEECH_RATE_HZ, Spoken, Transcript, Written
from duet_trio.engines.injected import ENDLESS_REPEATS, ENDLESS_TEXT, short_block
from duet_trio.engines.pipe import (
    Block,
    DoneSpeak,
    DoneTranscribe,
    DoneWrite,
    Failed,
    FromWorker,
    SpeakJob,
    Text,
    TranscribeJob,
    WriteJob,
)

CHARACTERS_PER_TOKEN = 4
BLOCK_SAMPLES = SPEECH_RATE_HZ // 5
ENDLESS_STEP_S = 0.1
AMPLITUDE = 8000
#: All tones are multiples of 50 Hz, so 20 ms hold whole periods of each.
PERIOD_SAMPLES = SPEECH_RATE_HZ // 50


class Output(Protocol):
    """A job's items, one after another; a ``Done…`` or `Failed` is the last."""

    def takes_s(self, slow_factor: float) -> float:
        """How long the next item takes; ``slow_factor`` 0: at the engine's natural speed."""

    def make(self) -> FromWorker | None:
        """Give that item. None: something was done that is not sent."""

    def pause(self) -> None:
        """Let the next item be the last (writers; others ignore it)."""

    def end(self, how: str) -> None:
        """From now on an injected ending: ``empty``, ``short`` or ``endless``."""


class Listening:
    """A transcript: computed (item 1), then given (item 2)."""

    def __init__(self, job: TranscribeJob, script: Callable[[], str], delay_s: float) -> None:
        self._id = job.id
        self._script = script
        self._delay_s = delay_s
        self._computed = False
        self._how = ""

    def takes_s(self, slow_factor: float) -> float:
        """The delay, then nothing."""
        return 0.0 if self._computed else self._delay_s * (slow_factor or 1.0)

    def make(self) -> FromWorker | None:
        """Nothing, then the transcript; only then an entry of the script is used up."""
        if not self._computed:
            self._computed = True
            return None
        match self._how:
            case "empty":
                transcript = Transcript("")
            case "short":
                transcript = Transcript("a")
            case "endless":  # how a recogniser that loops looks
                text = " ".join([ENDLESS_TEXT.strip()] * ENDLESS_REPEATS)
                transcript = Transcript(text, compression_ratio=20.0)
            case _:
                transcript = Transcript(self._script())
        return DoneTranscribe(self._id, transcript)

    def pause(self) -> None:
        """Nothing to pause."""

    def end(self, how: str) -> None:
        """Change the transcript."""
        self._how = how


class Story:
    """One stream's text and how far it has been written."""

    def __init__(self, text: str, job: WriteJob) -> None:
        self._left = tokens_of(text.removeprefix(job.written))[::-1]
        length = sum(len(message.content) for message in job.messages or ())
        self.prompt_tokens = -(-(length + len(job.written)) // CHARACTERS_PER_TOKEN)
        self.reevaluated_tokens = self.prompt_tokens if job.written else 0

    @property
    def finished(self) -> bool:
        """Nothing is left to be written."""
        return not self._left

    def next_token(self) -> str:
        """Write on by one token."""
        return self._left.pop()


def tokens_of(text: str) -> list[str]:
    """Cut ``text`` into tokens of up to four characters, blanks before them included."""
    return re.findall(rf"\s*\S{{1,{CHARACTERS_PER_TOKEN}}}|\s+$", text)


class Writing:
    """Tokens of a story; without one (``None``) the sequence is lost."""

    def __init__(self, job: WriteJob, story: Story | None, token_s: float) -> None:
        self._job = job
        self._story = story
        self._token_s = token_s
        self._tokens = 0
        self._paused = False
        self._how = ""
        prompted = job.messages is not None and story is not None
        self._prompt_tokens = story.prompt_tokens if prompted and story else 0
        self._reevaluated = story.reevaluated_tokens if prompted and story else 0

    def takes_s(self, slow_factor: float) -> float:
        """One token's time; the end takes none."""
        return 0.0 if self._at_end() else self._token_s * (slow_factor or 1.0)

    def make(self) -> FromWorker:
        """The next token, or the end of the step."""
        if self._story is None:
            return Failed(self._job.id, "the sequence was lost", lost=True)
        if self._at_end():
            finished = self._how != "endless" and (bool(self._how) or self._story.finished)
            written = Written(self._tokens, finished, self._prompt_tokens, self._reevaluated)
            return DoneWrite(self._job.id, written)
        self._tokens += 1
        if self._how == "short":
            self._how = "empty"
            return Text(self._job.id, "a")
        if self._how == "endless":
            return Text(self._job.id, ENDLESS_TEXT)
        return Text(self._job.id, self._story.next_token())

    def _at_end(self) -> bool:
        if self._story is None or self._paused or self._tokens >= self._job.max_tokens:
            return True
        return self._how == "empty" or (not self._how and self._story.finished)

    def pause(self) -> None:
        """End the step."""
        self._paused = True

    def end(self, how: str) -> None:
        """Stop, write one more token, or write without end."""
        self._how = how


class Speaking:
    """Blocks of a tone."""

    def __init__(self, job: SpeakJob, length_s: float, first_s: float, rtf: float) -> None:
        self._id = job.id
        self._period = tone(300 + 50 * (job.generation % 40))
        self._samples = round(length_s * SPEECH_RATE_HZ)
        self._at = 0
        self._first_s = first_s
        self._rtf = rtf
        self._cap = AudioCap(job.cap_s)
        self._begun = False
        self._how = ""

    def takes_s(self, slow_factor: float) -> float:
        """The time to the first block, then each block's share; the end takes none."""
        if self._how == "endless":
            return 0.0 if self._cap.capped else ENDLESS_STEP_S
        if self._how:
            return 0.0
        audio_s = self._block_samples() / SPEECH_RATE_HZ
        natural_s = audio_s * self._rtf if self._begun else self._first_s
        return max(natural_s, audio_s * slow_factor)

    def make(self) -> FromWorker:
        """The next block, or the end of the piece."""
        self._begun = True
        pcm = b""
        if self._how == "short":
            self._how = "empty"
            pcm = self._cap.take(short_block())
        elif self._how == "endless":
            pcm = self._cap.take(bytes(2 * BLOCK_SAMPLES))
        elif not self._how:
            pcm = self._cap.take(self._tone_block())
        if pcm:
            return Block(self._id, pcm)
        return DoneSpeak(self._id, Spoken(self._cap.audio_s, self._cap.capped))

    def _block_samples(self) -> int:
        return min(BLOCK_SAMPLES, self._samples - self._at)

    def _tone_block(self) -> bytes:
        length = self._block_samples()
        start = self._at % PERIOD_SAMPLES
        self._at += length
        repeats = -(-(start + length) // PERIOD_SAMPLES)
        return (self._period * repeats)[2 * start : 2 * (start + length)]

    def pause(self) -> None:
        """A voice is not paused."""

    def end(self, how: str) -> None:
        """Stop, give 46 ms more, or go on up to the cap."""
        self._how = how


@cache
def tone(frequency_hz: int) -> bytes:
    """20 ms of a sine of a multiple of 50 Hz, as s16le; it repeats without a click."""
    step = 2 * math.pi * frequency_hz / SPEECH_RATE_HZ
    samples = (round(AMPLITUDE * math.sin(step * index)) for index in range(PERIOD_SAMPLES))
    return array("h", samples).tobytes()
