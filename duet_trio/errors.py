"""The one error tree of this package.

::

    DuetError
    ├─ UsageError            the person who starts us must mend it; exit code 2
    │  ├─ ConfigError            a key, a type or a value in the configuration
    │  ├─ MissingFileError       a model or another file that is not there or is damaged
    │  ├─ MissingLibraryError    a shared library or an optional package
    │  └─ PortTakenError         a socket that cannot be bound
    ├─ PeerError             a board or client sent something unusable; its session lives on
    ├─ ConnectionLostError   the other side is gone or no longer reads
    └─ EngineError           a speech recogniser, language model or voice failed
       ├─ EngineFailedError      it said so itself; its worker lives
       │  └─ UnreadableError         a voice that lacks a text's script: no second try will help
       ├─ EngineHungError        a deadline passed; its worker was killed
       ├─ EngineCrashedError     its process died or broke the pipe protocol
       └─ EngineUnavailableError it is not ready (loading for too long, failed for good)

The text of a ``UsageError`` is one line for a person: what, where, how to mend it.
"""

from __future__ import annotations

from typing import TypeVar

Leaf = TypeVar("Leaf", bound=BaseException)


class DuetError(Exception):
    """Root of everything that this package raises on purpose."""


class UsageError(DuetError):
    """Something only the user can mend. ``exit_code`` is what the command returns."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration is unusable: unknown key, wrong type, value out of range."""


class MissingFileError(UsageError):
    """A file that is needed is missing, empty, truncated or has a wrong hash."""


class MissingLibraryError(UsageError):
    """A shared library (libopus, a native engine) or an optional package is missing."""


class PortTakenError(UsageError):
    """A listening socket cannot be bound."""


class PeerError(DuetError):
    """A board or client sent something that cannot be used. Never ends its session."""


class ConnectionLostError(DuetError):
    """The peer is gone, or a send passed its deadline."""


class EngineError(DuetError):
    """An engine call ended without its result.

    ``reason`` is a short plain phrase for people ("the voice stopped responding"),
    the exception text is for the log.
    """

    def __init__(self, message: str, *, engine: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.engine = engine
        self.reason = reason or message


class EngineFailedError(EngineError):
    """The engine reported an error; its worker is alive and usable."""


#: The ``reason`` of an `UnreadableError`; by it the error is known again behind a worker's pipe.
UNREADABLE = "this voice cannot read the text"


class UnreadableError(EngineFailedError):
    """The voice can say nothing of this text (another script, signs alone)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, engine="tts", reason=UNREADABLE)


class EngineHungError(EngineError):
    """A deadline passed; the worker has been killed (or is being killed)."""


class EngineCrashedError(EngineError):
    """The worker process died, or wrote something that is not the pipe protocol."""


class EngineUnavailableError(EngineError):
    """The engine is not ready and will not be in time."""


def first_leaf(group: BaseExceptionGroup[Leaf]) -> Leaf:
    """The first error that is no group itself: as a rule the others follow from it."""
    first: BaseExceptionGroup[Leaf] | Leaf = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
