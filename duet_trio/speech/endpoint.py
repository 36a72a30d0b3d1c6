"""From voice probabilities to utterances, in audio time. Sans-IO.

One chunk is 512 samples (32 ms) of 16 kHz s16le mono PCM with its voice probability. Wall
time plays no part: packets that come late or in a burst end an utterance at the same word.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from duet_trio.config import VadSection
from duet_trio.speech.pcm import level_dbfs

#: Bytes of one chunk.
CHUNK_BYTES = 1024
CHUNK_MS = 32.0

_BYTES_PER_MS = 32
_HYSTERESIS = 0.15  # as Silero's own iterator: speech ends below threshold - 0.15
_CANDIDATE_SILENCE_MS = 300.0  # so long a click may wait for the word that it began
#: Voice that stays so far below the speaker's own level is somebody else's (a television, people
#: at the next table), or the end of a sentence dying away. It counts as half a silence: after
#: twice the usual time the utterance is over.
_FAR_DB = 10.0
_FAR_CHUNKS = 5  # consonants and the gaps between words are as quiet, but shorter
_FAR_SHARE = 0.5
#: People pause two or three times in a sentence; each spoilt speculation costs the recogniser
#: one call that nobody can interrupt.
_MAX_SPECULATIONS = 3


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Enough voice for it to be speech (``min_speech_ms``)."""


@dataclass(frozen=True, slots=True)
class Speculate:
    """Silence of ``speculate_ms``: recognition may start with ``pcm``.

    Again after each pause, at most three times in one utterance.
    """

    pcm: bytes


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """Speech went on: what was recognised of `Speculate` is not the utterance."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance: pre-roll, speech and the silence behind it.

    ``speech_ms`` counts voiced chunks, ``endpoint_ms`` the silence at the end; ``capped``: it
    was cut by ``max_utterance_s``; ``speculation_valid``: no speech followed `Speculate`.
    """

    pcm: bytes
    speech_ms: float
    endpoint_ms: float
    capped: bool
    speculation_valid: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """Something that was no utterance: ``why`` is "click" or "no speech"."""

    why: str


Event = SpeechStarted | Speculate | SpeechResumed | Utterance | Discarded


@dataclass(slots=True)
class _Current:
    """The utterance, or what may become one, under way."""

    pcm: bytearray
    length_ms: float = 0.0
    voiced_ms: float = 0.0
    silence_ms: float = 0.0
    started: bool = False
    levels: deque[float] = field(default_factory=lambda: deque(maxlen=_FAR_CHUNKS))
    speech_db: float = -120.0  # of the speaker: rises at once, never falls
    speculating: bool = False  # nothing but silence since the last `Speculate`
    speculations: int = 0


