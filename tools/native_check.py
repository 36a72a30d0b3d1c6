"""The native part, checked: every compiler, C tests under sanitisers, a short fuzz.

``python tools/native_check.py`` is what the gate runs. Warnings are errors. gcc and clang also
build and run ``interface_test.c`` with ASan and UBSan; the request border is fuzzed with libFuzzer
(clang) and with its own loop (gcc). mingw only compiles and links: nothing here runs Windows
programs. A compiler that is missing is a failure, unless ``--have`` names those there are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
TESTS = ROOT / "tests" / "native"
SOURCES = sorted(NATIVE.glob("*.c"))
COMPILERS = {"gcc": "gcc", "clang": "clang", "mingw": "x86_64-w64-mingw32-gcc"}
#: What brings them on Debian (clang's sanitisers and fuzzer are a package of their own).
PACKAGES = {
    "gcc": "gcc libc6-dev",
    "clang": "clang libclang-rt-dev",
    "mingw": "gcc-mingw-w64-x86-64",
}
STRICT = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion"]
STRICT += ["-Wshadow", "-Wvla", "-Wundef", "-Wstrict-prototypes", "-Wmissing-prototypes"]
STRICT += ["-Wpointer-arith", "-Wcast-qual", "-Wformat=2"]
SANITIZE = [
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
STANDINS = {
    "libqwen4": ["-DSTANDIN_LIBQWEN=4"],
    "libqwen5": ["-DSTANDIN_LIBQWEN=5"],
    "pointer": ["-DSTANDIN_POINTER"],
    "value_old": ["-DSTANDIN_VALUE=1"],
    "value_new": ["-DSTANDIN_VALUE=2"],
    "fork": ["-DSTANDIN_VALUE=2", "-DSTANDIN_FORK"],
    "lacking": ["-DSTANDIN_LIBQWEN=5", "-DSTANDIN_LACKS_SYNTHESIZE"],
    "pointer_plain": ["-DSTANDIN_POINTER", "-DSTANDIN_PLAIN"],
    "value_plain": ["-DSTANDIN_VALUE=2", "-DSTANDIN_PLAIN"],
}
FUZZED = {"fuzzed": ["-DSTANDIN_LIBQWEN=5", "-DSTANDIN_FUZZED"]}
FUZZ_RUNS_PER_S = 5000
FUZZ_S = 8  # per compiler
#: Fewer assertions or inputs than these: something has been skipped.
LEAST_C_TESTS, LEAST_INPUTS = 500, 10_000
BAD_PROGRAM = "int main(int n, char **v) { int a[2] = {0}; (void)v; return a[n + 1]; }"


class FailedError(Exception):
    """A compiler, a test or the fuzzer was not content; the text has its output."""


def run(
    command: Sequence[str | Path], *, limit_s: float = 300, more: Mapping[str, str] | None = None
) -> str:
    """Run it and return its output; `FailedError` when it fails. ``more``: of the environment."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        env={**os.environ, **(more or {})},
    )
    if done.returncode:
        raise FailedError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build_standin(name: str, folder: Path, compiler: str = "gcc") -> Path:
    """Compile one stand-in (see standin.c) into ``folder``."""
    target = folder / f"lib{name}{'.dll' if 'mingw' in compiler else '.so'}"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run([compiler, *flags, *(STANDINS | FUZZED)[name], TESTS / "standin.c", "-o", target, "-lm"])
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
    sources = [*SOURCES, TESTS / "interface_test.c"]
    run([compiler, *STRICT, *SANITIZE, *sources, "-o", program, "-ldl", "-lm"])
    return run([program, *(build_standin(name, folder) for name in STANDINS)])


def fuzz(compiler: str, folder: Path, seconds: int) -> str:
    """Fuzz the request border for about ``seconds``."""
    program = folder / f"request_fuzzer-{compiler}"
    sources = [*SOURCES, TESTS / "request_fuzzer.c"]
    base = [compiler, "-std=c11", "-O1", "-g", *SANITIZE]
    oracle = {"DUET_FUZZED": str(build_standin("fuzzed", folder))}
    if compiler == "clang":
        run([*base, "-fsanitize=fuzzer", *sources, "-o", program, "-ldl", "-lm"])
        limits = ["-max_len=10000", "-rss_limit_mb=1024", "-print_final_stats=1", "-seed=1"]
        limits += [f"-artifact_prefix={folder}/"]
        command = [str(program), f"-max_total_time={seconds}", *limits]
        output = run(command, limit_s=seconds + 60, more=oracle)
        return "\n".join(line for line in output.splitlines() if "executed_units" in line)
    run([*base, "-DOWN_LOOP", *sources, "-o", program, "-ldl", "-lm"])
    command = [str(program), str(seconds * FUZZ_RUNS_PER_S), "1"]
    return run(command, limit_s=seconds * 10 + 60, more=oracle)


def sanitisers_notice(compiler: str, folder: Path) -> None:
    """A program that reads past an array must be caught, or the runs above mean nothing."""
    source, program = folder / "bad.c", folder / f"bad-{compiler}"
    source.write_text(BAD_PROGRAM, encoding="utf-8")
    run([compiler, *SANITIZE, source, "-o", program])
    try:
        run([program])
    except FailedError as error:
        if re.search("runtime error|AddressSanitizer", str(error)):
            return
    raise FailedError(f"{compiler}: its sanitisers see nothing")


def check_compiler(kind: str, folder: Path, fuzz_s: int) -> Iterator[str]:
    """Do all that can be done with one compiler; a line for each thing that went well.

    Raises `FailedError`.
    """
    compiler = COMPILERS[kind]
    folder.mkdir()
    compile_everything(compiler, folder)
    yield "compiled, no warnings"
    if kind == "mingw":
        return
    sanitisers_notice(compiler, folder)
    tests = run_c_tests(compiler, folder).strip()
    count = re.fullmatch(r"(\d+) passed, 0 failed", tests)
    if count is None or int(count[1]) < LEAST_C_TESTS:
        raise FailedError(f"C tests: {tests}")
    yield f"C tests under ASan and UBSan: {tests}"
    fuzzed = fuzz(compiler, folder, fuzz_s).strip()
    inputs = max(map(int, re.findall(r"\d+", fuzzed)), default=0)
    if inputs < LEAST_INPUTS:
        raise FailedError(f"fuzz: only {inputs} inputs: {fuzzed}")
    yield f"fuzzed with {inputs} inputs"


def main() -> int:
    """Do it all; 0 when every compiler was content."""
    parser = argparse.ArgumentParser(description="Check the native part with all compilers.")
    parser.add_argument("--seconds", type=int, default=FUZZ_S, help="of fuzzing per compiler")
    parser.add_argument("--have", default=",".join(COMPILERS), help="compilers to check with")
    args = parser.parse_args()
    kinds = args.have.split(",")
    if unknown := set(kinds).difference(COMPILERS):
        parser.error(
            f"--have {args.have}: {', '.join(sorted(unknown))} is none of {list(COMPILERS)}"
        )
    failed = False
    with tempfile.TemporaryDirectory() as name:
        for kind in kinds:
            if shutil.which(COMPILERS[kind]) is None:
                print(f"{kind}: {COMPILERS[kind]} is missing; install: {PACKAGES[kind]}")
                failed = True
                continue
            try:
                for line in check_compiler(kind, Path(name, kind), args.seconds):
                    print(f"{kind}: {line}", flush=True)
            except FailedError as error:
                print(f"{kind}: FAILED\n{error}", flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
