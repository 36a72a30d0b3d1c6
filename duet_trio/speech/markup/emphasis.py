"""Rules about asterisks, underscores and tildes."""

from __future__ import annotations

import regex

from duet_trio.speech.markup.head import MORE, NOT_MINE, Head, Rule

_SPAN = 120  # characters of the longest emphasis; a longer one is taken for loose marks

_STARS = regex.compile(r"\*{1,20}(?=([^*]))")
_STAR_SPAN = regex.compile(rf"\*(?=[^\s*])([^*\n]{{0,{_SPAN}}}[^\s*])\*(?=[ \t]{{0,20}}([^ \t]))")
_UNDERSCORES = regex.compile(r"_{1,20}(?=([^_]))")
_UNDERSCORE_SPAN = regex.compile(rf"(_{{1,2}})(?=[^\s_])[^_\n]{{0,{_SPAN}}}[^\s_]\1(?=\W)")

_DIRECTIONS = regex.compile(
    r"(?:smil|laugh|chuckl|giggl|grin|smirk|sigh|nod|wink|wav|shrug|paus|whisper|gasp|cough|"
    r"yawn|blush|beam|clap|bow|frown|sniff|hum|gulp|groan|snicker|snort|blink|pout|cr(?:y|i)|"
    r"think|ponder|clear|tilt|rais|roll|scratch|lean|stretch|gestur|mumbl|murmur)"
    r"(?:e?s|ing)\b[^.!?:;]{0,40}",
    regex.IGNORECASE,
)
_SENTENCE_END = frozenset('.!?…。！？:："”»)')


class Emphasis:
    """The rules. Marks wait for their end within a line."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._open: set[str] = set()
        self.rules: dict[str, tuple[Rule, ...]] = {
            "*": (self._stars,),
            "_": (self._underscores,),
            "~": (self._strike,),
        }

    def line_break(self) -> None:
        """Nothing open goes over the end of a line."""
        self._open.clear()

    def _stars(self) -> int:
        head = self._head
        match = head.look(_STARS)
        if match is None or match == MORE:
            return NOT_MINE if match is None else MORE
        run, after = head.length(match), str(match[1])
        if run > 1:
            return self._double(run, after)
        if "*" in self._open and not head.before.isspace():
            self._open.discard("*")
            return 1
        if after.isspace() or _is_operator(head.before, after):
            return NOT_MINE
        span = head.look(_STAR_SPAN)
        if span is None or span == MORE:
            return NOT_MINE if span is None else MORE
        if self._is_direction(span[1], span[2]):
            return head.length(span)
        self._open.add("*")
        return 1

    def _double(self, run: int, after: str) -> int:
        head = self._head
        if "**" in self._open:
            self._open.discard("**")
            return run
        loose = (not head.before or head.before.isspace()) and after.isspace()
        if loose or _is_operator(head.before, after):
            return head.literal(run)
        if not after.isspace():
            self._open.add("**")
        return run

    def _is_direction(self, span: str, after: str) -> bool:
        if _DIRECTIONS.fullmatch(span):
            return True
        head = self._head
        starts = head.line_start or not head.last_visible or head.last_visible in _SENTENCE_END
        goes_on = after.islower() or after in ",.;:!?)"
        return starts and span[0].islower() and span[-1].isalpha() and not goes_on

    def _underscores(self) -> int:
        head = self._head
        match = head.look(_UNDERSCORES)
        if match is None or match == MORE:
            return NOT_MINE if match is None else MORE
        run, after = head.length(match), str(match[1])
        mark = "_" * run
        if mark in self._open and not is_word(after):
            self._open.discard(mark)
            return run
        if is_word(head.before) or run > 2:
            return head.literal(run)
        span = head.look(_UNDERSCORE_SPAN)
        if span == MORE:
            return MORE
        if span is None or len(span[1]) != run:
            return head.literal(run)
        self._open.add(mark)
        return run

    def _strike(self) -> int:
        following = self._head.peek(1)
        if not following:
            return MORE
        return 2 if following == "~" else NOT_MINE


def is_word(char: str) -> bool:
    """Whether ``char`` is of a word (an underscore is; nothing at all is not)."""
    return char.isalnum() or char == "_"


def _is_operator(before: str, after: str) -> bool:
    """``2*3``, ``x**2``, ``(a)*4``: between ASCII operands, one of them a number or bracket."""
    return (
        before.isascii()
        and (before.isalnum() or before == ")")
        and after.isascii()
        and (after.isalnum() or after == "(")
        and (before.isdigit() or after.isdigit() or before == ")" or after == "(")
    )
