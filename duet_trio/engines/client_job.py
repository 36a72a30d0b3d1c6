"""One call as the main process sees it: what to send, what came, who still cares.

A job goes through ``queued`` → ``running`` → ``over``. Its caller may leave at any time; a
running job is then *disowned*: it keeps its slot and its GPU hold until the worker says that it
is idle or has been reaped, and what it puts out is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

import trio

from duet_trio.engines.contracts import Hold, Inject, Spoken, Transcript, Written
from duet_trio.engines.deadline import Deadline
from duet_trio.engines.pipe import Job
from duet_trio.errors import EngineError

Result = Transcript | Written | Spoken
Item = str | bytes
#: What a message costs beside its payload when a job's output is counted against flooding.
MESSAGE_COST = 16


class ClientJob:
    """One call's state; owned by `EngineService`, awaited by one caller.

    ``build(number, life)`` makes the message when a slot is free: ``number`` is the job's id,
    ``life`` the worker's (a fresh worker knows no streams). ``expects`` is the class of its
    result, ``item`` of its outputs (None: it has none), ``budget`` what they may cost at most:
    more is a flood, a fault of the worker.
    """

    def __init__(
        self,
        build: Callable[[int, int], Job],
        *,
        expects: type[Result],
        item: type[Item] | None,
        deadline: Deadline,
        budget: int,
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
        self._budget = budget
        self._hold = hold
        self._items: deque[Item] = deque()
        self._outcome: Result | EngineError | None = None
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
        """The worker put something out."""
        self.deadline.progress(now)
        if not self.disowned:
            self._items.append(item)
            self._news.set()

    def spend(self, cost: int) -> bool:
        """Count output against the budget; False: that was too much."""
        self._budget -= cost + MESSAGE_COST
        return self._budget >= 0

    def settle(self, outcome: Result | EngineError) -> None:
        """Tell the caller how it ended; the first word counts. The hold stays (`release`)."""
        if self._outcome is None:
            self._outcome = outcome
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

    def items(self) -> Iterator[Item]:
        """Take what has come, one after another."""
        while self._items:
            yield self._items.popleft()

    @property
    def settled(self) -> bool:
        """Is there an outcome?"""
        return self._outcome is not None

    def result(self) -> Result:
        """The result, or raise the `EngineError` that ended it. Only once settled."""
        assert self._outcome is not None
        if isinstance(self._outcome, EngineError):
            raise self._outcome
        return self._outcome
