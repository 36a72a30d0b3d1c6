"""`Faults`: one run's plan, what has occurred at each seam so far, and what is to happen now."""

from __future__ import annotations

import random
from dataclasses import replace

from duet_trio.engines.contracts import Inject
from duet_trio.events import Field, Recorder
from duet_trio.faults.engines import FaultyAsr, FaultyLlm, FaultyTts
from duet_trio.faults.plan import Fault, Plan
from duet_trio.faults.socket import FaultySocket
from duet_trio.session.peer import Transport
from duet_trio.session.services import Services


class Watch:
    """One fault of the plan and what has occurred at its seam."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.seen = 0
        self.done = 0

    def fits(self, seam: str, generation: int | None, board: str, text: str) -> bool:
        """Is this an occurrence of its seam, and is it not over yet?"""
        fault = self.fault
        return (
            fault.seam == seam
            and self.done < fault.times
            and (fault.generation is None or fault.generation == generation)
            and (not fault.board or fault.board == board)
            and fault.match in text
        )

    def commit(self) -> None:
        """It happens: the next occurrence is the next time, if there is one."""
        self.done += 1
        self.seen = self.fault.nth - 1


class Faults:
    """Decides. Synchronous throughout; every draw comes from one `random.Random`.

    It is a `Recorder` itself, in front of the real one: that is how it knows which answer a board
    is being given when only bytes pass by.
    """

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.random = random.Random(plan.seed)
        self.watches = [Watch(fault) for fault in plan.fault]
        self._recorder = recorder
        self._board_of: dict[int, str] = {}
        self._answer_of: dict[str, int] = {}

    def wrap(self, services: Services) -> Services:
        """The same services with the plan's faults in them (themselves, if it has none)."""
        if not self.watches:
            return services
        return replace(
            services,
            recorder=self,
            asr=FaultyAsr(services.asr, self),
            llm=FaultyLlm(services.llm, self),
            tts=FaultyTts(services.tts, self),
        )

    def transport(self, transport: Transport, board: str) -> Transport:
        """A board's transport with the plan's faults in it."""
        if not any(watch.fault.seam.startswith("socket.") for watch in self.watches):
            return transport
        return FaultySocket(transport, self, board)

    def disarm(self) -> None:
        """From now on nothing more happens (what has begun goes on)."""
        self.watches.clear()

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Note which answer belongs to whom, and pass the event on."""
        if event == "answer.start" and board is not None and generation is not None:
            self._board_of[generation] = board
            self._answer_of[board] = generation
        elif event == "answer.end" and generation is not None:
            self._board_of.pop(generation, None)
        self._recorder.emit(event, board=board, generation=generation, **fields)

    def generation_of(self, board: str) -> int | None:
        """The number of the board's latest answer."""
        return self._answer_of.get(board)

    def board_of(self, generation: int) -> str:
        """Whose answer that is; empty if it is over or no board's."""
        return self._board_of.get(generation, "")

    def occurred(self, seam: str, generation: int | None, board: str, text: str) -> Fault | None:
        """Count an occurrence of a seam; the fault that it is hit by, if any."""
        hit: Fault | None = None
        for watch in self.watches:
            if not watch.fits(seam, generation, board, text):
                continue
            watch.seen += 1
            if hit is None and watch.seen >= watch.fault.nth and self._strikes(watch.fault):
                watch.commit()
                hit = watch.fault
        return hit

    def armed(self, seam: str, generation: int, board: str, text: str) -> list[Watch]:
        """Faults that may follow an output of the request that is about to be made."""
        return [watch for watch in self.watches if watch.fits(seam, generation, board, text)]

    def injection(
        self,
        call_seam: str,
        output_watches: list[Watch],
        generation: int | None,
        board: str,
        text: str,
    ) -> Inject | None:
        """What a request carries with it: the fault before its output, or else one after."""
        fault = self.occurred(call_seam, generation, board, text)
        if fault is not None:
            return Inject(fault.effect, 0, fault.value)
        for watch in output_watches:
            if self._strikes(watch.fault):
                return Inject(watch.fault.effect, watch.fault.nth - watch.seen, watch.fault.value)
        return None

    def _strikes(self, fault: Fault) -> bool:
        return fault.chance >= 1 or self.random.random() < fault.chance
