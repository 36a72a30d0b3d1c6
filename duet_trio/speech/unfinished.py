"""Does a sentence want to go on? From its text alone; a hint, never more.

People pause where they look for a word: behind "and", "my", "the". A recogniser tells the same by
ending without a full stop, with a comma or with dots. Such a turn waits a little longer before it
is answered. Only what is plain is taken: to wait in vain costs every speaker time.
"""

from __future__ import annotations

import regex

_DOTS = regex.compile(r"(\.\.\.|…|,|、|，|:|;|-|–|—)\s*$")
_LAST_WORD = regex.compile(r"([\p{L}']+)\P{L}*$")
#: Words that end no sentence of theirs: articles, conjunctions, possessives. Not prepositions and
#: forms of "to be", which end many ("What is it about?", "Yes, it is.").
_OPEN = {
    "en": "a an the and or but because if when while than my your our their i'm it's um uh er",
    "de": "der die das ein eine einen einem und oder aber weil wenn dass als mein dein äh ähm",
}


def is_unfinished(text: str, language: str = "en") -> bool:
    """Whether a person who said ``text`` and paused probably goes on.

    ``language``: as in ``voice.language``; empty or unknown ones are judged by punctuation alone.
    A single word ("Is?") is never unfinished: it is an answer to something.
    """
    plain = text.strip()
    if not plain:
        return False
    if _DOTS.search(plain):
        return True
    code = language.lower().replace("_", "-").partition("-")[0]
    found = _LAST_WORD.search(plain)
    last = found[1].casefold() if found else ""
    return " " in plain and not plain.endswith("?") and last in _OPEN.get(code, "").split()
