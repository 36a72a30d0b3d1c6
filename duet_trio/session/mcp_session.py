"""The board's tools over its channel: requests with answers or time-outs, driven by the session.

`McpClient` knows the protocol and no clock; here are its clock, its way out (the outbox) and
those who wait for an answer. Nothing of it stands in the way of a conversation: replies are
taken by the reader synchronously, and a board that never answers costs one deadline.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from duet_trio.wire.mcp import (
    Initialised,
    McpClient,
    McpEvent,
    McpIgnored,
    Send,
    ToolAnswered,
    ToolsListed,
)
from duet_trio.wire.messages import ServerMessage
from duet_trio.wire.tools import Tool

log = logging.getLogger(__name__)


class McpSession:
    """One board's tools. `start` once its hello says that it has some; ``run`` is its task."""

    def __init__(self, send: Callable[[ServerMessage], object], *, board: str) -> None:
        self._send = send
        self._board = board
        self._client = McpClient()
        self._waiting: dict[int, trio.Event] = {}
        self._answers: dict[int, ToolAnswered] = {}
        self._changed = trio.Event()
        self._started = False
        self.listed = trio.Event()
        self.introduced = Initialised()
        self.ignored = 0

    @property
    def tools(self) -> Sequence[Tool]:
        """What the board has listed so far; complete once ``listed`` is set."""
        return self._client.tools

    def start(self) -> None:
        """Introduce ourselves and ask for the list of tools. Synchronous, once."""
        if not self._started:
            self._started = True
            self._send(self._client.start(trio.current_time()))
            self._wake()

    def receive(self, payload: Mapping[str, Any]) -> None:
        """Take one payload from the board, whatever it is. Synchronous."""
        if self._started:
            self._take(self._client.receive(payload, trio.current_time()))
        else:
            self.ignored += 1

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, reply_s: float | None = None
    ) -> ToolAnswered:
        """Call a listed tool and wait for its answer or its time-out.

        Raises `ValueError`, in words for the model, for an unlisted tool or arguments that do
        not fit. A cancel forgets the call: a reply that comes later is ignored.
        """
        number, request = self._client.call(name, arguments, trio.current_time(), reply_s=reply_s)
        answered = self._waiting[number] = trio.Event()
        self._send(request)
        self._wake()
        try:
            await answered.wait()
            return self._answers[number]
        finally:
            del self._waiting[number]
            self._answers.pop(number, None)
            self._client.forget(number)

    async def run(self) -> None:
        """Give up what is overdue, until cancelled."""
        while True:
            self._changed = trio.Event()
            deadline = self._client.next_deadline
            with trio.move_on_at(math.inf if deadline is None else deadline):
                await self._changed.wait()
            self._take(self._client.expire(trio.current_time()))

    def _wake(self) -> None:
        self._changed.set()

    def _take(self, events: Sequence[McpEvent]) -> None:
        for event in events:
            match event:
                case Send():
                    self._send(event.request)
                case Initialised():
                    self.introduced = event
                case ToolsListed():
                    if not event.complete:
                        log.info("board %s: its list of tools is incomplete", self._board)
                    self.listed.set()
                case ToolAnswered():
                    if event.id in self._waiting:
                        self._answers[event.id] = event
                        self._waiting[event.id].set()
                case McpIgnored():
                    self.ignored += 1
        self._wake()
