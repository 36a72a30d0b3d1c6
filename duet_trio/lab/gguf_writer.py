"""A writer of small GGUF files (version 3), enough for tests and benches."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 32
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}


class GgufWriter:
    """Collects metadata and tensors; `write` makes the file."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self._pairs: list[bytes] = []
        self._tensors: list[tuple[str, npt.NDArray[Any]]] = []
        self._ghosts: list[tuple[str, tuple[int, ...], int, int]] = []
        self.text("general.architecture", architecture)

    def u32(self, key: str, value: int) -> None:
        """An unsigned 32-bit number."""
        self._pairs.append(_text(key) + struct.pack("<II", _U32, value))

    def f32(self, key: str, value: float) -> None:
        """A 32-bit float."""
        self._pairs.append(_text(key) + struct.pack("<If", _F32, value))

    def flag(self, key: str, value: bool) -> None:
        """True or false."""
        self._pairs.append(_text(key) + struct.pack("<I?", _BOOL, value))

    def text(self, key: str, value: str) -> None:
        """A text."""
        self._pairs.append(_text(key) + struct.pack("<I", _STRING) + _text(value))

    def texts(self, key: str, values: list[str]) -> None:
        """A list of texts."""
        head = struct.pack("<IIQ", _ARRAY, _STRING, len(values))
        self._pairs.append(_text(key) + head + b"".join(map(_text, values)))

    def numbers(self, key: str, values: list[int]) -> None:
        """A list of 32-bit numbers."""
        head = struct.pack("<IIQ", _ARRAY, _I32, len(values))
        self._pairs.append(_text(key) + head + struct.pack(f"<{len(values)}i", *values))

    def flags(self, key: str, values: list[bool]) -> None:
        """A list of true and false."""
        head = struct.pack("<IIQ", _ARRAY, _BOOL, len(values))
        self._pairs.append(_text(key) + head + bytes(values))

    def tensor(self, name: str, values: npt.NDArray[Any]) -> None:
        """A tensor, float32 or float16."""
        self._tensors.append((name, np.ascontiguousarray(values)))

    def ghost(self, name: str, shape: tuple[int, ...], kind: int, size_bytes: int) -> None:
        """A tensor in the table only (``shape`` fastest first); see `write_head`."""
        self._ghosts.append((name, shape, kind, size_bytes))

    def write_head(self, path: Path) -> None:
        """Head with the ghosts, and a hole of the right size behind it (a sparse file)."""
        table, offset = [], 0
        for name, shape, kind, size in self._ghosts:
            table.append(_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
            table.append(struct.pack("<IQ", kind, offset))
            offset += size + -size % ALIGNMENT
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(self._ghosts), len(self._pairs))
        head += b"".join(self._pairs) + b"".join(table)
        head += bytes(-len(head) % ALIGNMENT)
        path.write_bytes(head)
        os.truncate(path, len(head) + offset)

    def write(self, path: Path) -> None:
        """Write the file."""
        table, data, offset = [], [], 0
        for name, values in self._tensors:
            shape = values.shape[::-1]
            table.append(_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
            table.append(struct.pack("<IQ", _KINDS[values.dtype], offset))
            padded = values.tobytes()
            padded += bytes(-len(padded) % ALIGNMENT)
            data.append(padded)
            offset += len(padded)
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(self._tensors), len(self._pairs))
        head += b"".join(self._pairs) + b"".join(table)
        head += bytes(-len(head) % ALIGNMENT)
        path.write_bytes(head + b"".join(data))


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw
