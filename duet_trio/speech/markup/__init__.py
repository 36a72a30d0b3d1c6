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
* ``[text](address)`` and ``![text](address)`` become ``text``; bare addresses vanish; so do
  the tags of common inline HTML.
* Emoji vanish and the first is remembered; control and format characters vanish.
"""

from __future__ import annotations

from duet_trio.speech.markup.addresses import Addresses
from duet_trio.speech.markup.emphasis import Emphasis
from duet_trio.speech.markup.head import AGAIN, MORE, NOT_MINE, Head, Rule
from duet_trio.speech.markup.lines import Lines

__all__ = ["HOLD_BACK", "MarkupFilter"]

#: Most characters that wait for a decision (a link's text, a table's separator row).
HOLD_BACK = 192


class MarkupFilter:
    """One answer's text, streaming; see the module for what happens to it."""

    def __init__(self) -> None:
        self._head = Head()
        self._groups = (Lines(self._head), Emphasis(self._head), Addresses(self._head))
        self._rules: dict[str, tuple[Rule, ...]] = {"\n": (self._line_break,)}
        for group in self._groups:
            for char, rules in group.rules.items():
                self._rules[char] = self._rules.get(char, ()) + rules

    @property
    def first_emoji(self) -> str | None:
        """The first emoji so far, whole."""
        return self._head.emoji.first

    @property
    def held(self) -> int:
        """Characters held back."""
        return self._head.held

    def feed(self, text: str, *, final: bool = False) -> str:
        """Take text, give text; ``final`` decides all that is held back."""
        head = self._head
        head.open(text, final=final)
        while head.left > 0:
            used = head.mode() if head.mode else self._text()
            if used == MORE:
                if not final:
                    break
                used = head.plain()
            if used != AGAIN:
                head.advance(used)
        if final:
            head.emoji.finish()
        return head.close()

    def _text(self) -> int:
        for rule in self._rules.get(self._head.char, ()):
            used = rule()
            if used != NOT_MINE:
                return used
        return self._head.plain()

    def _line_break(self) -> int:
        self._head.emit("\n")
        for group in self._groups:
            group.line_break()
        return 1
