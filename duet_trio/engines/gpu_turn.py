"""The one gate to the GPU: LLM and TTS take turns.

A hold is one piece of work. It ends when its owner has left *and* no job is attached to it any
more, that is when the engine has said idle or its process has been reaped: an owner that was
cancelled may leave behind a job that still computes, and the next one must not start beside it.

Who goes next is asked anew at each hand-over: the answer that runs dry first; at equal urgency,
and always within one answer, the voice before the writer; answers without a clock (HTTP) last,
but none waits longer than `HTTP_WAIT_S` plus one hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Literal

import trio

from duet_trio.engines.contracts import Turn, TurnGate
from duet_trio.events import NullRecorder, Recorder

Who = Literal["llm", "tts", "asr"]
HTTP_WAIT_S = 5.0
_RANK: dict[Who, int] = {"tts": 0, "asr": 1, "llm": 2}


class Stay:
    """One stay on the GPU: at once the `Turn` that is waited for and the `Hold` that is kept.

    ``reevaluated_tokens`` goes into the ``turn`` event (an LLM's client adds to it).
    """

    def __init__(
        self,
        gate: GpuTurn | OpenGate,
        who: Who,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> None:
        self._gate = gate
        self.who: Who = who
        self.board = board
        self.generation = generation
        self.urgency = urgency
        self.reevaluated_tokens = 0
        self.asked_at = math.inf
        self.began_at = math.inf
        self.granted = trio.Event()
        self._inside = False
        self._attached = 0

    async def __aenter__(self) -> Stay:
        """Wait for the turn (a checkpoint). A cancel leaves nothing behind."""
        self.asked_at = trio.current_time()
        self._gate.ask(self)
        try:
            await self.granted.wait()
        except BaseException:
            self._gate.give_up(self)
            raise
        self._inside = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Leave. Never waits (no checkpoint)."""
        self._inside = False
        self._pass_on_if_over()

    def attach(self) -> None:
        """A job that uses the GPU under this hold has been sent."""
        self._attached += 1

    def detach(self) -> None:
        """That job is over."""
        self._attached -= 1
        self._pass_on_if_over()

    @property
    def attached(self) -> int:
        """Jobs that still run under this hold."""
        return self._attached

    def _pass_on_if_over(self) -> None:
        if not self._inside and self._attached == 0:
            self._gate.end(self)


class GpuTurn:
    """A `TurnGate` with one holder at a time."""

    def __init__(
        self, recorder: Recorder | None = None, *, http_wait_s: float = HTTP_WAIT_S
    ) -> None:
        self._recorder = recorder if recorder is not None else NullRecorder()
        self._http_wait_s = http_wait_s
        self._holder: Stay | None = None
        self._waiting: list[Stay] = []  # in order of asking; a handful, so it is just scanned
        self._turns = 0

    def turn(
        self,
        who: Who,
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Stay:
        """Ask for the turn, as ``async with gate.turn(…) as hold``."""
        return Stay(self, who, board, generation, urgency)

    def statistics(self) -> dict[str, object]:
        """``holder`` (who, or None), ``waiting`` (how many), ``turns`` (given so far)."""
        holder = self._holder.who if self._holder is not None else None
        return {"holder": holder, "waiting": len(self._waiting), "turns": self._turns}

    # --- for `Stay` (synchronous)

    def ask(self, stay: Stay) -> None:
        """Queue up; the turn comes at once if nobody has it."""
        self._waiting.append(stay)
        self._hand_over()

    def give_up(self, stay: Stay) -> None:
        """Its owner was cancelled, perhaps in the very tick in which the turn came."""
        if stay is self._holder:
            self.end(stay)
        else:
            self._waiting.remove(stay)

    def end(self, stay: Stay) -> None:
        """A hold is over: next one, please."""
        assert stay is self._holder
        self._holder = None
        record(self._recorder, stay)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._holder is None and self._waiting:
            stay = self._next(trio.current_time())
            self._waiting.remove(stay)
            self._holder = stay
            self._turns += 1
            stay.began_at = trio.current_time()
            stay.granted.set()

    def _next(self, now: float) -> Stay:
        speaking = {(s.board, s.generation) for s in self._waiting if s.who == "tts"}

        def key(stay: Stay) -> tuple[int, float, int]:
            behind_its_voice = stay.who != "tts" and (stay.board, stay.generation) in speaking
            urgency = stay.urgency()
            if behind_its_voice:
                return (2, urgency, _RANK[stay.who])
            if urgency == math.inf and now - stay.asked_at >= self._http_wait_s:
                return (0, stay.asked_at, _RANK[stay.who])
            return (1, urgency, _RANK[stay.who])

        return min(self._waiting, key=key)  # the first asked of equal ones


class OpenGate:
    """A `TurnGate` that is always open: for engines that need no turn, and for ``overlap``."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder = recorder if recorder is not None else NullRecorder()
        self._inside = 0
        self._turns = 0

    def turn(
        self,
        who: Who,
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Stay:
        """Nobody waits."""
        return Stay(self, who, board, generation, urgency)

    def statistics(self) -> dict[str, object]:
        """``inside`` (stays now), ``turns`` (given so far)."""
        return {"inside": self._inside, "turns": self._turns}

    def ask(self, stay: Stay) -> None:
        """Come in."""
        self._inside += 1
        self._turns += 1
        stay.began_at = trio.current_time()
        stay.granted.set()

    def give_up(self, stay: Stay) -> None:
        """Its owner was cancelled at the door."""
        self.end(stay)

    def end(self, stay: Stay) -> None:
        """A stay is over."""
        self._inside -= 1
        record(self._recorder, stay)


class SelectiveGate:
    """Those in ``needs`` take turns at ``gate``; all others find it open."""

    def __init__(self, gate: TurnGate, needs: Collection[Who], recorder: Recorder) -> None:
        self._gate = gate
        self._open = OpenGate(recorder)
        self._needs = frozenset(needs)

    def turn(
        self,
        who: Who,
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Turn:
        """A turn at the gate that ``who`` has to pass."""
        gate = self._gate if who in self._needs else self._open
        return gate.turn(who, board=board, generation=generation, urgency=urgency)


def record(recorder: Recorder, stay: Stay) -> None:
    """Emit the ``turn`` event of a hold that has just ended."""
    now = trio.current_time()
    waited_ms = round(1000 * (stay.began_at - stay.asked_at), 1)
    held_ms = round(1000 * (now - stay.began_at), 1)
    if stay.who == "llm":
        recorder.emit(
            "turn",
            board=stay.board,
            generation=stay.generation,
            who=stay.who,
            waited_ms=waited_ms,
            held_ms=held_ms,
            reevaluated_tokens=stay.reevaluated_tokens,
        )
    else:
        recorder.emit(
            "turn",
            board=stay.board,
            generation=stay.generation,
            who=stay.who,
            waited_ms=waited_ms,
            held_ms=held_ms,
        )
