"""A tiny Qwen3-TTS pair for ``duet bench turns``: ``python tests/bench/tiny_voice.py FOLDER``.

Writes the pair with random weights of the native voice's tests (noise, but every stage is the
engine's own) and prints the options that use it, with the published libqwen.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

HOME = Path(__file__).parents[2]


def main(folder: Path) -> None:
    """Write the pair into ``folder``."""
    # A dependency of the demo installs a package called ``tests``, which would be found first.
    package = ModuleType("tests")
    package.__path__ = [str(HOME / "tests")]
    sys.modules["tests"] = package
    from duet_trio.lab.tiny_gguf import write_pair
    from tests.native.support import libqwen

    folder.mkdir(parents=True, exist_ok=True)
    pair = write_pair(folder)
    settings = {
        "tts.engine": "qwen",
        "tts.library": libqwen(),
        "tts.model": pair.talker,
        "tts.codec": pair.codec,
    }
    print(" ".join(f"--set {key}={value}" for key, value in settings.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
