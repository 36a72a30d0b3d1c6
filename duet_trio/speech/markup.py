"""Markdown, addresses and emoji out of a stream of text. Second stage of `spoken_text`.

What happens to what:

* Emphasis (``*a*``, ``**a**``, ``_a_``, ``__a__``, ``~~a~~``) and inline code lose their
  marks and keep their text. Marks that cannot be markdown stay: ``a * b``, ``2**3``, ``a_b``.
* Stage directions are dropped whole: a span in *single* asterisks that begins with a verb
  from a short list (``*smiles*``, ``*clears throat*``), or that stands at the start of a
  sentence, begins in lower case and is followed by a new sentence or the end of the line
  (``*happily* Hello!``). All other spans are emphasis: ``*hello* world`` keeps its word.
* Headings, bullets and quotes lose the mark at the line's start; rules and the separator rows
  of tables vanish; cells are parted by commas. Numbers of numbered lists stay.
* A fenced code block is dropped, an unclosed one to the end of the text. Backticks in the
  middle of a line fence nothing: only they go, the text stays.
* ``[text](address)`` and ``![text](address)`` become ``text``; bare addresses vanish.
* Emoji vanish and the first is remembered; control and format characters vanish.

Each rule looks at the head of the buffer with partial matching and decides only when no
continuation could change the decision, so the result never depends on how the text was split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import regex

#: Most characters that wait for a decision.
HOLD_BACK = 192

_MORE: Final = 0  # the rule needs more text
_NOT_MINE: Final = -1

_SPAN = 120  # longest emphasis; a longer one is taken for loose marks

_RULE = regex.compile(r"(?:-{3,60}|\*{3,60}|_{3,60}|={3,60})[ \t]{0,20}(?=\n)")
_BULLET = regex.compile(r"[-*+•‣][ \t]")
_HEADING = regex.compile(r"#{1,6}[ \t]")
_FENCE = regex.compile(r"`{3,20}([^`\n]{0,60})\n")
_ROW_RULE = regex.compile(r"\|[ \t:|]{0,20}-[-| \t:]{0,120}(?=\n)")
_CELL_END = regex.compile(r"\|[ \t]{0,20}(?=([^ \t]))")
_STARS = regex.compile(r"\*{1,20}(?=([^*]))")
_STAR_SPAN = regex.compile(rf"\*(?=[^\s*])([^*\n]{{0,{_SPAN}}}[^\s*])\*(?=[ \t]{{0,20}}([^ \t]))")
_UNDERSCORES = regex.compile(r"_{1,20}(?=([^_]))")
_UNDERSCORE_SPAN = regex.compile(rf"(_{{1,2}})(?=[^\s_])[^_\n]{{0,{_SPAN}}}[^\s_]\1(?=\W)")
_LINK = regex.compile(r"!?\[(?=[^\[\]\n]{0,150}\]\()")
_LINK_END = regex.compile(r"\]\(")
_HTML = regex.compile(
    r"</?(?:b|i|u|s|em|strong|br|p|sub|sup|code|pre|ul|ol|li|div|span|hr|h[1-6])[ \t]{0,4}/?>",
    regex.IGNORECASE,
)
_HTML_BLOCK = regex.compile(r"</?(?:br|p|li|div|hr|h[1-6]|ul|ol)\b", regex.IGNORECASE)
_AUTOLINK = regex.compile(r"<(?=https?://)", regex.IGNORECASE)
_ADDRESS = regex.compile(r"(?:https?://|www\.)(?=[^\s])", regex.IGNORECASE)
_ADDRESS_STOP = regex.compile(r"""[.,;:!?)\]}'"*_~]{1,20}(?=([\s\S]))""")
_AFTER_ADDRESS = regex.compile(r"""[\s<>"“”（）「」『』《》【】，。、；：！？]""")

