"""One call as the main process sees it: what to send, what came, who still cares.

A job goes through ``queued`` → ``running`` → ``over``. Its caller may leave at any time; a
running job is then *disowned*: it keeps its slot and its GPU hold until the worker says that it
is idle or has been reaped, and what it puts out is dropped.

Output goes to the caller's ``on_item`` in the task that read it, not in the caller's own: through
a queue it would wait for one more pass of the event loop, which takes 0.09 ms at rest and longer
the more boards there are. An exception of ``on_item`` is the caller's all the same: it is raised
from `result`, and the reader never sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import outcome
import trio

from duet_trio.engines.contracts import Hold, Inject, Spoken, Transcript, Written
from duet_trio.engines.deadline import Deadline
from duet_trio.engines.pipe import Job

Result = Transcript | Written | Spoken
Item = str | bytes
#: What a message costs beside its payload when a job's output is counted against flooding.
MESSAGE_COST = 16


class ClientJob:
    """One call's state; owned by `EngineService`, awaited by one caller.

    ``build(number, life)`` makes the message when a slot is free: ``number`` is the job's id,
    ``life`` the worker's (a fresh worker knows no streams). ``expects`` is the class of its
    result, ``item`` of its outputs (None: it has none), ``budget`` what they may cost at most:
    more is a flood, a fault of the worker. ``on_item`` gets the outputs; synchronous and quick.
    """

    def __init__(
        self,
        build: Callable[[int, int], Job],
        *,
        expects: type[Result],
        item: type[Item] | None,
        deadline: Deadline,
        budget: int,
        on_item: Callable[[Any], object] | None = None,
        hold: Hold | None = None,
        inject: Inject | None = None,
        board: str | None = None,
        generation: int | None = None,
        priority: int = 0,
    ) -> None:
        self.build = build
        self.expects = expects
        self.item = item
        self.deadline = deadline
        self.inject = inject
        self.board = board
        self.generation = generation
        self.priority = priority
        self.number = 0
        self.state: Literal["queued", "running", "over"] = "queued"
        self.disowned = False
        self.broken = False  # `on_item` has raised
        self._budget = budget
        self._hold = hold
        self._on_item = on_item
        self._outcome: Result | BaseException | None = None
        self._news = trio.Event()

    # --- the worker's side (all synchronous)

    def start(self, number: int, now: float) -> None:
        """It has been sent: it holds the GPU, its deadline runs."""
        self.state = "running"
        self.number = number
        self.deadline.start(now)
        if self._hold is not None:
            self._hold.attach()
        self._news.set()

    def put(self, item: Item, now: float) -> None:
        """The worker put something out: hand it over."""
        self.deadline.progress(now)
        if self._on_item is None or self.disowned or self.settled:
            return
        handed = outcome.capture(self._on_item, item)
        if isinstance(handed, outcome.Error):
            self.broken = True
            self.settle(handed.error)

    def spend(self, cost: int) -> bool:
        """Count output against the budget; False: that was too much."""
        self._budget -= cost + MESSAGE_COST
        return self._budget >= 0

    def settle(self, result: Result | BaseException) -> None:
        """Tell the caller how it ended; the first word counts. The hold stays (`release`)."""
        if self._outcome is None:
            self._outcome = result
            self._news.set()

    def release(self) -> None:
        """The engine is idle again for this job, or its process has been reaped."""
        if self.state == "running" and self._hold is not None:
            self._hold.detach()
        self.state = "over"

    # --- the caller's side

    async def news(self) -> None:
        """Wait until something has happened since the last call. Always a checkpoint."""
        await self._news.wait()
        self._news = trio.Event()

    @property
    def settled(self) -> bool:
        """Is there an outcome?"""
        return self._outcome is not None

    def result(self) -> Result:
        """The result, or raise what ended it: an `EngineError`, or what ``on_item`` raised.

        Only once settled.
        """
        assert self._outcome is not None
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
