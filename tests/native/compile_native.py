"""Compiles ``native/`` with every compiler there is, runs its C tests under sanitisers, fuzzes.

``python tests/native/compile_native.py [--seconds N] [--need gcc,clang,mingw]``. Warnings are
errors. gcc and clang also build and run ``interface_test.c`` with ASan and UBSan; the request
border is fuzzed with libFuzzer (clang), or with its own loop (gcc). mingw only compiles and
links: nothing here runs Windows programs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "native"
SOURCES = sorted(NATIVE.glob("*.c"))
COMPILERS = {"gcc": "gcc", "clang": "clang", "mingw": "x86_64-w64-mingw32-gcc"}
STRICT = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion"]
STRICT += ["-Wshadow", "-Wvla", "-Wundef", "-Wstrict-prototypes", "-Wmissing-prototypes"]
STRICT += ["-Wpointer-arith", "-Wcast-qual", "-Wformat=2"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
STANDINS = {
    "libqwen4": ["-DSTANDIN_LIBQWEN=4"],
    "libqwen5": ["-DSTANDIN_LIBQWEN=5"],
    "pointer": ["-DSTANDIN_POINTER"],
    "value_old": ["-DSTANDIN_VALUE=1"],
    "value_new": ["-DSTANDIN_VALUE=2"],
    "fork": ["-DSTANDIN_VALUE=2", "-DSTANDIN_FORK"],
    "lacking": ["-DSTANDIN_LIBQWEN=5", "-DSTANDIN_LACKS_SYNTHESIZE"],
}
FUZZ_RUNS_PER_S = 5000


class FailedError(Exception):
    """A compiler, a test or the fuzzer was not content; the text has its output."""


def run(command: Sequence[str | Path], *, limit_s: float = 300) -> str:
    """Run it and return its output; `FailedError` when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise FailedError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build_standin(name: str, folder: Path, compiler: str = "gcc") -> Path:
    """Compile one stand-in (see standin.c) into ``folder``."""
    target = folder / f"lib{name}{'.dll' if 'mingw' in compiler else '.so'}"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run([compiler, *flags, *STANDINS[name], HERE / "standin.c", "-o", target, "-lm"])
    return target


def compile_everything(compiler: str, folder: Path) -> None:
    """All sources with warnings as errors, linked into one shared library."""
    target = folder / "duet_voice.lib"
    loader = [] if "mingw" in compiler else ["-fPIC", "-ldl", "-lm"]
    run([compiler, *STRICT, "-shared", *SOURCES, "-o", target, *loader])
    for name in STANDINS:
        build_standin(name, folder, compiler)


def run_c_tests(compiler: str, folder: Path) -> str:
    """``interface_test.c`` against all stand-ins, under ASan and UBSan."""
    program = folder / f"interface_test-{compiler}"
    sources = [*SOURCES, HERE / "interface_test.c"]
    run([compiler, *STRICT, *SANITIZE, *sources, "-o", program, "-ldl", "-lm"])
    return run([program, *(build_standin(name, folder) for name in STANDINS)])


def fuzz(compiler: str, folder: Path, seconds: int) -> str:
    """Fuzz the request border for about ``seconds``."""
    program = folder / f"request_fuzzer-{compiler}"
    sources = [*SOURCES, HERE / "request_fuzzer.c"]
    base = [compiler, "-std=c11", "-O1", "-g", *SANITIZE]
    if compiler == "clang":
        run([*base, "-fsanitize=fuzzer", *sources, "-o", program, "-ldl", "-lm"])
        limits = ["-max_len=10000", "-rss_limit_mb=1024", "-print_final_stats=1", "-seed=1"]
        limits += [f"-artifact_prefix={folder}/"]
        output = run([program, f"-max_total_time={seconds}", *limits], limit_s=seconds + 60)
        return "\n".join(line for line in output.splitlines() if "executed_units" in line)
    run([*base, "-DOWN_LOOP", *sources, "-o", program, "-ldl", "-lm"])
    return run([program, str(seconds * FUZZ_RUNS_PER_S), "1"], limit_s=seconds * 10 + 60)


def main() -> int:
    """Do it all; 0 when every compiler there is was content."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="of fuzzing per compiler")
    parser.add_argument("--need", default="gcc", help="compilers that must be there")
    args = parser.parse_args()
    needed = args.need.split(",")
    with tempfile.TemporaryDirectory() as name:
        for kind, compiler in COMPILERS.items():
            if shutil.which(compiler) is None:
                print(f"{kind}: not installed")
                if kind in needed:
                    return 1
                continue
            folder = Path(name, kind)
            folder.mkdir()
            try:
                compile_everything(compiler, folder)
                print(f"{kind}: compiled, no warnings")
                if kind != "mingw":
                    print(f"{kind}: C tests: {run_c_tests(compiler, folder).strip()}")
                    print(f"{kind}: fuzz: {fuzz(compiler, folder, args.seconds).strip()}")
            except FailedError as error:
                print(f"{kind}: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