class Endpointer:
    """Finds utterances in one board's microphone audio.

    ``hold``: the button is held (manual mode); then only `flush` or the cap ends an utterance.
    ``endpoint_ms`` above 0 replaces the section's own.
    """

    def __init__(self, settings: VadSection, *, endpoint_ms: int = 0, hold: bool = False) -> None:
        self._settings = settings
        self._endpoint_ms = float(endpoint_ms or settings.endpoint_ms)
        self._hold = hold
        self._pre_roll: deque[bytes] = deque()
        self._pre_roll_bytes = 0
        self._voiced = False  # the last chunk, for the hysteresis
        self._current: _Current | None = None

    @property
    def speech_ms(self) -> float:
        """Voiced audio of what is under way; 0 when there is nothing."""
        return self._current.voiced_ms if self._current else 0.0

    @property
    def in_speech(self) -> bool:
        """Whether an utterance is under way (after `SpeechStarted`)."""
        return self._current is not None and self._current.started

    @property
    def voiced(self) -> bool:
        """Whether the last chunk was voice."""
        return self._voiced

    def reset(self, *, hold: bool | None = None) -> None:
        """Forget everything, pre-roll included; ``hold`` changes the mode."""
        if hold is not None:
            self._hold = hold
        self._forget_pre_roll()
        self._voiced = False
        self._current = None

    def retune(self, settings: VadSection) -> None:
        """Go on with other settings; what is under way stays under way."""
        self._settings = settings

    def keep_last(self, ms: float) -> None:
        """Cut what is under way to its last ``ms``: what was before is nobody's speech."""
        if self._current is not None:
            surplus = len(self._current.pcm) - round(ms) * _BYTES_PER_MS
            if surplus > 0:
                del self._current.pcm[:surplus]
                self._current.length_ms = min(self._current.length_ms, ms)
                self._current.voiced_ms = min(self._current.voiced_ms, ms)

    def feed(self, pcm: bytes, probability: float) -> list[Event]:
        """Take one chunk with its voice probability; give what happened, in order."""
        threshold = self._settings.threshold - (_HYSTERESIS if self._voiced else 0.0)
        self._voiced = probability >= threshold
        current = self._current
        if current is None:
            if not self._voiced:
                self._keep(pcm)
                return []
            current = self._current = _Current(bytearray().join(self._pre_roll))
        ms = len(pcm) / _BYTES_PER_MS
        current.pcm += pcm
        current.length_ms += ms
        if not self._voiced:
            events = self._on_silence(current, ms)
        elif self._is_far(current, pcm):
            events = self._on_silence(current, ms * _FAR_SHARE)
        else:
            events = self._on_voice(current, ms)
        if self._current and current.length_ms >= self._settings.max_utterance_s * 1000:
            events.append(self._end(current, capped=True))
        return events

    def flush(self) -> list[Event]:
        """No more audio is coming (listen stop, or the stream stalled): end what there is."""
        if self._current is None:
            return [Discarded("no speech")]
        return [self._end(self._current)]

    def _is_far(self, current: _Current, pcm: bytes) -> bool:
        """Whether this voice is much quieter, for some time already, than the speaker was."""
        current.levels.append(level_dbfs(pcm))
        loudest = max(current.levels)
        if len(current.levels) == _FAR_CHUNKS:
            current.speech_db = max(current.speech_db, sorted(current.levels)[_FAR_CHUNKS // 2])
        return not self._hold and current.started and loudest < current.speech_db - _FAR_DB

    def _on_voice(self, current: _Current, ms: float) -> list[Event]:
        events: list[Event] = []
        if current.speculating:
            current.speculating = False
            events.append(SpeechResumed())
        current.voiced_ms += ms
        current.silence_ms = 0.0
        if not current.started and current.voiced_ms >= self._settings.min_speech_ms:
            current.started = True
            events.append(SpeechStarted())
        return events

    def _on_silence(self, current: _Current, ms: float) -> list[Event]:
        current.silence_ms += ms
        if not current.started:
            limit_ms = min(self._endpoint_ms, _CANDIDATE_SILENCE_MS)
            return [self._end(current)] if current.silence_ms >= limit_ms else []
        if self._hold:
            return []
        if current.silence_ms >= self._endpoint_ms:
            return [self._end(current)]
        speculate_ms = self._settings.speculate_ms
        if (
            not current.speculating
            and current.speculations < _MAX_SPECULATIONS
            and 0 < speculate_ms <= current.silence_ms
        ):
            current.speculating = True
            current.speculations += 1
            return [Speculate(bytes(current.pcm))]
        return []

    def _end(self, current: _Current, *, capped: bool = False) -> Event:
        self._current = None
        self._voiced = False
        pcm = bytes(current.pcm)
        self._forget_pre_roll()
        if not current.started:
            # Its audio is the pre-roll of what comes next: it may be a word's first consonant.
            for start in range(0, len(pcm), CHUNK_BYTES):
                self._keep(pcm[start : start + CHUNK_BYTES])
            return Discarded("click")
        return Utterance(pcm, current.voiced_ms, current.silence_ms, capped, current.speculating)

    def _keep(self, pcm: bytes) -> None:
        self._pre_roll.append(pcm)
        self._pre_roll_bytes += len(pcm)
        limit = self._settings.pre_roll_ms * _BYTES_PER_MS
        while self._pre_roll and self._pre_roll_bytes - len(self._pre_roll[0]) >= limit:
            self._pre_roll_bytes -= len(self._pre_roll.popleft())

    def _forget_pre_roll(self) -> None:
        self._pre_roll.clear()
        self._pre_roll_bytes = 0
