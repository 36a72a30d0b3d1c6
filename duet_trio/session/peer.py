"""The board of a session: how it is reached, what is known of it, what is configured for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duet_trio.config import Config
from duet_trio.session.answer import BoardLimits


class Transport(Protocol):
    """Whole messages both ways. Both calls raise `ConnectionLostError` once the peer is gone."""

    async def send(self, data: str | bytes) -> None:
        """Send one message. For the writer alone; a cancel tears the stream."""

    async def receive(self) -> str | bytes:
        """The next message. For the reader alone; a cancel loses nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a board beside its hello. ``small``: takes the smaller lead."""

    small: bool = True
    voice: str = ""


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """What holds for one board: its own section of the configuration, else the common ones."""

    language: str
    endpoint_ms: int
    system_prompt: str
    limits: BoardLimits

    @classmethod
    def of(cls, config: Config, board: str, facts: Facts) -> BoardSettings:
        """The settings of the board with this Device-Id."""
        own = config.boards.get(board)
        pacer = config.pacer
        return cls(
            language=(own and own.language) or config.voice.language,
            endpoint_ms=(own and own.endpoint_ms) or config.vad.endpoint_ms,
            system_prompt=(own and own.system_prompt) or config.llm.system_prompt,
            limits=BoardLimits(
                lead=pacer.small_lead_frames if facts.small else pacer.lead_frames,
                voice=(own and own.voice) or facts.voice or config.voice.name,
            ),
        )
