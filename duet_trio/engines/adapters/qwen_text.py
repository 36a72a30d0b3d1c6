"""What of a piece's text a Qwen3-TTS engine gets, and in which portions."""

from __future__ import annotations

import re

#: Long generations drift in timbre and end badly; engines are asked for this much at most.
MOST_CHARACTERS = 250

_CONTROL_TOKEN = re.compile(r"<\|[^|<>\s]*\|>|<tts_\w*>")
_TOKEN_RESTS = re.compile(r"<\||\|>|<tts_")
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")  # letters that show nothing
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s|[。！？]")
_CLAUSE_END = re.compile(r"[,;:–—]\s|[，、；：]")
_SPACE = re.compile(r"\s")


def clean(text: str) -> str:
    """Without control tokens, control characters and lone surrogates; "" if unspeakable.

    A text without a letter or digit gives room tone or a run without end.
    """
    # First what vanishes without a trace: its neighbours could make a token.
    text = text.encode("utf-8", "ignore").decode()
    text = _TOKEN_RESTS.sub(" ", _CONTROL_TOKEN.sub(" ", text))
    text = _FILLERS.sub(" ", text)
    text = "".join(c if c.isprintable() or c == " " else " " for c in text)
    text = " ".join(text.split())
    return text if any(c.isalnum() for c in text) else ""


def split(text: str, most: int = MOST_CHARACTERS) -> list[str]:
    """Portions of at most ``most`` characters: at sentence ends, else clauses, else spaces."""
    portions = []
    text = text.strip()
    while len(text) > most:
        cut = _cut(text, most)
        portions.append(text[:cut].strip())
        text = text[cut:].strip()
    portions.append(text)
    return [portion for portion in portions if any(c.isalnum() for c in portion)]


def _cut(text: str, most: int) -> int:
    window = text[:most]
    for pattern in (_SENTENCE_END, _CLAUSE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(window)]
        # A cut in the first quarter would leave a stub that is spoken like a whole sentence.
        if ends and ends[-1] >= most // 4:
            return ends[-1]
    return most
