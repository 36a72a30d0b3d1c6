"""What the process of `engines.native.maker` is told, and what it answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """``make`` the voice ``voice`` for the configured model, or ``say`` ``text`` with it."""

    do: Literal["make", "say"]
    settings: dict[str, Any]  # the [tts] section, ``voices`` filled in
    voice: str = ""
    draft: str = ""  # make: the folder of a draft, instead of a voice
    text: str = ""
    out: str = ""  # say: the WAV file
    cap_s: float = 32.0
    seed: int = 1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. ``error`` not empty: it did not; ``usage``: the person can mend it."""

    error: str = ""
    usage: bool = False
    engine: str = ""
    identity: str = ""
    load_s: float = 0.0
    work_s: float = 0.0
    audio_s: float = 0.0
    reused: bool = False  # make: it had been made before
