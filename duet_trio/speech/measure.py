"""How long a text is for a voice, in *speech units*: one unit is one Latin character.

Writing systems differ by a factor of four in speech per character, so budgets, caps and
piece lengths count units instead of characters. The weights come from ordinary speaking
rates at 60 ms per Latin character: Mandarin 4-5 syllables a second, Korean 5-6 syllables,
Japanese 7-8 morae, and digits that are read out as words ("1984" is twenty letters long).
"""

from __future__ import annotations

import regex

#: Seconds of speech per unit (about 17 Latin characters a second).
SECONDS_PER_UNIT = 0.06

_WEIGHTS = (
    (regex.compile(r"\p{Han}"), 4.0),
    (regex.compile(r"\p{Hangul}"), 3.0),
    (regex.compile(r"[\p{Hiragana}\p{Katakana}]"), 2.0),
    (regex.compile(r"\p{Nd}"), 3.0),
)
#: The most units of one character.
MAX_WEIGHT = 4
_SPEAKABLE = regex.compile(r"[\p{L}\p{N}]")


def speech_units(text: str) -> float:
    """Length of ``text`` in units; spaces and punctuation count as one (they are pauses)."""
    units = float(len(text))
    for pattern, weight in _WEIGHTS:
        units += (weight - 1.0) * len(pattern.findall(text))
    return units


def first_speakable(text: str) -> int:
    """Index of the first letter or digit; -1: there is none."""
    match = _SPEAKABLE.search(text)
    return match.start() if match else -1


def speakable(text: str) -> bool:
    """Whether a voice would say anything: is there a letter or a digit?"""
    return first_speakable(text) >= 0
