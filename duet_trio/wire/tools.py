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
        if isinstance(name, str) and name not in arguments:
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
        return _fit_whole(where, rules, value)
    if kind == "boolean":
        return _fit_boolean(where, value)
    if kind == "string" and not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where} must be text")
        return str(value)
    return value


def _fit_boolean(where: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"{where} must be true or false")  # noqa: TRY004 - one kind for callers
    return value


def _fit_whole(where: str, rules: dict[str, Any], value: Any) -> int:
    number = _whole(value)
    if number is None:
        raise ValueError(f"{where} must be a whole number")
    low, high = rules.get("minimum"), rules.get("maximum")
    if isinstance(low, int | float) and number < low:
        raise ValueError(f"{where} must be at least {low}")
    if isinstance(high, int | float) and number > high:
        raise ValueError(f"{where} must be at most {high}")
    return number


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None
