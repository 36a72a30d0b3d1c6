"""Rules about links, bare addresses and HTML."""

from __future__ import annotations

import regex

from duet_trio.speech.markup.emphasis import is_word
from duet_trio.speech.markup.head import AGAIN, MORE, NOT_MINE, Head, Rule

_LINK = regex.compile(r"!?\[(?=[^\[\]\n]{0,150}\]\()")
_LINK_END = regex.compile(r"\]\(")
_HTML = regex.compile(
    r"</?(?:b|i|u|s|em|strong|br|p|sub|sup|code|pre|ul|ol|li|div|span|hr|h[1-6])[ \t]{0,4}/?>",
    regex.IGNORECASE,
)
_PARTING = regex.compile(r"</?(?:br|p|li|div|hr|h[1-6]|ul|ol)\b", regex.IGNORECASE)
_AUTOLINK = regex.compile(r"<(?=https?://)", regex.IGNORECASE)
_ADDRESS = regex.compile(r"(?:https?://|www\.)(?=[^\s])", regex.IGNORECASE)
_STOP = regex.compile(r"""[.,;:!?)\]}'"*_~]{1,20}+(?=([\s\S]))""")
_BEHIND = regex.compile(r"""[\s<>"“”（）「」『』《》【】，。、；：！？]""")


class Addresses:
    """The rules."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._link = False  # in the text of one
        self._depth = 0  # of brackets in its address
        self._angle = False
        self.rules: dict[str, tuple[Rule, ...]] = {
            "[": (self._link_start,),
            "!": (self._link_start,),
            "]": (self._link_end,),
            "<": (self._html, self._autolink),
            **dict.fromkeys("hHwW", (self._address_start,)),
        }

    def line_break(self) -> None:
        """No link's text goes over the end of a line."""
        self._link = False

    def _link_start(self) -> int:
        used = self._head.drop(_LINK)
        if used > 0:
            self._link = True
            self._head.line_start = False
        return used

    def _link_end(self) -> int:
        if not self._link:
            return NOT_MINE
        used = self._head.drop(_LINK_END)
        if used > 0:
            self._link = False
            self._depth = 1
            self._head.mode = self._link_address
        return used

    def _link_address(self) -> int:
        """In the round brackets of a link. White space ends it, unless a title follows."""
        head = self._head
        char = head.char
        if char.isspace():
            following = head.peek(1)
            if not following:
                return MORE
            if char != "\n" and following in "\"'(":
                return 2
            head.mode = None
            return AGAIN
        self._depth += {"(": 1, ")": -1}.get(char, 0)
        if self._depth == 0:
            head.mode = None
        return 1

    def _html(self) -> int:
        used = self._head.drop(_HTML)
        if used > 0 and self._head.look(_PARTING):
            self._head.emit(" ")
        return used

    def _autolink(self) -> int:
        used = self._head.drop(_AUTOLINK)
        self._angle = used > 0
        return used

    def _address_start(self) -> int:
        before = self._head.before
        if before.isascii() and is_word(before):  # Chinese has no space in front
            return NOT_MINE
        used = self._head.drop(_ADDRESS)
        if used > 0:
            self._head.mode = self._address
            self._head.line_start = False
        return used

    def _address(self) -> int:
        """In a bare address: to white space or a bracket, but for its last punctuation."""
        head = self._head
        if _BEHIND.match(head.char):
            head.mode = None
            closes = self._angle and head.char == ">"
            self._angle = False
            return 1 if closes else AGAIN
        stop = head.look(_STOP)
        if stop == MORE:
            return MORE
        if stop is not None and _BEHIND.match(stop[1]):
            head.mode = None
            return AGAIN
        return 1
