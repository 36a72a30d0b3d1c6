"""C structs from Python values, and what they point at kept alive for as long as a call runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from duet_trio.engines.native.interface import ffi
from duet_trio.engines.native.types import RefusedError


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


def text(raw: Any) -> str:
    """A C string as Python text; a message cut inside a character loses only that one."""
    return str(ffi.string(raw).decode("utf-8", "replace"))
