"""C structs from Python values, and what they point at kept alive for as long as a call runs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from duet_trio.engines.native.interface import ffi
from duet_trio.engines.native.types import RefusedError, Status
from duet_trio.errors import (
    EngineFailedError,
    MissingFileError,
    MissingLibraryError,
    UsageError,
)


class Keeper:
    """Holds what a struct points at for as long as the call runs."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def text(self, text: str, *, empty_is_null: bool = True) -> Any:
        """A C string. A NUL inside would cut it short unseen: refused."""
        if not text and empty_is_null:
            return ffi.NULL
        if "\0" in text:
            raise RefusedError("a text has a NUL in it")
        self._kept.append(ffi.new("char[]", text.encode("utf-8", "surrogatepass")))
        return self._kept[-1]

    def path(self, path: str) -> Any:
        """A path as the system wants it: on POSIX the very bytes of the folder's entry."""
        if "\0" in path:
            raise RefusedError("a path has a NUL in it")
        if not path:
            return ffi.NULL
        self._kept.append(ffi.new("char[]", os.fsencode(path)))
        return self._kept[-1]

    def array(self, kind: str, values: npt.NDArray[Any]) -> Any:
        """A C array over the same memory."""
        self._kept.append(np.ascontiguousarray(values))
        self._kept.append(ffi.from_buffer(f"{kind}[]", self._kept[-1]))
        return self._kept[-1]


def struct(name: str) -> tuple[Any, Keeper]:
    """A zeroed struct that knows its size, and a keeper for what it will point at."""
    made = ffi.new(f"{name} *")
    made.size = ffi.sizeof(name)
    return made, Keeper()


def fill(given: Any, values: Any, *names: str) -> None:
    """Numbers of the same names from an object. Raises `RefusedError` for those that overflow."""
    for name in names:
        try:
            setattr(given, name, getattr(values, name))
        except OverflowError:
            raise RefusedError(f"{name} is out of range") from None


def text(raw: Any) -> str:
    """A C string as Python text; a message cut inside a character loses only that one."""
    return str(ffi.string(raw).decode("utf-8", "replace"))


def check(code: int, error: Any) -> Status:
    """What a call returned; raises the error that its number and its ``char[]`` stand for."""
    status = Status(code)
    if status >= 0:
        return status
    raise _error_for(status)(text(error) or status.name.lower())


def _error_for(status: Status) -> type[UsageError] | type[EngineFailedError]:
    if status is Status.MISSING:
        return MissingLibraryError
    if status is Status.MODEL:
        return MissingFileError
    return RefusedError if status is Status.REFUSED else EngineFailedError
