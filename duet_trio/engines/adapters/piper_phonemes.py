"""English text → the phoneme numbers that a Piper voice was trained on.

Piper voices learn the phonemes of eSpeak NG (GPL). gruut (MIT) gives IPA from its own lexicon
in nearly the same convention: stress mark right before the vowel, American vowels. What
differs is translated here: eSpeak writes long vowels with a length mark, the stressed r-vowel
as ``ɜː``, taps between vowels, no tie bars, and no stress on small words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

PAD, START, END = "_", "^", "$"
_STRESS = "ˈˌ"
_VOWELS = frozenset("aeiouæɐɑɒɔəɚɛɜɪʊʌɨᵻ")
_LONG = {"i": "iː", "u": "uː", "ɑ": "ɑː", "ɔ": "ɔː"}
_PAUSES = frozenset(".,;:!?")
#: Words that eSpeak speaks without stress; gruut's lexicon stresses them as if they stood alone.
_SMALL_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "but",
        "by",
        "can",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "him",
        "his",
        "i",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "nor",
        "of",
        "on",
        "or",
        "our",
        "she",
        "so",
        "than",
        "that",
        "the",
        "their",
        "them",
        "they",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "will",
        "with",
        "you",
        "your",
        "been",
        "be",
        "do",
        "does",
        "if",
        "into",
        "am",
        "shall",
    ]
)
_WRITTEN_OUT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"°\s*C\b"), " degrees Celsius"),
    (re.compile(r"°\s*F\b"), " degrees Fahrenheit"),
    (re.compile(r"°"), " degrees"),
    (re.compile(r"(?<![\w-])[-\u2212](?=\d)"), "minus "),
    (re.compile(r"(?<=\d)/(?=\d)"), " over "),
    (re.compile(r"&"), " and "),
    (re.compile(r"@"), " at "),
    (re.compile(r"\+"), " plus "),
    (re.compile(r"="), " equals "),
    (re.compile(r"[\u2013\u2014]"), ", "),
    (re.compile(r"\.\.\.|\u2026"), ", "),
)


def plain_english(text: str) -> str:
    """Full-width and accented letters folded, signs that the lexicon drops written out."""
    folded = unicodedata.normalize("NFKD", text.replace("\u2026", "..."))
    folded = folded.replace("\u2019", "'").replace("\u2018", "'")
    folded = "".join(char for char in folded if not unicodedata.combining(char))
    for pattern, words in _WRITTEN_OUT:
        folded = pattern.sub(words, folded)
    return folded


def has_foreign_letters(text: str) -> bool:
    """Whether there are letters or digits that the English lexicon leaves out: other scripts'."""
    return any(
        char.isalnum() and not unicodedata.name(char, "").startswith(("LATIN", "DIGIT"))
        for char in plain_english(text)
    )


def espeak_word(text: str, phonemes: Sequence[str]) -> str:
    """One word's gruut phonemes as eSpeak would write them."""
    bare = [phoneme.lstrip(_STRESS).replace("\u0361", "") for phoneme in phonemes]
    stress = [phoneme[: len(phoneme) - len(phoneme.lstrip(_STRESS))] for phoneme in phonemes]
    small = text.lower() in _SMALL_WORDS
    out: list[str] = []
    for index, phoneme in enumerate(bare):
        following = bare[index + 1] if index + 1 < len(bare) else ""
        before_vowel = following[:1] in _VOWELS and following != ""
        sound = phoneme
        if phoneme == "i" and not stress[index] and not following:
            sound = "i"  # happY
        elif phoneme == "ɚ" and stress[index]:
            sound = "ɜːɹ" if before_vowel else "ɜː"
        elif phoneme == "ɚ" and before_vowel:
            sound = "əɹ"
        elif phoneme == "t" and before_vowel and not stress[index + 1] and _is_tapped(bare, index):
            sound = "ɾ"
        else:
            sound = _LONG.get(phoneme, phoneme)
        out.append(sound if small else stress[index] + sound)
    return "".join(out)


def phonemes_of(words: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Take gruut's ``(text, phonemes)`` pairs; give one eSpeak-like line with its punctuation.

    gruut marks breaks with ``|`` and ``‖`` and keeps the sign itself as the text. Empty when
    nothing can be spoken.
    """
    line = ""
    spoken = False
    for text, phonemes in words:
        if list(phonemes) in (["|"], ["‖"]):
            mark = text[:1] if text[:1] in _PAUSES else "." if phonemes[0] == "‖" else ","
            if spoken and line[-1] not in _PAUSES:
                line += mark
        elif phonemes:
            line += (" " if line else "") + espeak_word(text, phonemes)
            spoken = True
    return line if spoken else ""


def phoneme_ids(line: str, table: Mapping[str, Sequence[int]]) -> list[int]:
    """Numbers for the voice: start, each symbol with a pad behind, end; unknown ones left out."""
    ids = [*table[START], *table[PAD]]
    for symbol in line:
        if symbol in table:
            ids += [*table[symbol], *table[PAD]]
    return [*ids, *table[END]]


def _is_tapped(bare: Sequence[str], index: int) -> bool:
    if index == 0:
        return False
    before = bare[index - 1]
    return before[-1:] in _VOWELS or before == "ɹ"
