"""What happens to an engine's audio before it leaves: quiet ends, soft edges, runs cut short.

Audio leaves as it comes. Held back are only quiet stretches (they may turn out to be the tail)
and less than a window of 10 ms; never voiced audio.

The engine is waiting meanwhile, and its listener too, so blocks are neither copied nor walked
through window by window (see ``native/audio.c``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.engines.native.audio import count_loud, loud_windows, pcm16
from duet_trio.engines.native.types import Floats

# Lengths are in samples.
WINDOW = SPEECH_RATE_HZ // 100
#: Room tone of runs that do not end lies below this; quiet speech does not.
QUIET_RMS = 10 ** (-50 / 20)
QUIET_ENERGY = WINDOW * QUIET_RMS**2  # of a window
LEAD_KEPT = SPEECH_RATE_HZ * 20 // 1000  # of the quiet before the first sound
TAIL_KEPT = SPEECH_RATE_HZ * 150 // 1000  # of the quiet after the last
FADE = SPEECH_RATE_HZ * 5 // 1000
SILENCE_ENDS = SPEECH_RATE_HZ * 3 // 2  # so much quiet after speech ends the piece
SILENCE_FAILS = SPEECH_RATE_HZ * 3  # so much before any: nothing will come


def all_loud(block: Floats) -> bool:
    """Is it made of whole windows, all of them above the quiet level?"""
    whole, rest = divmod(block.size, WINDOW)
    return not rest and count_loud(block, WINDOW, QUIET_ENERGY) == whole


class PieceShaper:
    """One piece's audio. Give it blocks; ``emit`` gets s16le bytes."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._part: Floats = np.zeros(0, np.float32)  # less than a window
        self._quiet: list[Floats] = []  # whole windows, held back
        self._quiet_samples = 0
        self._last = 0.0  # last sample that left
        self.heard = False  # anything above the quiet level
        self.samples = 0  # that left

    @property
    def ended(self) -> bool:
        """Whether silence has gone on for so long that the engine should stop."""
        return self._quiet_samples >= self._most_quiet

    @property
    def _most_quiet(self) -> int:
        return SILENCE_ENDS if self.heard else SILENCE_FAILS

    def take(self, block: Floats) -> bool:
        """Let a block through; returns whether to go on (see `ended`). Keeps nothing of it."""
        if self.heard and not self._quiet_samples and not self._part.size and all_loud(block):
            self._send(block)  # the middle of a word, as most blocks are
            return True
        audio = np.concatenate([self._part, block]) if self._part.size else block
        whole = audio.size // WINDOW * WINDOW
        self._part = audio[whole:].copy()
        audio = audio[:whole]
        if ready := self._sorted(audio):
            self._send(np.concatenate(ready))
        return not self.ended

    def finish(self) -> None:
        """The piece is over: its quiet tail goes out, shortened, and the edge is made soft."""
        if not self.heard:
            return
        tail = np.concatenate([*self._quiet, self._part])[:TAIL_KEPT]
        if tail.size >= FADE:
            tail[-FADE:] *= np.linspace(1, 0, FADE, dtype=np.float32)
        else:  # it ends in mid-sound: let the last value go down instead of breaking off
            last = float(tail[-1]) if tail.size else self._last
            tail = np.concatenate([tail, last * np.linspace(1, 0, FADE, dtype=np.float32)])
        self._quiet, self._quiet_samples, self._part = [], 0, np.zeros(0, np.float32)
        self._send(tail.astype(np.float32))

    def _sorted(self, audio: Floats) -> list[Floats]:
        """What of it, and of what was held back, goes out now; quiet at its end is held back.

        Pauses go out with the speech around them, save those so long that they count as an end:
        only an engine that does not stream gives one within a block, and it is shortened.
        """
        loud = np.flatnonzero(loud_windows(audio, WINDOW, QUIET_ENERGY))
        out: list[Floats] = []
        at = 0
        if not loud.size:
            self._hold(audio)
            return out
        for run in np.split(loud, np.flatnonzero(np.diff(loud) > SILENCE_ENDS // WINDOW) + 1):
            first, after = int(run[0]) * WINDOW, (int(run[-1]) + 1) * WINDOW
            self._hold(audio[at:first])
            out += [*self._release(), audio[first:after]]
            at = after
        self._hold(audio[at:])
        return out

    def _hold(self, quiet: Floats) -> None:
        """Hold quiet windows back, as many as matter."""
        quiet = quiet[: max(0, self._most_quiet - self._quiet_samples)]
        if quiet.size:
            self._quiet.append(quiet.copy())  # the block is the engine's again after this call
            self._quiet_samples += quiet.size

    def _release(self) -> list[Floats]:
        """What was held back, now that sound follows; before the first sound only its end."""
        held, self._quiet, self._quiet_samples = self._quiet, [], 0
        if self.heard:
            return held
        self.heard = True
        if not held:
            return []
        return [np.concatenate(held)[-LEAD_KEPT:]]

    def _send(self, audio: Floats) -> None:
        if not audio.size:
            return
        if not self.samples and audio.size >= FADE:
            audio = audio.copy()
            audio[:FADE] *= np.linspace(0, 1, FADE, dtype=np.float32)
        self._last = float(audio[-1])
        self.samples += audio.size
        self._emit(pcm16(audio))
