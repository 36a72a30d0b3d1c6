"""What fake language models of tests have in common: each is its own one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import trio

from duet_trio.engines.contracts import Message
from duet_trio.session.services import Services


@dataclass
class FakeModel:
    """Give it ``begin`` (an answer starts) and ``write`` (see `LlmStream`)."""

    slots: int = field(default=1, kw_only=True)

    def wrap(self, services: Services) -> Services:
        """Those services with this model."""
        return replace(services, llm=self)  # type: ignore[arg-type]  # `write` is a subclass's

    def start(self, _messages: Sequence[Message], *, generation: int) -> Self:
        self.begin()
        return self

    def begin(self) -> None:
        raise NotImplementedError

    async def control_tokens(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ()

    def close(self) -> None:
        return
