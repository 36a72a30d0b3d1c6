"""What the TTS worker is told: the ``[tts]`` section, with the folder of voices filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from duet_trio.config import Config


def voices_folder(config: Config) -> Path:
    """Where cloned voices are kept: ``tts.voices``, else ``voices/`` in ``server.state_dir``."""
    chosen = config.tts.voices or str(Path(config.server.state_dir) / "voices")
    return Path(chosen).expanduser()


def tts_settings(config: Config) -> dict[str, Any]:
    """The section as builtins; a worker cannot ask for ``server.state_dir`` itself."""
    settings: dict[str, Any] = msgspec.to_builtins(config.tts)
    return {**settings, "voices": str(voices_folder(config))}
