"""Where models are looked for, what is said when they are not there, and the catalogue itself."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path, PurePosixPath

import pytest

from duet_trio.errors import MissingFileError, MissingLibraryError, UsageError
from duet_trio.models import hub, paths
from duet_trio.models.catalogue import CATALOGUE, DEMO, HubFile, ModelFile, WheelMember


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUET_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_the_catalogue_is_sound() -> None:
    for name, model_set in CATALOGUE.items():
        assert name == model_set.name
        places = [file.path for file in model_set.files]
        assert len(set(places)) == len(places)
        for file in model_set.files:
            place = PurePosixPath(file.path)
            assert not place.is_absolute()
            assert ".." not in place.parts
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.size > 0
            if isinstance(file.origin, WheelMember):
                wheel = file.origin.wheel
                assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)
                assert re.search(r"-py3-none-\w+\.whl$", wheel.filename)
                assert wheel.requirement.startswith(f"{wheel.project}=={wheel.version} --hash=")
            else:
                assert re.fullmatch(r"[0-9a-f]{40}", file.origin.revision)
        for default in model_set.defaults.values():
            assert any(place == default or place.startswith(default + "/") for place in places)
    assert set(DEMO.defaults) == {"asr", "llm", "tts"}


def test_an_empty_path_is_the_demo_model_and_others_are_expanded(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOICES", "/srv/voices")
    assert paths.locate("tts", "") == models / "demo/tts/en_US-joe-medium.onnx"
    assert paths.locate("llm", "{models}/mine/a.gguf") == models / "mine/a.gguf"
    assert paths.locate("tts", "$VOICES/b.onnx") == Path("/srv/voices/b.onnx")
    assert paths.locate("llm", "~/c.gguf") == Path.home() / "c.gguf"
    monkeypatch.delenv("DUET_MODELS")
    assert paths.model_folder() == Path.home() / ".cache/duet-trio/models"


def test_a_missing_demo_model_names_the_command_that_fetches_it(models: Path) -> None:
    for kind in ("asr", "llm", "tts"):
        path = paths.locate(kind, "")
        with pytest.raises(MissingFileError) as caught:
            paths.require(path, "the model")
        assert str(caught.value) == (
            f"the model: {path} is missing; fetch it with: duet models pull demo"
        )


def test_a_truncated_demo_file_and_a_folder_that_lacks_one_are_found(models: Path) -> None:
    gguf = paths.locate("llm", "")
    gguf.parent.mkdir(parents=True)
    gguf.write_bytes(b"GGUF" * 10)
    with pytest.raises(MissingFileError, match=r"damaged \(40 of 98362432 bytes\).*pull demo"):
        paths.require(gguf, "language model")
    whisper = paths.locate("asr", "")
    whisper.mkdir(parents=True)
    with pytest.raises(MissingFileError, match=r"whisper-tiny\.en/\S+ is missing.*pull demo"):
        paths.require(whisper, "speech recognition model")


def test_a_path_of_ones_own_must_exist_and_hold_something(tmp_path: Path, models: Path) -> None:
    path = tmp_path / "own.gguf"
    with pytest.raises(MissingFileError, match=r"own\.gguf is missing; correct the path"):
        paths.require(path, "language model")
    path.write_bytes(b"")
    with pytest.raises(MissingFileError, match=r"own\.gguf is empty"):
        paths.require(path, "language model")
    path.write_bytes(b"x")
    assert paths.require(path, "language model") == path


HUB_FILE = ModelFile(
    "llm/x.gguf",
    3,
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",  # of "abc"
    HubFile("somebody/model", "0" * 40, "x.gguf"),
)


def fake_hub(monkeypatch: pytest.MonkeyPatch, deliver: bytes | Exception) -> list[str]:
    """A ``huggingface_hub`` that delivers these bytes, or raises."""
    revisions: list[str] = []

    class HfHubHTTPError(OSError):
        pass

    class LocalEntryNotFoundError(OSError):
        pass

    def download(repository: str, name: str, *, revision: str, local_dir: Path) -> str:
        revisions.append(revision)
        if isinstance(deliver, Exception):
            raise deliver
        local_dir.mkdir(parents=True, exist_ok=True)
        (local_dir / name).write_bytes(deliver)
        return str(local_dir / name)

    module, errors = types.ModuleType("huggingface_hub"), types.ModuleType("errors")
    vars(module).update(hf_hub_download=download)
    vars(errors).update(
        HfHubHTTPError=HfHubHTTPError, LocalEntryNotFoundError=LocalEntryNotFoundError
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return revisions


def test_a_hub_file_is_fetched_at_its_revision_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "set/llm/x.gguf"
    revisions = fake_hub(monkeypatch, b"abc")
    hub.fetch_hub_file(HUB_FILE, tmp_path / "downloads", target)
    assert target.read_bytes() == b"abc"
    assert revisions == ["0" * 40]
    fake_hub(monkeypatch, b"abd")
    with pytest.raises(UsageError, match="not the file of the catalogue"):
        hub.fetch_hub_file(HUB_FILE, tmp_path / "downloads", target)
    assert target.read_bytes() == b"abc"
    fake_hub(monkeypatch, OSError("no route\nand more"))
    with pytest.raises(UsageError, match=r"somebody/model/x\.gguf cannot be fetched: no route$"):
        hub.fetch_hub_file(HUB_FILE, tmp_path / "downloads", target)


def test_without_the_hub_package_the_command_that_brings_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingLibraryError, match="pip install huggingface_hub"):
        hub.fetch_hub_file(HUB_FILE, tmp_path, tmp_path / "x")
