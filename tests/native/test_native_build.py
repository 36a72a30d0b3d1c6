"""What becomes of native/: the interface that cffi reads, and libraries out of a wheel.

(Compilers, C tests under sanitisers and fuzzing are the gate's: ``tools/native_check.py``.)
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

import cffi_build
from duet_trio.engines.native.wheel import extract_libqwen
from duet_trio.errors import MissingFileError
from duet_trio.models.catalogue import LIBQWEN_CPU
from duet_trio.models.paths import file_state
from tests.native.support import libqwen


def test_what_cffi_reads_is_the_whole_interface() -> None:
    header = (cffi_build.NATIVE / "duet_voice.h").read_text()
    declarations = cffi_build.declarations()
    for name in ("dv_open", "dv_close", "dv_speak", "dv_cancel", "dv_make_voice", "DV_MODEL"):
        assert name in declarations
        assert name in header
    assert "#" not in declarations
    assert {*cffi_build.SOURCES} == {path.name for path in cffi_build.NATIVE.glob("*.c")}


def wheel_with(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def test_only_libraries_and_licences_leave_a_wheel(tmp_path: Path) -> None:
    names = ["q/__init__.py", "q/lib/", "q/lib/libqwen.so", "q/lib/libggml.so.0", "q/lib/run.py"]
    names += ["q/other/libevil.so", "q-1.dist-info/licenses/LICENSE", "q-1.dist-info/METADATA"]
    wheel = wheel_with(tmp_path / "q.whl", names)
    library = extract_libqwen(wheel, tmp_path / "out")
    assert library == tmp_path / "out" / "libqwen.so"
    files = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert sorted(files) == ["LICENSE", "libggml.so.0", "libqwen.so"]
    assert files["libggml.so.0"].read_text() == "q/lib/libggml.so.0"
    assert stat.S_IMODE(library.stat().st_mode) == 0o755
    assert extract_libqwen(wheel, tmp_path / "out") == library  # again: replaced in place


@pytest.mark.parametrize("names", [[], ["q/lib/other.so"], ["a/libqwen.so", "b/libqwen.so"]])
def test_a_wheel_without_the_one_library(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(MissingFileError, match="one is needed"):
        extract_libqwen(wheel_with(tmp_path / "q.whl", names), tmp_path / "out")


def test_what_is_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such file"):
        extract_libqwen(tmp_path / "none.whl", tmp_path / "out")
    (tmp_path / "bad.whl").write_bytes(b"not a zip")
    with pytest.raises(MissingFileError, match="not a wheel"):
        extract_libqwen(tmp_path / "bad.whl", tmp_path / "out")


def test_the_catalogue_takes_the_same_files_out_of_it() -> None:
    folder = libqwen().parent
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        file.path for file in LIBQWEN_CPU.files
    )
    assert all(file_state(folder / file.path, file) == "there" for file in LIBQWEN_CPU.files)


def test_the_published_wheel_has_its_licence() -> None:
    assert "MIT" in (libqwen().parent / "LICENSE").read_text()
