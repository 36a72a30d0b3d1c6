"""Where the plan takes its figures: from the files, or from what is published of them."""

from __future__ import annotations

from pathlib import Path

from duet_trio.engines import gguf
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.published import published_head
from duet_trio.models.model_set import Kind
from duet_trio.models.paths import known_files, locate


class Sources:
    """Reads heads and sizes, each once: a vocabulary of 262,144 words takes most of a second.

    ``published`` lists the files that were not there.
    """

    def __init__(self) -> None:
        self.published: list[str] = []
        self._heads: dict[Path, gguf.Gguf] = {}

    def head(self, kind: Kind, configured: str, key: str) -> gguf.Gguf:
        """The head of the file that ``key`` names. Raises `MissingFileError`."""
        path = locate(kind, configured)
        if path not in self._heads:
            known = None if path.exists() else published_head(path)
            if known is not None:
                self._note(f"{key} = {path}")
            self._heads[path] = known or gguf.read(path, key)
        return self._heads[path]

    def size(self, path: Path, key: str) -> int:
        """The size of a file in bytes. Raises `MissingFileError`."""
        try:
            return path.stat().st_size
        except OSError as error:
            known = known_files(path).get("")
            if known is None:
                raise MissingFileError(f"{key} = {path}: {error.strerror}") from None
            self._note(f"{key} = {path}")
            return known.size

    def _note(self, file: str) -> None:
        if file not in self.published:
            self.published.append(file)
