"""Emoji and characters that have no sound."""

from __future__ import annotations

import regex

_JOINER = "\N{ZERO WIDTH JOINER}"
_EMOJI_STYLE = "\N{VARIATION SELECTOR-16}"
_SILENT = frozenset({_EMOJI_STYLE, "\N{VARIATION SELECTOR-15}", "\N{COMBINING ENCLOSING KEYCAP}"})
# Signs that Unicode calls pictographs and that are read out in texts stay: ©, ™, ℹ, arrows.
_EMOJI = regex.compile(
    r"\p{Emoji_Presentation}|\p{Regional_Indicator}|\p{Emoji_Modifier}"
    r"|(?![©®™‼⁉ℹ↔-↪〰〽㊗㊙#*0-9])\p{Extended_Pictographic}"
)
# Joiners stay: Persian and Indic spelling needs them.
_UNSPEAKABLE = regex.compile(r"(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\ufffd]")


def unspeakable(char: str) -> bool:
    """Control, format and private characters, lone surrogates, the replacement character."""
    return _UNSPEAKABLE.match(char) is not None


class EmojiCatcher:
    """Takes emoji out character by character and remembers the first one whole."""

    def __init__(self) -> None:
        self._first = ""
        self._growing = False  # the first one may still get a part
        self._before = ""

    @property
    def first(self) -> str | None:
        """The first emoji, with skin tone, joined parts and both letters of a flag.

        None until the character behind it, or `finish`, shows that it is whole.
        """
        return None if self._growing else self._first.rstrip(_JOINER) or None

    def finish(self) -> None:
        """No more text will come."""
        self._growing = False

    def takes(self, char: str) -> bool:
        """Whether ``char`` is (part of) an emoji."""
        before, self._before = self._before, char
        if char in _SILENT:
            if self._growing and char == _EMOJI_STYLE:
                self._first += char
            return True
        if char == _JOINER:
            taken = _EMOJI.match(before or " ") is not None or before == _EMOJI_STYLE
        else:
            taken = _EMOJI.match(char) is not None
        if taken and not self._first:
            self._first = char
            self._growing = True
        elif taken and self._growing and _belongs(before, char, self._first):
            self._first += char
        else:
            self._growing = False
        return taken


def _belongs(before: str, char: str, so_far: str) -> bool:
    if char == _JOINER or before == _JOINER:
        return True
    if _is_flag_letter(char):
        return len(so_far) == 1 and _is_flag_letter(before)
    return "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
