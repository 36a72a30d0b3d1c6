"""What the client needs of a worker: two byte streams and a handle to end it by.

`process.ProcessCarrier` starts a real process; `in_process.InProcessCarrier` runs the scripted
engine in a task, on whatever clock trio has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import trio


class Handle(Protocol):
    """The process of a worker."""

    @property
    def pid(self) -> int | None:
        """Its process id, if it is a process."""

    def kill(self) -> None:
        """End it now (SIGKILL). Harmless when it has ended."""

    async def wait(self) -> str:
        """Wait until it has ended *and been reaped*; returns why, in words. A checkpoint.

        May be called several times; a cancel leaves nothing behind.
        """


@dataclass(frozen=True, slots=True)
class Connection:
    """A started worker."""

    send: trio.abc.SendStream
    receive: trio.abc.ReceiveStream
    handle: Handle


class Carrier(Protocol):
    """Starts workers of one kind."""

    async def start(self, nursery: trio.Nursery) -> Connection:
        """Start one; tasks that it needs run in ``nursery`` and end when it is cancelled.

        Raises `EngineCrashedError` when it cannot be started at all.
        """
