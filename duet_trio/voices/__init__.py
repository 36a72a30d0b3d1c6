"""Cloned voices: checking a reference, making a voice of it, keeping it (``duet voice``)."""

from __future__ import annotations

from pathlib import Path

from duet_trio.config import Config


def voices_folder(config: Config) -> Path:
    """Where cloned voices are kept: ``tts.voices``, else ``voices/`` in ``server.state_dir``.

    Whoever starts the TTS worker passes this on as ``settings["voices"]``.
    """
    chosen = config.tts.voices or str(Path(config.server.state_dir) / "voices")
    return Path(chosen).expanduser()
