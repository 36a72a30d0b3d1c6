"""Reading loosely typed JSON objects: every accessor answers, with a default if need be.

Public clients leave fields out, send numbers as strings and put objects where text belongs.
What a message cannot do without is asked for with a ``need_…`` accessor, which raises
`PeerError`; everything else falls back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duet_trio.errors import PeerError

#: Longest text frame that is looked at, in characters. A stock board sends at most 65 535
#: bytes in a frame; desktop clients return pictures as tool results, hence the room.
MAX_TEXT_LENGTH = 262_144


def decode_object(text: str | bytes) -> dict[str, Any]:
    """Decode one JSON object; anything else, or too much of it, is a `PeerError`."""
    if len(text) > MAX_TEXT_LENGTH:
        raise PeerError(f"text of {len(text)} characters; the limit is {MAX_TEXT_LENGTH}")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        # RecursionError: a few thousand "[" are enough.
        raise PeerError(f"not JSON: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise PeerError(f"JSON {type(value).__name__} where an object belongs")
    return value


def encode_object(value: Mapping[str, Any]) -> str:
    """Encode compactly; text that cannot be UTF-8 (lone surrogates) is replaced, not refused."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value)).decode()


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


class Fields:
    """One JSON object, read leniently."""

    def __init__(self, values: Mapping[str, Any], owner: str = "message") -> None:
        self.values = values
        self.owner = owner

    def text(self, name: str, default: str = "") -> str:
        """A string; numbers become their text, everything else the default."""
        value = self.values.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        return str(value) if abs(value) < 2**63 else default

    def need_text(self, name: str) -> str:
        """A string that must be there, as a string: the firmware reads it unchecked."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise PeerError(f"{self.owner}: '{name}' is not a string")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, also written as a string or as 60.0."""
        value = self.values.get(name)
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        # The range first: it also keeps infinities and huge numbers away from int().
        if not low <= value <= high or value != int(value):
            return default
        return int(value)

    def object(self, name: str) -> Fields:
        """A nested object; an empty one if it is missing or something else."""
        value = self.values.get(name)
        return Fields(value if isinstance(value, dict) else {}, f"{self.owner}.{name}")

    def need_object(self, name: str) -> dict[str, Any]:
        """A nested object that must be there (some clients send it as a JSON string)."""
        value = self.values.get(name)
        if isinstance(value, str):
            value = decode_object(value)
        if not isinstance(value, dict):
            raise PeerError(f"{self.owner}: '{name}' is not an object")
        return value

    def flags(self, name: str) -> frozenset[str]:
        """The names of an object's true members (1 and "true" count)."""
        return frozenset(
            key
            for key, value in self.object(name).values.items()
            if value is True or value in (1, "1", "true")
        )
