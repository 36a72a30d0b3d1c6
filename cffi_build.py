"""Builds ``duet_trio.engines.native._voice`` from ``native/`` (cffi, API mode, limited API).

Run by hatchling at ``pip install .`` and ``-e .``; ``python cffi_build.py`` does the same in
place. Only a C compiler is needed: engines are named by path and loaded at run time, so none
of their headers or libraries takes part. ``DUET_SKIP_NATIVE=1`` leaves the extension out (the
native voice is then reported as missing, everything else works).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from cffi import FFI, VerificationError
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "native"
PACKAGE = ROOT / "duet_trio" / "engines" / "native"
MODULE = "duet_trio.engines.native._voice"
SOURCES = (
    "audio.c",
    "duet_voice.c",
    "engine_libqwen.c",
    "engine_qwen3tts_pointer.c",
    "engine_qwen3tts_value.c",
    "engine_tone.c",
)
NEEDS = (
    "it needs a C11 compiler and Python's headers (Debian: gcc libc6-dev python3-dev);"
    " or set DUET_SKIP_NATIVE=1 to go without the native voice"
)


def declarations() -> str:
    """The part of the header that cffi reads, and the one callback into Python."""
    header = (NATIVE / "duet_voice.h").read_text(encoding="utf-8")
    marked = re.search(r"/\* cdef begin.*?\*/(.*)/\* cdef end \*/", header, re.DOTALL)
    if marked is None:
        raise ValueError("native/duet_voice.h has lost its cdef marks")
    callback = 'extern "Python" int32_t duet_on_block(const float *, int32_t, void *);'
    return f"{marked[1]}\n{callback}\n"


def compiler_flags() -> list[str]:
    """Strict C11 where the compiler speaks gcc's flags."""
    if sys.platform == "win32":
        return ["/std:c11", "/utf-8"]
    return ["-std=c11", "-O2", "-Wall", "-Wextra"]


def build() -> Path:
    """Compile, and put the extension into the package; returns its path.

    Compiles in a temporary folder with that as the current one: distutils puts objects beside
    relative sources, and a source tree may be read-only.
    """
    ffi = FFI()
    ffi.cdef(declarations())
    ffi.set_source(
        MODULE,
        '#include "duet_voice.h"',
        sources=[str(NATIVE / name) for name in SOURCES],
        depends=[str(NATIVE / name) for name in ("duet_voice.h", "engine.h", "port.h")],
        include_dirs=[str(NATIVE)],
        extra_compile_args=compiler_flags(),
        libraries=[] if sys.platform in ("win32", "darwin") else ["dl", "m"],
        py_limited_api=True,
    )
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            made = Path(ffi.compile(tmpdir=folder, verbose=False))
        except VerificationError as error:
            raise RuntimeError(f"native/ cannot be compiled ({error}); {NEEDS}") from None
        finally:
            os.chdir(before)
        target = PACKAGE / made.name
        # Moved into place in one step: a running process may have the old file mapped.
        fresh = target.with_suffix(target.suffix + ".new")
        shutil.copyfile(made, fresh)
        os.replace(fresh, target)
    return target


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling calls this before it puts a wheel together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the extension and make the wheel one of this platform."""
        if os.environ.get("DUET_SKIP_NATIVE") == "1":
            return
        made = build()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(f"/{made.relative_to(ROOT).as_posix()}")


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
