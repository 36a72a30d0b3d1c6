"""What the search looks through: the writer's prompts, and who is at the GPU when a turn begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from duet_trio.engines.contracts import Hold, Llm, LlmStream, Message, Turn, TurnGate
from duet_trio.engines.gpu_turn import Who


class PromptSpy:
    """`contracts.Llm`; keeps every prompt by generation."""

    def __init__(self, llm: Llm) -> None:
        self.prompts: dict[int, tuple[Message, ...]] = {}
        self._llm = llm

    @property
    def slots(self) -> int:
        """As the engine's."""
        return self._llm.slots

    def start(self, messages: Sequence[Message], *, generation: int) -> LlmStream:
        """Note the prompt."""
        self.prompts[generation] = tuple(messages)
        return self._llm.start(messages, generation=generation)

    async def control_tokens(self) -> Sequence[str]:
        """As the engine's."""
        return await self._llm.control_tokens()


class GateSpy:
    """A `TurnGate`; complains when a turn begins while another job still computes on the GPU.

    ``running`` counts those jobs, disowned ones included.
    """

    def __init__(self, gate: TurnGate, running: Callable[[], int], complaints: list[str]) -> None:
        self._gate = gate
        self._running = running
        self._complaints = complaints

    def turn(
        self,
        who: Who,
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Turn:
        """The real turn, looked at."""
        turn = self._gate.turn(who, board=board, generation=generation, urgency=urgency)
        return TurnSpy(turn, who, generation, self._look)

    def _look(self, who: str, generation: int) -> None:
        running = self._running()
        if running:
            self._complaints.append(
                f"the turn went to {who} of answer {generation} while {running} other job(s) ran"
            )


class TurnSpy:
    """One turn; see `GateSpy`."""

    def __init__(
        self, turn: Turn, who: str, generation: int, look: Callable[[str, int], None]
    ) -> None:
        self._turn = turn
        self._who = who
        self._generation = generation
        self._look = look

    async def __aenter__(self) -> Hold:
        """Wait for the turn, then look around."""
        hold = await self._turn.__aenter__()
        self._look(self._who, self._generation)
        return hold

    def __aexit__(self, *exc: object) -> Coroutine[Any, Any, None]:
        """Leave."""
        return self._turn.__aexit__(*exc)
