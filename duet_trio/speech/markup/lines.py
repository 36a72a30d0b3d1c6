"""Rules about lines: headings, bullets, quotes, rules, tables, fenced code."""

from __future__ import annotations

import regex

from duet_trio.speech.markup.head import MORE, NOT_MINE, Head, Rule

_RULE = regex.compile(r"(?:-{3,60}|\*{3,60}|_{3,60}|={3,60})[ \t]{0,20}(?=\n)")
_BULLET = regex.compile(r"[-*+•‣][ \t]")
_HEADING = regex.compile(r"#{1,6}[ \t]")
_FENCE = regex.compile(r"`{3,20}([^`\n]{0,60})\n")
_ROW_RULE = regex.compile(r"\|[ \t:|]{0,20}-[-| \t:]{0,120}(?=\n)")
_CELL_END = regex.compile(r"\|[ \t]{0,20}(?=([^ \t]))")


class Lines:
    """The rules; ``table`` is true within a line that began with a bar."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._table = False
        self.rules: dict[str, tuple[Rule, ...]] = {
            "`": (self._backticks,),
            "*": (self._rule, self._bullet),
            "_": (self._rule,),
            "-": (self._rule, self._bullet),
            "=": (self._rule,),
            **dict.fromkeys("+•‣", (self._bullet,)),
            "#": (self._heading,),
            ">": (self._quote,),
            "|": (self._row_rule, self._cell),
        }

    def line_break(self) -> None:
        """A new line begins."""
        self._head.line_start = True
        self._table = False

    def _rule(self) -> int:
        return self._head.drop(_RULE) if self._head.line_start else NOT_MINE

    def _bullet(self) -> int:
        return self._head.drop(_BULLET) if self._head.line_start else NOT_MINE

    def _heading(self) -> int:
        return self._head.drop(_HEADING) if self._head.line_start else NOT_MINE

    def _quote(self) -> int:
        return 1 if self._head.line_start else NOT_MINE

    def _row_rule(self) -> int:
        return self._head.drop(_ROW_RULE) if self._head.line_start else NOT_MINE

    def _cell(self) -> int:
        if self._head.line_start:
            self._table = True
            self._head.line_start = False
            return 1
        if not self._table:
            return NOT_MINE
        match = self._head.look(_CELL_END)
        if match == MORE:
            return MORE
        if match is not None and match[1] != "\n":
            self._head.emit(",")
        return 1

    def _backticks(self) -> int:
        head = self._head
        if not head.line_start:
            return 1
        match = head.look(_FENCE)
        if match == MORE:
            return MORE
        if match is None:
            return head.run("`")
        # "``` some words" as the very last line opens nothing: the words are text.
        if head.length(match) > head.left and " " in match[1].strip():
            return head.run("`")
        head.mode = self._code
        return head.length(match)

    def _code(self) -> int:
        """In a fenced block: drop up to its end; what follows on that line is text."""
        head = self._head
        end = head.find("```")
        if end >= 0:
            head.mode = None
            head.line_start = False
            return end + 3
        used = head.left
        while used and not head.final and used > head.left - 2 and head.peek(used - 1) == "`":
            used -= 1
        return used or MORE
