"""Heads of GGUF files: read right, and one line for each way a file can be wrong."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.engines import gguf
from duet_trio.errors import MissingFileError
from duet_trio.lab.gguf_writer import GgufWriter


def small(path: Path) -> Path:
    file = GgufWriter("toy")
    file.u32("toy.block_count", 3)
    file.f32("toy.scale", 0.5)
    file.flag("toy.flag", True)
    file.text("toy.name", "ä name")
    file.texts("toy.words", ["one", "two"])
    file.numbers("toy.windows", [1, -2, 512])
    file.texts("toy.vocabulary", [f"token {n}" for n in range(gguf.ARRAY_KEPT + 1)])
    file.numbers("toy.long", list(range(gguf.ARRAY_KEPT + 1)))
    file.tensor("blk.0.weight", np.zeros((5, 7), np.float32))
    file.tensor("blk.1.weight", np.zeros((3, 2), np.float16))
    file.write(path)
    return path


def test_metadata_and_tensors(tmp_path: Path) -> None:
    head = gguf.read(small(tmp_path / "toy.gguf"))
    assert head.architecture == "toy"
    assert head.metadata["toy.name"] == "ä name"
    assert head.metadata["toy.flag"] is True
    assert head.metadata["toy.words"] == ["one", "two"]
    assert head.metadata["toy.vocabulary"] == gguf.SkippedArray(gguf.ARRAY_KEPT + 1)
    assert head.metadata["toy.long"] == gguf.SkippedArray(gguf.ARRAY_KEPT + 1)
    assert head.whole("block_count") == 3
    assert head.number("scale") == 0.5
    assert head.number("windows") == 512
    assert head.whole("nothing", 9) == 9
    assert [t.shape for t in head.tensors] == [(7, 5), (2, 3)]
    assert head.weight_bytes() == 5 * 7 * 4 + 3 * 2 * 2
    assert head.weight_bytes(lambda name: "1" in name) == 12


def test_identity_follows_the_weights_too(tmp_path: Path) -> None:
    first = gguf.read(small(tmp_path / "a.gguf"))
    again = gguf.read(small(tmp_path / "b.gguf"))
    data = bytearray(again.path.read_bytes())
    data[-40] ^= 1
    again.path.write_bytes(data)
    assert first.identity == gguf.read(small(tmp_path / "c.gguf")).identity
    assert first.identity != gguf.read(again.path).identity


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (bytes(range(256)) * 8, "not a GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 9, 0, 0) + bytes(64), "version 9"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0) + bytes(64), "absurd"),
        (struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 40) + bytes(64), "ends inside its head"),
    ],
)
def test_what_is_no_gguf(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(MissingFileError, match=message) as caught:
        gguf.read(path, "tts.model")
    assert str(caught.value).startswith(f"tts.model = {path}: ")
    assert "\n" not in str(caught.value)


def test_a_damaged_length_does_not_read_the_weights_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 33))
        file.truncate((1 << 33) + 1000)  # sparse: such a text would be there
    with pytest.raises(MissingFileError, match="a text of 8589934592 bytes in its head"):
        gguf.read(path)


@pytest.mark.parametrize(("tensors", "pairs"), [(1 << 28, 0), (0, 1 << 28)])
def test_a_wrong_count_does_not_go_on_through_zeros(
    tmp_path: Path, tensors: int, pairs: int
) -> None:
    path = tmp_path / "x.gguf"
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, tensors, pairs))
        file.truncate(1 << 33)
    with pytest.raises(MissingFileError, match="something without a name in its head"):
        gguf.read(path)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such file"):
        gguf.read(tmp_path / "none.gguf")
    with pytest.raises(MissingFileError, match="is a folder"):
        gguf.read(tmp_path)


def test_every_truncation_is_told(tmp_path: Path) -> None:
    whole = small(tmp_path / "toy.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [*range(0, 400, 7), len(whole) // 2, len(whole) - 64]:
        cut.write_bytes(whole[:length])
        with pytest.raises(MissingFileError, match="download it again"):
            gguf.read(cut)


@given(st.binary(max_size=200), st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_damage_never_gives_another_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damage"
    folder.mkdir(exist_ok=True)
    good = folder / "good.gguf"
    if not good.exists():
        small(good)
    data = bytearray(good.read_bytes())
    data[at : at + len(noise)] = noise
    path = folder / "bad.gguf"
    path.write_bytes(data)
    with contextlib.suppress(MissingFileError):  # any other error fails the test
        gguf.read(path)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b"blk.0.weight", b"blk\n0.weight"),
        (b"toy.scale", b"toy\nscale"),
        (b"\0\0\0toy", b"\0\0\0t\ny"),
    ],
)
def test_what_is_no_name_is_not_shown(tmp_path: Path, right: bytes, wrong: bytes) -> None:
    path = small(tmp_path / "toy.gguf")
    data = path.read_bytes()
    assert right in data
    path.write_bytes(data.replace(right, wrong, 1))
    with pytest.raises(MissingFileError, match=r"without a name|is no name") as caught:
        gguf.read(path)
    assert "\n" not in str(caught.value)


def test_a_name_of_megabytes_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    file = GgufWriter("x" * 5_000_000)
    file.write(path)
    with pytest.raises(MissingFileError) as caught:
        gguf.read(path)
    assert len(str(caught.value)) < 500
