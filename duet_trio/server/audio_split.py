"""A recording in utterances: whisper takes 30 s at a time, and no word should be cut in two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from duet_trio.engines.contracts import LISTEN_RATE_HZ

MOST_S = 28.0
#: The quietest place is looked for in the last of these seconds of each part.
SEARCH_S = 10.0
_WINDOW = LISTEN_RATE_HZ // 20


def split_speech(pcm: bytes) -> Iterator[bytes]:
    """Parts of at most `MOST_S` of 16 kHz s16le mono, cut where it is quietest; joined: all."""
    samples = np.frombuffer(pcm[: len(pcm) & ~1], dtype="<i2")
    most, search = int(MOST_S * LISTEN_RATE_HZ), int(SEARCH_S * LISTEN_RATE_HZ)
    start = 0
    while len(samples) - start > most:
        tail = samples[start + most - search : start + most].astype(np.float32)
        windows = tail[: len(tail) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
        quietest = int(np.argmin(np.mean(windows * windows, axis=1)))
        end = start + most - search + quietest * _WINDOW + _WINDOW // 2
        yield samples[start:end].tobytes()
        start = end
    if start < len(samples):
        yield samples[start:].tobytes()
