"""Where sentences and clauses end, in a stream.

Why not a library: ``sentence-stream`` 1.3.0 does serve streams, but strips white space and
asterisks from what it gives (pieces joined are no longer the text), knows no clause ends, takes
any capitalised word of up to three letters for an abbreviation ("Yes.", "Oh.") and cuts behind
longer ones ("Prof. Smith"). ``pysbd`` 0.3.4 segments whole texts: its answer for a prefix
changes with what follows, so a stream would have to run it again at every token and guess which
ends are final. Of the 30 texts in this module's tests they cut 22 and 25 as a voice needs it.

`scan` looks at one character and says what ends behind it. It answers "undecided" only when
the text stops before the characters that decide: one behind a Chinese or Japanese mark, and
the next visible one behind a Latin mark ("3." may become "3.14", "etc." may go on).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import regex

#: What ends at a place; "undecided" until more text is there.
Kind = Literal["sentence", "clause", "undecided", "none"]


class Found(NamedTuple):
    """``kind`` of end, and the place behind it (closing quotes and brackets included)."""

    kind: Kind
    stop: int


_LATIN = ".!?…؟।॥۔"
_WIDE = "。！？｡"
_WIDE_CLAUSE = "，、；：､"
_LATIN_CLAUSE = ",;:،؛"
_DASHES = "—–"
_CLOSERS = frozenset("'\")]}’”»›」』）》】〕〉")
_MARKS = frozenset(_LATIN + _WIDE)
_CANDIDATES = regex.compile(rf"[\n{_LATIN}{_WIDE}{_WIDE_CLAUSE}{_LATIN_CLAUSE}{_DASHES}]")
_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_WORD_BEFORE = regex.compile(r"[\p{L}\p{M}\p{N}.'’]+$")
_INNER_DOT = regex.compile(r"\p{L}\.\p{L}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Titles, months and the like, never the end of a sentence when something follows; not those
# that are words as well ("mar", "art").
_ABBREVIATIONS = _words(
    "mr mrs ms mx dr drs prof rev fr sr jr st mt hon pres gov sen rep gen col maj capt cmdr "
    "lt sgt messrs mme mlle vs etc approx dept est inc ltd co corp bros ca cf al eg ie jan "
    "feb apr jun jul aug sep sept oct nov dec hr fr nr bzw usw ggf evtl inkl str abs "
    "bspw tel ave blvd rd"
)
# Only before a number.
_BEFORE_NUMBER = _words("no nos nr vol p pp fig figs sec ch art par ed eq")
# Of the first list, those that often end a sentence: a capital letter behind them decides.
_MAY_END = _words("etc inc ltd co corp jr sr usw al bros rd ave blvd")


def candidates(text: str, start: int) -> int:
    """Index of the next character from ``start`` on that may end something; -1: none."""
    match = _CANDIDATES.search(text, start)
    return match.start() if match else -1


def scan(text: str, at: int, *, final: bool) -> Found:
    """What ends at the candidate ``text[at]``. ``final``: no more text will come.

    A line break ends a sentence *before* itself; every other end lies behind its marks.
    """
    char = text[at]
    if char == "\n":
        return Found("sentence", at)
    stop = at + 1
    while char in _MARKS and stop < len(text) and text[stop] in _MARKS:
        stop += 1
    marks = text[at:stop]
    while stop < len(text) and text[stop] in _CLOSERS:
        stop += 1
    if stop == len(text) and not final:
        return Found("undecided", stop)
    after = text[stop : stop + 1]
    if char in _MARKS:
        return Found(_sentence(text, at, marks, stop, after, final=final), stop)
    return Found(_clause(text, at, char, stop, after), stop)


def scan_stalled(text: str, at: int) -> Found:
    """What ends at the candidate ``text[at]`` as far as can be told, should no more text come soon.

    Taken as if a new sentence followed; only digits wait on, since "3." may become "3.14" and
    "1," may become "1,000". (A number that has its decimals, "3.14.", does not.) Abbreviations
    and initials end nothing: what they belong to is still to come.
    """
    found = _WORD_BEFORE.search(text, 0, at)
    word = found[0] if found else ""
    open_number = word[-1:].isdigit() and "." not in word
    if open_number and at + 1 == len(text) and text[at] in ".,:":
        return Found("none", at + 1)
    return scan(text + " A", at, final=False)


def _clause(text: str, at: int, char: str, stop: int, after: str) -> Kind:
    if char in _WIDE_CLAUSE:
        return "clause"
    if char in _DASHES:
        spaced = at > 0 and text[at - 1].isspace() and after.isspace()
        return "clause" if spaced or (char == "—" and stop == at + 1) else "none"
    return "clause" if after.isspace() or _CJK.match(after) else "none"


def _sentence(text: str, at: int, marks: str, stop: int, after: str, *, final: bool) -> Kind:
    if any(mark in _WIDE for mark in marks):
        return "sentence"
    if not after:
        return "sentence"  # the end of the text
    ellipsis = "…" in marks or marks.count(".") >= 2
    if not after.isspace():
        if _CJK.match(after):
            if ellipsis:
                return "clause"
            return "none" if marks == "." and text[at - 1 : at].isdigit() else "sentence"
        return "none"  # 15.7, 192.168.1.1, J.K., example.com
    follow = stop
    while follow < len(text) and text[follow].isspace():
        if text[follow] == "\n":
            return "sentence"
        follow += 1
    if follow == len(text) and not final:
        return "undecided"
    next_char = text[follow : follow + 1]
    if next_char.islower():
        return "clause" if ellipsis or marks != "." else "none"
    if marks == "." and _abbreviation(text[:at], next_char):
        return "none"
    return "sentence"


def _abbreviation(before: str, next_char: str) -> bool:
    """Whether the dot behind ``before`` belongs to its last word."""
    found = _WORD_BEFORE.search(before)
    if found is None:
        return False
    word = found[0].lstrip("'’")
    line = before[: found.start()].rstrip(" ")
    if word.isdigit():  # "1. Milk" at the start of a line or an answer
        return (not line or line[-1] == "\n") and len(word) <= 3
    lower = word.casefold()
    if _INNER_DOT.search(word):  # "J.K", "e.g", "U.S", "p.m"
        return True
    if len(word) == 1 and word.isupper() and word.isascii():
        return word != "I"  # an initial
    if lower in _BEFORE_NUMBER and next_char.isdigit():
        return True
    if lower in _MAY_END:
        return not next_char.isupper()
    return lower in _ABBREVIATIONS
