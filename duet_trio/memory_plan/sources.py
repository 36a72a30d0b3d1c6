"""Where the plan takes its figures: from the files, or from what is published of them."""

from __future__ import annotations

from pathlib import Path

from duet_trio.engines import gguf
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.published import published_head
from duet_trio.models.model_set import Kind
from duet_trio.models.paths import known_files, locate


class Sources:
    """Reads heads and sizes; ``published`` lists the files that were not there."""

    def __init__(self) -> None:
        self.published: list[str] = []

    def head(self, kind: Kind, configured: str, key: str) -> gguf.Gguf:
        """The head of the file that ``key`` names. Raises `MissingFileError`."""
        path = locate(kind, configured)
        known = None if path.exists() else published_head(path)
        if known is None:
            return gguf.read(path, key)
        self.published.append(f"{key} = {path}")
        return known

    def size(self, path: Path, key: str) -> int:
        """The size of a file in bytes. Raises `MissingFileError`."""
        try:
            return path.stat().st_size
        except OSError as error:
            known = known_files(path).get("")
            if known is None:
                raise MissingFileError(f"{key} = {path}: {error.strerror}") from None
            self.published.append(f"{key} = {path}")
            return known.size
