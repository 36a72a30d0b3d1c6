"""A made-up set of two files, pulled from the stand-in for a hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from duet_trio.models import hub as hub_module
from duet_trio.models.lock import LOCK_FILE
from duet_trio.models.model_set import HubFile, ModelFile, ModelSet
from duet_trio.models.pull import Pulled, pull
from tests.models.hub_standin import COMMIT, Hub, etag_of, serving_hub

BIG = bytes(range(256)) * 20_000  # 5 MB
SMALL = b'{"rate": 24000}'


def ignore(label: str, done: int, total: int) -> None:
    """A report that nobody reads."""


def sha256(data: bytes) -> str:
    return etag_of(data, large=True)


class Shop:
    """The stand-in's two files, as a set: one pinned, one not."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.folder = hub, folder
        hub.files = {"some/one/big.gguf": BIG, "some/one/small.json": SMALL}
        hub.large = {"some/one/big.gguf"}
        self.set = ModelSet(
            "toy",
            "made up",
            ("none",),
            (
                ModelFile("llm/big.gguf", len(BIG), "", HubFile("some/one", "main", "big.gguf")),
                ModelFile(
                    "tts/small.json",
                    len(SMALL),
                    sha256(SMALL),
                    HubFile("some/one", COMMIT, "small.json"),
                ),
            ),
        )

    def pull(self) -> Pulled:
        return pull(self.set, self.folder, ignore)

    def files(self) -> list[str]:
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def lock(self) -> dict[str, dict[str, str]]:
        lock: dict[str, dict[str, str]] = json.loads((self.folder / LOCK_FILE).read_bytes())
        return lock


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub_module, "BETWEEN_TRIES_S", 0.0)
    with serving_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield Shop(hub, tmp_path / "models" / "toy")
