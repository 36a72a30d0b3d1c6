"""Something to be said on a board although nobody there has asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from duet_trio.session.answer import Outcome, Question


@dataclass(eq=False, slots=True)
class Announcement:
    """``over`` is set once it has been said, or once it is certain that it will not be.

    ``outcome``, ``cause`` and ``heard`` are valid from then on: those of an `AnswerState`.
    """

    question: Question
    outcome: Outcome = "aborted"
    cause: str = ""
    heard: str = ""
    over: trio.Event = field(default_factory=trio.Event)

    def settle(self, outcome: Outcome, cause: str, heard: str = "") -> None:
        """Say how it ended (once; synchronous)."""
        if not self.over.is_set():
            self.outcome, self.cause, self.heard = outcome, cause, heard
            self.over.set()
