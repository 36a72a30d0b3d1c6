"""The head of a GGUF file: its metadata and its table of tensors. No weight is read.

Used to check model files before an engine sees them (a truncated or swapped one is told in one
line), to know what an engine does not say (length of a voice embedding, range of the codes), and
to plan memory. Format: versions 2 and 3, little-endian.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duet_trio.errors import MissingFileError

#: ggml type → (name, values per block, bytes per block).
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
            12: "d"}  # fmt: skip
_STRING, _ARRAY = 8, 9
#: Longer arrays (vocabularies) are stepped over; only their length is kept.
ARRAY_KEPT = 4096
_SAMPLE_BYTES = 65_536
#: Longer than any chat template: a damaged length must not read gigabytes of weights as a text.
_TEXT_BYTES_MAX = 1 << 24
#: Of a name, in characters: the longest in use have about sixty.
_NAME_MOST = 256


@dataclass(frozen=True, slots=True)
class Tensor:
    """One line of the tensor table. ``shape`` in ggml's order, the fastest dimension first."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int  # from the beginning of the data
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SkippedArray:
    """Stands for an array longer than `ARRAY_KEPT`."""

    length: int


@dataclass(frozen=True, slots=True)
class Gguf:
    """What a GGUF file says about itself."""

    path: Path
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    size_bytes: int  # of the file
    identity: str  # 16 hex digits of head, size and samples of the weights

    @property
    def architecture(self) -> str:
        """``general.architecture``."""
        return str(self.metadata.get("general.architecture", ""))

    def number(self, key: str, default: float = 0) -> float:
        """A numeric metadata value under ``<architecture>.<key>``."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):  # per layer in newer files: the largest
            value = max((v for v in value if isinstance(v, int | float)), default=default)
        return value if isinstance(value, int | float) and math.isfinite(value) else default

    def whole(self, key: str, default: int = 0) -> int:
        """`number` as an int."""
        return int(self.number(key, default))

    def weight_bytes(self, wanted: Callable[[str], bool] = lambda _: True) -> int:
        """Bytes of the tensors whose name is ``wanted``."""
        return sum(tensor.size_bytes for tensor in self.tensors if wanted(tensor.name))


def read(path: Path, what: str = "model") -> Gguf:
    """Read the head of ``path``; ``what`` names it in messages (``tts.model``, say).

    Raises `MissingFileError` when it is missing, no GGUF, damaged, or shorter than its tensors.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size < 24:
                raise MissingFileError(f"{what} = {path}: not a GGUF file; download it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(path, what, data, size)
    except FileNotFoundError:
        raise MissingFileError(f"{what} = {path}: no such file; correct the path") from None
    except IsADirectoryError:
        raise MissingFileError(f"{what} = {path}: is a folder; name a file in it") from None
    except OSError as error:
        raise MissingFileError(f"{what} = {path}: cannot be read ({error.strerror})") from None


class _DamagedError(Exception):
    """Something in the head cannot be; the text says what."""


class _Cursor:
    def __init__(self, data: mmap.mmap, size: int) -> None:
        self.data = data
        self.size = size
        self.at = 0

    def take(self, code: str) -> Any:
        width = struct.calcsize(f"<{code}")
        if self.at + width > self.size:
            raise _DamagedError("it ends inside its head")
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += width
        return value

    def skip(self, count: int) -> None:
        if count < 0 or self.at + count > self.size:
            raise _DamagedError("it ends inside its head")
        self.at += count

    def text(self) -> str:
        length = self.take("Q")
        start = self.at
        self.skip(length)
        if length > _TEXT_BYTES_MAX:
            raise _DamagedError(f"it has a text of {length} bytes in its head")
        return bytes(self.data[start : self.at]).decode("utf-8", "replace")

    def name(self) -> str:
        """Of a key or a tensor, fit to be shown in one line.

        A wrong count would go on through gigabytes of zeros otherwise, too.
        """
        name = self.text()
        if not name or not _is_showable(name):
            raise _DamagedError("it has something without a name in its head")
        return name

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])
        if kind == _ARRAY and depth < 2:
            return self._array(depth)
        raise _DamagedError(f"it has a metadata value of unknown type {kind}")

    def _array(self, depth: int) -> Any:
        kind, length = self.take("I"), self.take("Q")
        if length > self.size:
            raise _DamagedError("it has an array longer than the file")
        if length <= ARRAY_KEPT:
            return [self.value(kind, depth + 1) for _ in range(length)]
        if kind in _SCALARS:
            self.skip(struct.calcsize(f"<{_SCALARS[kind]}") * length)
        elif kind == _STRING:
            for _ in range(length):
                self.skip(self.take("Q"))
        else:
            raise _DamagedError(f"it has a long array of unknown type {kind}")
        return SkippedArray(length)


def _parse(path: Path, what: str, data: mmap.mmap, size: int) -> Gguf:
    if data[:4] != b"GGUF":
        raise MissingFileError(f"{what} = {path}: not a GGUF file; download it again")
    cursor = _Cursor(data, size)
    try:
        tensor_count, pairs = _counts(cursor)
        metadata = _metadata(cursor, pairs)
        tensors = tuple(_tensor(cursor) for _ in range(tensor_count))
        start = _data_start(cursor.at, metadata)
    except _DamagedError as error:
        raise MissingFileError(f"{what} = {path}: damaged: {error}; download it again") from None
    needed = start + max((tensor.offset + tensor.size_bytes for tensor in tensors), default=0)
    if needed > size:
        raise MissingFileError(
            f"{what} = {path}: truncated: {size} of {needed} bytes; download it again"
        )
    return Gguf(path, metadata, tensors, size, _identity(data, cursor.at, size))


def _is_showable(name: str) -> bool:
    return len(name) <= _NAME_MOST and name.isprintable()


def _counts(cursor: _Cursor) -> tuple[int, int]:
    """Of tensors and of metadata pairs."""
    cursor.skip(4)
    version = cursor.take("I")
    if version not in (2, 3):
        raise _DamagedError(f"it is of version {version}; 2 and 3 are known")
    tensors, pairs = cursor.take("Q"), cursor.take("Q")
    if tensors > cursor.size or pairs > cursor.size:
        raise _DamagedError("its counts are absurd")
    return tensors, pairs


def _metadata(cursor: _Cursor, pairs: int) -> dict[str, Any]:
    metadata = {cursor.name(): cursor.value(cursor.take("I")) for _ in range(pairs)}
    if not _is_showable(str(metadata.get("general.architecture", ""))):
        raise _DamagedError("its architecture is no name")
    return metadata


def _tensor(cursor: _Cursor) -> Tensor:
    name, dimensions = cursor.name(), cursor.take("I")
    if dimensions > 4:
        raise _DamagedError(f"tensor {name} has {dimensions} dimensions")
    shape = tuple(cursor.take("Q") for _ in range(dimensions))
    kind, offset = cursor.take("I"), cursor.take("Q")
    if kind not in TYPES:
        raise _DamagedError(f"tensor {name} is of unknown type {kind}")
    type_name, values, block_bytes = TYPES[kind]
    return Tensor(name, shape, type_name, offset, math.prod(shape) // values * block_bytes)


def _data_start(end: int, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _DamagedError("its alignment is absurd")
    return -(-end // alignment) * alignment


def _identity(data: mmap.mmap, head: int, size: int) -> str:
    """Fine-tunes share head and size, so some weights from both ends count too."""
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    digest.update(data[:head])
    digest.update(data[head : head + _SAMPLE_BYTES])
    digest.update(data[max(head, size - _SAMPLE_BYTES) : size])
    return digest.hexdigest()[:16]
