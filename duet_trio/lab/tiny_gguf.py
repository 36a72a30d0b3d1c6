"""A tiny Qwen3-TTS pair with random weights that the real libqwen runs: every stage is the
engine's own, the sound is noise.

The talker is not purely random. Three residual channels are reserved so that the length of the
speech follows the length of the text:

* channel 0: a constant, from the text projection's bias;
* channel 1: 1 on every position whose text token is a plain byte;
* channel 2: the attention layer writes the mean of channel 1 over all positions there.

The logit of the end token is ``GAIN * (THETA * ch0 - ch2)``: speech stops once the share of text
among all positions has fallen below a threshold, about half a frame per byte of text. ``end =
"never"`` and ``"now"`` make it a constant. Each ``~`` in a text counts as ten bytes: a run of
them gives a run-away.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from duet_trio.lab.tiny_codec import write_codec
from duet_trio.lab.tiny_talker import End, Kind, write_talker


@dataclass(frozen=True)
class Pair:
    """The two files."""

    talker: Path
    codec: Path


def write_pair(folder: Path, *, seed: int = 1, end: End = "text", kind: Kind = "base") -> Pair:
    """Write ``talker.gguf`` (0.6 MB) and ``codec.gguf`` (13 MB) into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = Pair(folder / "talker.gguf", folder / "codec.gguf")
    write_talker(pair.talker, seed, end, kind)
    write_codec(pair.codec, seed)
    return pair