_EMOJI = regex.compile(
    r"\p{Emoji_Presentation}|\p{Regional_Indicator}|\p{Emoji_Modifier}"
    r"|(?![©®™‼⁉ℹ↔-↪〰〽㊗㊙#*0-9])\p{Extended_Pictographic}"
)
_JOINER = "\N{ZERO WIDTH JOINER}"
_VARIATION = regex.compile(r"[\N{VARIATION SELECTOR-15}\N{VARIATION SELECTOR-16}\u20e3]")
# Joiners stay: Persian and Indic spelling needs them. Tags (flags of regions) are Cf.
_UNSPEAKABLE = regex.compile(r"(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\ufffd]")

_DIRECTIONS = regex.compile(
    r"(?:smil|laugh|chuckl|giggl|grin|smirk|sigh|nod|wink|wav|shrug|paus|whisper|gasp|cough|"
    r"yawn|blush|beam|clap|bow|frown|sniff|hum|gulp|groan|snicker|snort|blink|pout|cr(?:y|i)|"
    r"think|ponder|clear|tilt|rais|roll|scratch|lean|stretch|gestur|mumbl|murmur)"
    r"(?:e?s|ing)\b[^.!?:;]{0,40}",
    regex.IGNORECASE,
)
_SENTENCE_END = frozenset('.!?…。！？:："”»)')


