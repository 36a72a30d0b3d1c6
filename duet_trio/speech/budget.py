"""How much text makes a piece, so that the voice never waits for the writer.

While the language model writes the next piece and the voice then makes its first block, the
board lives on the audio that is left of this one. A piece may close once that is enough::

    left(piece) + audio already ahead  >=  next hold of the model + first block of the voice

where ``left`` is what remains unplayed when the last block of the piece arrives. For a voice
about as slow as real time no length is enough; then a piece's own audio decides.
"""

from __future__ import annotations

from typing import Literal

from duet_trio.speech.measure import SECONDS_PER_UNIT, speech_units

End = Literal["sentence", "clause"]

#: A piece never grows beyond this; longer calls drift in timbre, and caps are sized for it.
MAX_UNITS = 250

_CLAUSE_UNITS = 60  # practice of Qwen3-TTS: 60-250 characters a call; shorter sounds chopped
_FIRST_CLAUSE_UNITS = 120  # only a very long first sentence is cut inside
#: A voice this much faster than real time has its next piece long before the first has played, so
#: the first one may be short: the answer begins sooner by the rest of its sentence.
_FAST_FACTOR = 0.35
_FAST_CLAUSE_UNITS = 30
#: … and a first sentence without any clause is cut between words here (7 s of speech): such a
#: voice gives no sound before it has made the whole sentence, and the model must write it first.
_FAST_FIRST_UNITS = 120
_ENOUGH_UNITS = 100  # beyond this a longer first piece costs more than the stall that it avoids
_WEIGHT = 0.25  # of a new measurement in the running mean


class Estimates:
    """Running means of how fast the voice and the language model are.

    One object per pair of engines, owned and shared by the caller. The seeds are the
    reference laptop's figures: LLM 61-66 tokens/s; TTS at a real-time factor of 0.84-0.89
    inside an answer; first block about 0.5 s; 60 ms of speech per character.
    """

    def __init__(
        self,
        *,
        seconds_per_unit: float = SECONDS_PER_UNIT,
        first_block_s: float = 0.5,
        real_time_factor: float = 0.87,
        tokens_per_s: float = 63.0,
        characters_per_token: float = 4.0,
        hold_s: float = 0.32,
    ) -> None:
        self.seconds_per_unit = seconds_per_unit
        self.first_block_s = first_block_s
        self.real_time_factor = real_time_factor
        self.tokens_per_s = tokens_per_s
        self.characters_per_token = characters_per_token
        self._hold_mean_s = hold_s
        self._hold_deviation_s = hold_s / 4

    @property
    def hold_s(self) -> float:
        """What the next hold of the language model takes: mean and one mean deviation."""
        return self._hold_mean_s + self._hold_deviation_s

    @property
    def characters_per_s(self) -> float:
        """Latin characters spoken in a second."""
        return 1.0 / self.seconds_per_unit

    def audio_s(self, text: str) -> float:
        """Seconds of speech that ``text`` gives."""
        return speech_units(text) * self.seconds_per_unit

    def spoke(self, text: str, *, audio_s: float, first_block_s: float, total_s: float) -> None:
        """Learn from a piece: its audio, request → first block, request → last block.

        Pieces without audio teach nothing. ``total_s`` is time while the voice had the turn.
        """
        units = speech_units(text.strip())
        if audio_s <= 0 or units <= 0:
            return
        self.seconds_per_unit = _mean(self.seconds_per_unit, audio_s / units)
        self.first_block_s = _mean(self.first_block_s, max(0.0, first_block_s))
        self.real_time_factor = _mean(self.real_time_factor, max(0.0, total_s) / audio_s)

    def wrote(self, *, tokens: int, characters: int, seconds: float) -> None:
        """Learn from one hold of the language model (prefill included: it is part of the hold)."""
        if tokens <= 0 or seconds <= 0:
            return
        self.tokens_per_s = _mean(self.tokens_per_s, tokens / seconds)
        if characters > 0:
            self.characters_per_token = _mean(self.characters_per_token, characters / tokens)
        error = abs(seconds - self._hold_mean_s)
        self._hold_deviation_s = _mean(self._hold_deviation_s, error)
        self._hold_mean_s = _mean(self._hold_mean_s, seconds)


def _mean(old: float, new: float) -> float:
    return old + _WEIGHT * (new - old)


class Budget:
    """The rule of this module, over running `Estimates`."""

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates

    def enough(self, text: str, *, at: End, first: bool, audio_ahead_s: float = 0.0) -> bool:
        """Whether a piece may close behind ``text``, which ends ``at`` that kind of end.

        ``audio_ahead_s`` is audio of earlier pieces that is made and not yet played. The first
        piece prefers a whole sentence: cut at any clause, 24-62 % of answers stalled in
        simulation, against 0.2-15 % for 0.16 s later first audio.
        """
        if at == "clause":
            least = self._first_clause_units() if first else _CLAUSE_UNITS
            if speech_units(text) < least:
                return False
        needed_s = self._needed_s()
        if self._estimates.audio_s(text) < needed_s:
            return False  # "Yes." is joined to what follows, however much is ahead
        if self._most_left_s() < needed_s:
            return True  # the voice is too slow for any sensible length to help
        return self._left_s(self._estimates.audio_s(text)) + audio_ahead_s >= needed_s

    def longest_units(self, *, first: bool) -> int:
        """How long a piece may become at most (the `first` one of an answer, or a later one)."""
        return _FAST_FIRST_UNITS if first and self._is_fast() else MAX_UNITS

    def _first_clause_units(self) -> int:
        return _FAST_CLAUSE_UNITS if self._is_fast() else _FIRST_CLAUSE_UNITS

    def _is_fast(self) -> bool:
        return self._estimates.real_time_factor < _FAST_FACTOR

    def start_hold_s(self, text: str, *, limit_s: float) -> float:
        """How much later than its first audio the playback of a first piece should start.

        0 when the piece covers the next hold and first block; at most ``limit_s``.
        """
        missing_s = self._needed_s() - self._left_s(self._estimates.audio_s(text))
        return min(max(missing_s, 0.0), max(limit_s, 0.0))

    def _needed_s(self) -> float:
        return self._estimates.hold_s + self._estimates.first_block_s

    def _left_s(self, audio_s: float) -> float:
        """Audio left when the last block arrives; playing began with the first block."""
        first_s = self._estimates.first_block_s
        total_s = max(first_s, self._estimates.real_time_factor * audio_s)
        return audio_s - (total_s - first_s)

    def _most_left_s(self) -> float:
        return self._left_s(_ENOUGH_UNITS * self._estimates.seconds_per_unit)
