"""What differs between the firmware generations in how a board ends and interrupts speech."""

from __future__ import annotations

from dataclasses import dataclass

from duet_trio.errors import UsageError


@dataclass(frozen=True, slots=True)
class Firmware:
    """One generation; the fields are the rules in which they differ.

    ``drains``: after ``tts stop`` in auto mode the queued audio is played to its end before
    the board listens; without it the tail is thrown away.
    ``blocks``: the main loop stands still while it drains; messages and keys wait.
    ``silent_abort``: the toggle button and the wake word silence the board at once, and audio
    is dropped until the next ``tts start``; without it the board plays on.
    ``wake_word_listens``: a wake word while speaking makes the board listen by itself, without
    waiting for ``tts stop``.
    """

    name: str
    versions: str
    drains: bool
    blocks: bool
    silent_abort: bool
    wake_word_listens: bool


_GENERATIONS = (
    Firmware("1.7", "up to v1.7.x", False, False, True, False),
    Firmware("1.8", "v1.8.0 to v2.1.0", False, False, False, False),
    Firmware("2.2", "v2.2.3 to v2.3.0", True, True, False, True),
    Firmware("2.4", "v2.4.0 and later", True, False, False, True),
    Firmware("2.2.2", "v2.2.0 to v2.2.2", True, True, False, False),
)
#: Names that users may give; the four generations first, then the variant between two of them.
FIRMWARES = tuple(generation.name for generation in _GENERATIONS)


def firmware(name: str) -> Firmware:
    """Look a generation up by its name in `FIRMWARES`; raises `UsageError` for another."""
    for generation in _GENERATIONS:
        if generation.name == name:
            return generation
    raise UsageError(f"firmware '{name}' is unknown; give one of {', '.join(FIRMWARES)}")