class MarkupFilter:
    """One answer's text; see the module for the rules."""

    def __init__(self) -> None:
        self._buffer = ""
        self._at = 0
        self._size = 0  # of the buffer without the line break that stands for the end
        self._final = False
        self._out: list[str] = []
        self._tail = "\n\n"  # last two characters given: drops leading white space
        self._last_visible = ""
        self._before = ""  # the input character before the buffer's head
        self._line_start = True
        self._table = False
        self._open: set[str] = set()  # emphasis marks that wait for their end
        self._link = False
        self._emoji: list[str] = []
        self._emoji_open = False
        self._mode: Callable[[], int] = self._text
        self._angle = False
        self._depth = 0
        self._rules: dict[str, tuple[Callable[[], int], ...]] = {
            "\n": (self._line_break,),
            "`": (self._backticks,),
            "*": (self._rule, self._bullet, self._stars),
            "_": (self._rule, self._underscores),
            "-": (self._rule, self._bullet),
            "=": (self._rule,),
            "+": (self._bullet,),
            "•": (self._bullet,),
            "‣": (self._bullet,),
            "#": (self._heading,),
            ">": (self._quote,),
            "~": (self._strike,),
            "|": (self._row_rule, self._cell),
            "[": (self._link_start,),
            "!": (self._link_start,),
            "]": (self._link_end,),
            "<": (self._html, self._autolink),
            **dict.fromkeys("hHwW", (self._address_start,)),
        }

    @property
    def first_emoji(self) -> str | None:
        """The first emoji so far, whole (with skin tone, joined parts, both flag letters)."""
        return "".join(self._emoji) or None

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._buffer)

    def feed(self, text: str, *, final: bool = False) -> str:
        """Take text, give text; ``final`` decides all that is held back."""
        self._buffer += text
        self._size = len(self._buffer)
        self._final = final
        if final:
            self._buffer += "\n"  # an end of text is the end of a line for every rule
        while self._at < self._size:
            used = self._mode()
            if used == _MORE:
                if not final:
                    break
                used = self._plain()
            self._advance(used)
        out = "".join(self._out)
        self._out.clear()
        self._buffer = self._buffer[self._at : self._size]
        self._at = 0
        return out

    def _advance(self, used: int) -> None:
        used = min(used, self._size - self._at)
        self._before = self._buffer[self._at + used - 1]
        self._at += used

    # What the head of the buffer is

    def _text(self) -> int:
        for rule in self._rules.get(self._buffer[self._at], ()):
            used = rule()
            if used != _NOT_MINE:
                return used
        return self._plain()

    def _plain(self) -> int:
        char = self._buffer[self._at]
        if self._is_emoji(char) or _UNSPEAKABLE.match(char):
            return 1
        if not char.isspace():
            self._line_start = False
        self._emit(char)
        return 1

    def _is_emoji(self, char: str) -> bool:
        if _VARIATION.match(char):
            if self._emoji_open and char == "\N{VARIATION SELECTOR-16}":
                self._emoji.append(char)
            return True
        joins = (
            self._before == _JOINER
            or _flag(self._before + char)
            or "\U0001f3fb" <= char <= "\U0001f3ff"
        )
        if char == _JOINER:
            part = self._emoji_open or _EMOJI.match(self._before or " ") is not None
        else:
            part = _EMOJI.match(char) is not None
        if part and (not self._emoji or (self._emoji_open and (joins or char == _JOINER))):
            self._emoji.append(char)
            self._emoji_open = True
        else:
            self._emoji_open = False
        return part

    def _emit(self, text: str) -> None:
        for char in text:
            if char == "\n":
                if self._tail == "\n\n":
                    continue
            elif char.isspace():
                if self._tail[-1].isspace():
                    continue
                char = " "  # noqa: PLW2901
            else:
                self._last_visible = char
            self._out.append(char)
            self._tail = self._tail[-1] + char

    def _look(self, pattern: Any) -> Any:
        """The match at the head; None: there is none; `_MORE`: the buffer ends before it."""
        match = pattern.match(self._buffer, self._at, partial=not self._final)
        return _MORE if match is not None and match.partial else match

    def _drop(self, pattern: Any) -> int:
        """Drop what matches."""
        match = self._look(pattern)
        if match is None:
            return _NOT_MINE
        return _MORE if match == _MORE else int(match.end()) - self._at

    # Lines

    def _line_break(self) -> int:
        self._emit("\n")
        self._line_start = True
        self._table = False
        self._link = False
        self._open.clear()
        return 1

    def _rule(self) -> int:
        return self._drop(_RULE) if self._line_start else _NOT_MINE

    def _bullet(self) -> int:
        return self._drop(_BULLET) if self._line_start else _NOT_MINE

    def _heading(self) -> int:
        return self._drop(_HEADING) if self._line_start else _NOT_MINE

    def _quote(self) -> int:
        return 1 if self._line_start else _NOT_MINE

    def _row_rule(self) -> int:
        return self._drop(_ROW_RULE) if self._line_start else _NOT_MINE

    def _cell(self) -> int:
        if self._line_start:
            self._table = True
            self._line_start = False
            return 1
        if not self._table:
            return _NOT_MINE
        match = self._look(_CELL_END)
        if match == _MORE:
            return _MORE
        if match is not None and match[1] != "\n":
            self._emit(",")
        return 1

    # Emphasis and code

    def _backticks(self) -> int:
        run = 0
        while self._at + run < len(self._buffer) and self._buffer[self._at + run] == "`":
            run += 1
        if self._line_start:
            match = self._look(_FENCE)
            if match == _MORE:
                return _MORE
            last_line = self._final and match is not None and match.end() > self._size
            if match is not None and not (last_line and " " in match[1].strip()):
                self._mode = self._code
                return int(match.end() - self._at)
        return run

    def _code(self) -> int:
        """In a fenced block: drop up to the fence's end."""
        end = self._buffer.find("```", self._at)
        if end >= 0:
            self._mode = self._text
            self._line_start = False  # what follows on the line is text
            return end + 3 - self._at
        ticks = self._size - len(self._buffer[: self._size].rstrip("`"))
        return self._size - self._at - (0 if self._final else ticks)

    def _stars(self) -> int:
        match = self._look(_STARS)
        if match is None or match == _MORE:
            return _NOT_MINE if match is None else _MORE
        run, after = int(match.end()) - self._at, match[1]
        if run > 1:
            return self._double("**", run, after)
        if "*" in self._open and not self._before.isspace():
            self._open.discard("*")
            return 1
        if after.isspace() or self._is_operator(after):
            return _NOT_MINE
        span = self._look(_STAR_SPAN)
        if span is None or span == _MORE:
            return _NOT_MINE if span is None else _MORE
        if self._is_direction(span[1], span[2]):
            return int(span.end() - self._at)
        self._open.add("*")
        return 1

    def _double(self, mark: str, run: int, after: str) -> int:
        before = self._before
        if mark in self._open:
            self._open.discard(mark)
            return run
        loose = (not before or before.isspace()) and after.isspace()
        if loose or self._is_operator(after):
            self._emit(mark[0] * run)
            self._line_start = False
            return run
        if not after.isspace():
            self._open.add(mark)
        return run

    def _is_operator(self, after: str) -> bool:
        """``2*3``, ``x**2``, ``(a)*4``: between ASCII operands, one of them a number."""
        before = self._before
        return (
            before.isascii()
            and (before.isalnum() or before == ")")
            and after.isascii()
            and (after.isalnum() or after == "(")
            and (before.isdigit() or after.isdigit() or before == ")" or after == "(")
        )

    def _is_direction(self, span: str, after: str) -> bool:
        if _DIRECTIONS.fullmatch(span):
            return True
        starts = not self._last_visible or self._line_start or self._last_visible in _SENTENCE_END
        return starts and span[0].islower() and span[-1].isalpha() and not _goes_on(after)

    def _underscores(self) -> int:
        match = self._look(_UNDERSCORES)
        if match is None or match == _MORE:
            return _NOT_MINE if match is None else _MORE
        run, after = int(match.end()) - self._at, match[1]
        mark = "_" * run
        if mark in self._open and not _word(after):
            self._open.discard(mark)
            return run
        if _word(self._before) or run > 2:
            self._emit(mark)
            self._line_start = False
            return run
        span = self._look(_UNDERSCORE_SPAN)
        if span == _MORE:
            return _MORE
        if span is None or len(span[1]) != run:
            self._emit(mark)
            self._line_start = False
            return run
        self._open.add(mark)
        return run

    def _strike(self) -> int:
        if self._buffer.startswith("~~", self._at):
            return 2
        whole = self._final or self._at + 1 < len(self._buffer)
        return _NOT_MINE if whole else _MORE

    # Links, addresses, HTML

    def _link_start(self) -> int:
        used = self._drop(_LINK)
        if used > 0:
            self._link = True
            self._line_start = False
        return used

    def _link_end(self) -> int:
        if not self._link:
            return _NOT_MINE
        used = self._drop(_LINK_END)
        if used > 0:
            self._link = False
            self._depth = 1
            self._mode = self._link_address
        return used

    def _link_address(self) -> int:
        """In the round brackets of a link. A space ends it, unless a title follows."""
        char = self._buffer[self._at]
        if char.isspace():
            if self._at + 1 >= len(self._buffer):
                return _MORE
            if char != "\n" and self._buffer[self._at + 1] in "\"'(":
                return 2
            self._mode = self._text
            return self._text()
        self._depth += {"(": 1, ")": -1}.get(char, 0)
        if self._depth == 0:
            self._mode = self._text
        return 1

    def _html(self) -> int:
        used = self._drop(_HTML)
        if used > 0 and _HTML_BLOCK.match(self._buffer, self._at):
            self._emit(" ")
        return used

    def _autolink(self) -> int:
        used = self._drop(_AUTOLINK)
        self._angle = used > 0
        return used

    def _address_start(self) -> int:
        if _word(self._before):
            return _NOT_MINE
        used = self._drop(_ADDRESS)
        if used > 0:
            self._mode = self._address
            self._line_start = False
        return used

    def _address(self) -> int:
        """In a bare address: to white space or a bracket; not its last punctuation."""
        char = self._buffer[self._at]
        if _AFTER_ADDRESS.match(char):
            self._mode = self._text
            closes = self._angle and char == ">"
            self._angle = False
            return 1 if closes else self._text()
        stop = self._look(_ADDRESS_STOP)
        if stop == _MORE:
            return _MORE
        if stop is not None and _AFTER_ADDRESS.match(stop[1]):
            self._mode = self._text
            return self._text()
        return 1


def _word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _goes_on(char: str) -> bool:
    """Whether the sentence goes on behind a span: a small letter or punctuation follows."""
    return char.islower() or char in ",.;:!?)"


def _flag(pair: str) -> bool:
    return len(pair) == 2 and all("\U0001f1e6" <= c <= "\U0001f1ff" for c in pair)
