"""Where models are looked for, what is said when they are not there, and the catalogue itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath

import pytest

from duet_trio.engines.native.loading import library_path
from duet_trio.errors import MissingFileError, MissingLibraryError
from duet_trio.models import hub, paths
from duet_trio.models.catalogue import CATALOGUE, DEMO
from duet_trio.models.model_set import HubFile, WheelMember


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
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256) or not file.pinned
            assert file.size > 0
            if isinstance(file.origin, WheelMember):
                assert file.pinned
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


def test_a_library_of_a_set_is_fetched_and_another_corrected(tmp_path: Path, models: Path) -> None:
    for library, cure in (
        ("{models}/laptop-8gb/libqwen/libqwen.so", "duet models pull laptop-8gb"),
        (str(tmp_path / "own.so"), "correct the path"),
    ):
        with pytest.raises(MissingLibraryError, match=f"no such file; .*{cure}"):
            library_path({"library": library})


def test_a_path_of_ones_own_must_exist_and_hold_something(tmp_path: Path, models: Path) -> None:
    path = tmp_path / "own.gguf"
    with pytest.raises(MissingFileError, match=r"own\.gguf is missing; correct the path"):
        paths.require(path, "language model")
    path.write_bytes(b"")
    with pytest.raises(MissingFileError, match=r"own\.gguf is empty"):
        paths.require(path, "language model")
    path.write_bytes(b"x")
    assert paths.require(path, "language model") == path


def test_without_the_hub_package_the_command_that_brings_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'duet-trio\[hub\]'"):
        hub.ask_hub(HubFile("somebody/model", "main", "x.gguf"))
