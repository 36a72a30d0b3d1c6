"""What happens to an engine's audio before it leaves: quiet ends, soft edges, runs cut short.

Audio leaves as it comes. Held back are only quiet stretches (they may turn out to be the tail)
and less than a window of 10 ms; never voiced audio.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from duet_trio.engines.contracts import SPEECH_RATE_HZ

Floats = npt.NDArray[np.float32]

WINDOW = SPEECH_RATE_HZ // 100
#: Room tone of runs that do not end lies below this; quiet speech does not.
QUIET_RMS = 10 ** (-50 / 20)
QUIET_ENERGY = np.float32(WINDOW * QUIET_RMS**2)  # of a window
LEAD_KEPT = SPEECH_RATE_HZ * 20 // 1000  # of the quiet before the first sound
TAIL_KEPT = SPEECH_RATE_HZ * 150 // 1000  # of the quiet after the last
FADE = SPEECH_RATE_HZ * 5 // 1000
SILENCE_ENDS = SPEECH_RATE_HZ * 3 // 2  # so much quiet after speech ends the piece
SILENCE_FAILS = SPEECH_RATE_HZ * 3  # so much before any: nothing will come


class PieceShaper:
    """One piece's audio. Give it blocks; ``emit`` gets s16le bytes."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._part: Floats = np.zeros(0, np.float32)  # less than a window
        self._quiet: list[Floats] = []
        self._quiet_samples = 0
        self._last = 0.0  # last sample that left
        self.heard = False  # anything above the quiet level
        self.samples = 0  # that left

    @property
    def ended(self) -> bool:
        """Whether silence has gone on for so long that the engine should stop."""
        return self._quiet_samples >= (SILENCE_ENDS if self.heard else SILENCE_FAILS)

    def take(self, block: Floats) -> bool:
        """Let a block through; returns whether to go on (see `ended`)."""
        audio = np.concatenate([self._part, block]) if self._part.size else block
        whole = audio.size // WINDOW * WINDOW
        self._part = audio[whole:].copy()
        windows = audio[:whole].reshape(-1, WINDOW)
        loud = np.einsum("ij,ij->i", windows, windows) > QUIET_ENERGY
        if self.heard and not self._quiet and loud.all():
            # Nearly all blocks, and each passes through here on its way to the listener.
            if whole:
                self._send(audio[:whole])
            return True
        ready: list[Floats] = []
        for window, is_loud in zip(windows, loud, strict=True):
            if is_loud:
                ready += self._release()
                ready.append(window)
            elif not self.ended:
                self._quiet.append(window)
                self._quiet_samples += WINDOW
        if ready:
            self._send(np.concatenate(ready))
        return not self.ended

    def finish(self) -> None:
        """The piece is over: its quiet tail goes out, shortened, and the edge is made soft."""
        if not self.heard:
            return
        tail = np.concatenate([*self._quiet, self._part]) if self._quiet else self._part
        tail = tail[:TAIL_KEPT].astype(np.float32)
        if tail.size >= FADE:
            tail[-FADE:] *= np.linspace(1, 0, FADE, dtype=np.float32)
        else:  # it ends in mid-sound: let the last value go down instead of breaking off
            last = float(tail[-1]) if tail.size else self._last
            tail = np.concatenate([tail, last * np.linspace(1, 0, FADE, dtype=np.float32)])
        self._quiet, self._quiet_samples, self._part = [], 0, np.zeros(0, np.float32)
        self._send(tail.astype(np.float32))

    def _release(self) -> list[Floats]:
        """What was held back, now that sound follows; before the first sound only its end."""
        held, self._quiet, self._quiet_samples = self._quiet, [], 0
        if self.heard:
            return held
        self.heard = True
        if not held:
            return []
        lead = np.concatenate(held[-(LEAD_KEPT // WINDOW) :])
        lead[:FADE] *= np.linspace(0, 1, FADE, dtype=np.float32)
        return [lead]

    def _send(self, audio: Floats) -> None:
        if not self.samples and audio.size >= FADE:
            audio = audio.copy()
            audio[:FADE] *= np.linspace(0, 1, FADE, dtype=np.float32)
        self._last = float(audio[-1]) if audio.size else self._last
        self.samples += audio.size
        scaled = np.multiply(audio, 32767, dtype=np.float32)
        np.clip(scaled, -32767, 32767, out=scaled)
        self._emit(np.rint(scaled, out=scaled).astype("<i2").tobytes())
