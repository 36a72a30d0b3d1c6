"""The conversation of one board: at most one answer, and the only owner of ``tts start``/``stop``.

Guarantees:

* Exactly one start/stop pair per answer on every path; an abort that finds no answer gets a
  bare stop (boards up to v2.2.2 stay in *speaking* without it).
* `Conversation.abort` is one synchronous step: retire the generation, put the stop, cancel.
  Between these there is no checkpoint, so nothing of the old answer can follow its stop.
* A new answer begins when the old one's nursery has closed.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable

import trio

from duet_trio.engines.contracts import Message
from duet_trio.errors import EngineError, first_leaf
from duet_trio.session.announcement import Announcement
from duet_trio.session.answer import Answer, BoardLimits, Question
from duet_trio.session.outbox import Outbox
from duet_trio.session.services import Services
from duet_trio.speech.history import History
from duet_trio.wire.messages import Alert, Emotion, Stt, TtsStart, TtsStop

log = logging.getLogger(__name__)


class BusyError(EngineError):
    """The machine speaks as many answers as it can; this one waited for too long."""


class Conversation:
    """Decides what is answered, one question at a time; the newest question wins.

    ``on_quiet`` is called with the trio time at which the board will have played everything,
    whenever an answer is over: the microphone opens again after that. An announcement calls it
    with ``inf`` when it begins: nobody asked, so nobody has shut the microphone yet.
    """

    def __init__(
        self,
        services: Services,
        outbox: Outbox,
        history: History,
        *,
        board: str,
        limits: Callable[[], BoardLimits],
        on_quiet: Callable[[float], None],
    ) -> None:
        self._services = services
        self._outbox = outbox
        self._history = history
        self._board = board
        self._limits = limits
        self._on_quiet = on_quiet
        self._pending: Question | None = None
        self._asked = trio.Event()
        self._answer: Answer | None = None
        self._announcements: deque[Announcement] = deque()  # bounded by whoever announces
        self._announced: Announcement | None = None
        self._is_over = False
        self._said = ""

    @property
    def said(self) -> str:
        """What the answer that ended last has said, heard or not: an echo may come of it."""
        return self._said

    @property
    def is_answering(self) -> bool:
        """Is an answer on its way, or a question waiting for one? (Then the microphone is shut.)"""
        return self._pending is not None or (self._answer is not None and self._answer.is_live)

    @property
    def announcements(self) -> tuple[Announcement, ...]:
        """Those that wait."""
        return tuple(self._announcements)

    def ask(self, question: Question) -> None:
        """Answer this question as soon as the old answer is gone. Synchronous.

        A question that still waits is replaced: its asker has moved on.
        """
        self._end_answer("replaced")
        self._pending = question
        self._asked.set()

    def abort(self, cause: str) -> None:
        """Silence the board now (synchronous, see the module's text)."""
        self._pending = None
        if not self._end_answer(cause):
            self._services.recorder.emit("abort", board=self._board, cause=cause)
            self._outbox.control(TtsStop())

    def announce(self, announcement: Announcement, *, interrupt: bool = False) -> None:
        """Say it as soon as the board is quiet; ``interrupt``: end what it says now. Synchronous.

        A question goes before announcements, and a new one ends the one that is being said.
        """
        if self._is_over:
            announcement.settle("aborted", "disconnect")
            return
        if interrupt:
            self._announcements.appendleft(announcement)
            self._end_answer("announcement")
        else:
            self._announcements.append(announcement)
        self._asked.set()

    def withdraw(self, announcement: Announcement, cause: str) -> None:
        """It need not be said (on). Synchronous, harmless when it is over."""
        if announcement in self._announcements:
            self._announcements.remove(announcement)
            announcement.settle("aborted", cause)
        elif announcement is self._announced:
            self.abort(cause)

    def _end_answer(self, cause: str) -> bool:
        """Retire, stop, cancel: one step. False if no answer was live."""
        answer = self._answer
        if answer is None or not answer.is_live:
            return False
        self._services.recorder.emit(
            "abort", board=self._board, generation=answer.generation, cause=cause
        )
        self._outbox.retire(answer.generation)
        self._outbox.control(TtsStop(), answer.generation, lasting=True)
        self._said = _text_of(answer)
        answer.cancel(cause)
        self._on_quiet(answer.pacer.playback_end())
        return True

    async def run(self) -> None:
        """Answer questions until cancelled. Engine faults end an answer, never this task."""
        try:
            while True:
                await self._run_answer(await self._next())
        finally:
            self._is_over = True
            for announcement in (self._announced, *self._announcements):
                if announcement is not None:
                    announcement.settle("aborted", "disconnect")

    async def _next(self) -> Question:
        """Wait for the next thing to say."""
        while self._pending is None and not self._announcements:
            self._asked = trio.Event()
            await self._asked.wait()
        if self._pending is not None:
            question, self._pending = self._pending, None
            return question
        self._announced = self._announcements.popleft()
        self._on_quiet(math.inf)
        return self._announced.question

    async def _run_answer(self, question: Question) -> None:
        services, recorder = self._services, self._services.recorder
        generation = next(services.generations)
        answer = Answer(
            services,
            self._outbox,
            question,
            [Message(role, content) for role, content in self._history.messages(question.text)],
            board=self._board,
            generation=generation,
            limits=self._limits(),
        )
        self._answer = answer
        recorder.emit(
            "answer.start", board=self._board, generation=generation, question=question.text
        )
        # Before anybody asks the model: the board shuts its microphone, and its button now
        # means "abort" instead of "hang up".
        if question.origin != "announcement":
            self._outbox.control(Stt(question.text), generation)
        self._outbox.control(TtsStart(), generation, lasting=True)
        try:
            await self._speak(answer)
        except* EngineError as group:
            self._fail(answer, first_leaf(group))
        except* Exception as group:  # border: an answer's own fault ends only this answer
            log.exception("answer %d failed", generation, exc_info=group)
            self._fail(answer, EngineError("internal error", reason="something went wrong"))
        finally:
            # No checkpoint from here to the end of the block: an abort cannot come in between.
            self._close(answer)

    async def _speak(self, answer: Answer) -> None:
        limit_s = self._services.config.answer.admission_s
        with answer.scope, trio.move_on_after(limit_s) as waiting:
            others = self._services.admission.statistics()
            if (others["speaking"] or others["waiting"]) and answer.load():
                self._outbox.control(Emotion("thinking"), answer.generation)
            async with self._services.admission.admit(self._board, rtf=answer.load):
                waiting.deadline = math.inf
                await answer.run()
        if waiting.cancelled_caught:
            raise BusyError("not admitted in time", reason="too many boards are talking")

    def _fail(self, answer: Answer, error: EngineError) -> None:
        if not answer.is_live:
            return  # it was aborted first; what its engines said afterwards is nobody's concern
        answer.state.heard = answer.heard()
        answer.state.outcome = "failed"
        answer.state.cause = error.reason
        self._outbox.retire(answer.generation)
        self._outbox.control(Alert("error", error.reason, "sad"), answer.generation, lasting=True)
        self._outbox.control(TtsStop(), answer.generation, lasting=True)

    def _close(self, answer: Answer) -> None:
        state = answer.state
        if answer.is_live:
            state.heard = answer.heard()
            if not answer.pacer.is_done:
                state.outcome, state.cause = "aborted", "disconnect"
            self._outbox.retire(answer.generation)
            self._outbox.control(TtsStop(), answer.generation, lasting=True)
        state.over.set()
        self._answer = None
        if self._announced is not None:
            self._announced.settle(state.outcome, state.cause, state.heard)
            self._announced = None
        if answer.question.say is None:
            self._history.heard(
                answer.question.text, state.heard, interrupted=state.outcome != "done"
            )
        if state.outcome != "aborted":
            # After an abort this was said at once, and the person may be speaking by now.
            self._said = _text_of(answer)
            self._on_quiet(answer.pacer.playback_end())
        self._services.recorder.emit(
            "answer.end",
            board=self._board,
            generation=answer.generation,
            outcome=state.outcome,
            cause=state.cause,
            heard=state.heard,
        )


def _text_of(answer: Answer) -> str:
    return " ".join(piece.text.strip() for piece in answer.line.pieces)
