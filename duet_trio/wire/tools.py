"""The tools that a board offers, and their names for a language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_MAX_NAME_LENGTH = 64  # of an OpenAI-style function name


@dataclass(frozen=True, slots=True)
class Tool:
    """One listed tool. ``name`` is the board's (``self.audio_speaker.set_volume``),
    ``safe_name`` the model's (letters, digits, ``_`` and ``-``); ``schema`` its JSON Schema.
    """

    name: str
    safe_name: str
    description: str
    schema: dict[str, Any]

    def as_function(self) -> dict[str, Any]:
        """As an entry of ``tools`` in an OpenAI-style request."""
        return {
            "type": "function",
            "function": {
                "name": self.safe_name,
                "description": self.description,
                "parameters": self.schema,
            },
        }


def read_tool(entry: object, taken: Iterable[str]) -> Tool | None:
    """One entry of a ``tools/list`` reply; ``None`` if it is unusable.

    ``taken``: safe names already given away.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
        return None
    schema, description = entry.get("inputSchema"), entry.get("description")
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        schema = {"type": "object", "properties": {}}
    return Tool(
        name=entry["name"],
        safe_name=safe_name(entry["name"], taken),
        description=description if isinstance(description, str) else "",
        schema=schema,
    )


def safe_name(name: str, taken: Iterable[str] = ()) -> str:
    """A function name that models accept, different from all ``taken``."""
    base = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_MAX_NAME_LENGTH]
    used = frozenset(taken)
    candidate, number = base, 2
    while candidate in used:
        suffix = f"_{number}"
        candidate, number = base[: _MAX_NAME_LENGTH - len(suffix)] + suffix, number + 1
    return candidate


def fit_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the board wants them: whole numbers as numbers, undeclared ones left out.

    Models write ``"50"`` or ``50.0``. Raises `ValueError` for what the board would refuse,
    in words that can go back to the model.
    """
    properties: dict[str, Any] = tool.schema["properties"]
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in arguments:
            raise ValueError(f"{tool.safe_name}: argument '{name}' is missing")
    return {
        name: _fit(f"{tool.safe_name}: argument '{name}'", properties[name], value)
        for name, value in arguments.items()
        if name in properties
    }


def _fit(where: str, declared: object, value: Any) -> Any:
    rules = declared if isinstance(declared, dict) else {}
    kind = rules.get("type")
    if kind == "integer":
        number = _whole(where, value)
        low, high = rules.get("minimum"), rules.get("maximum")
        if (_is_number(low) and number < low) or (_is_number(high) and number > high):
            raise ValueError(f"{where} must be from {low} to {high}")
        return number
    if kind == "boolean":
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise ValueError(f"{where} must be true or false")
    if kind == "string" and not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where} must be text")
        return str(value)
    return value


def _whole(where: str, value: Any) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError
        number = float(value)
        if number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{where} must be a whole number") from None
    return int(number)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
