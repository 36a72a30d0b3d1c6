"""Bounds on the audio of one piece, from its text.

Speech models that write codec frames never end in about 0.34 % of requests; the cap cuts
such a run. It must never cut honest speech: at 60 ms per unit it leaves four times the
normal length, and still more than twice at the longest piece (250 units).
"""

from __future__ import annotations

from duet_trio.speech.measure import speech_units

_FRAME_S = 0.08  # one codec frame of Qwen3-TTS (12.5 Hz)
_TOKENS_PER_UNIT = 0.5  # text tokens; generous for Latin, and scaled by the script's weight
_LEAST_FRAMES = 40  # 3.2 s: short words come with long lead-ins
_MOST_FRAMES = 400  # 32 s

#: Five times faster than normal speech: nobody talks like that.
_SHORTEST_S_PER_UNIT = 0.012


def audio_cap_s(text: str) -> float:
    """Most seconds of audio that ``text`` may give: ``clamp(12 + 6 x tokens, 40, 400)`` frames."""
    frames = 12 + 6 * _TOKENS_PER_UNIT * speech_units(text)
    return min(max(frames, _LEAST_FRAMES), _MOST_FRAMES) * _FRAME_S


def is_absurdly_short(text: str, audio_s: float) -> bool:
    """Whether so little audio cannot be ``text`` spoken (a failed synthesis)."""
    units = speech_units("".join(c for c in text if c.isalnum()))
    return units > 0 and audio_s < max(0.02, _SHORTEST_S_PER_UNIT * units)
