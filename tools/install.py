"""Make ``.venv`` with everything in it: ``python3 tools/install.py``.

Standard library only: it runs before anything is installed. Four steps, each skipped when
nothing it depends on has changed, so that a second run takes milliseconds and needs no network:

1. ``.venv`` and a current pip in it;
2. llama-cpp-python as a wheel built with our flags, kept in a cache of our own;
3. the requirements of ``pyproject.toml``;
4. this checkout, editable, with its native part compiled (needs no network).

Why a cache of our own for one wheel: pip's does not know CMAKE_ARGS and would bring back a
wheel built with other flags, and the build takes minutes. ``DUET_CACHE`` moves the cache
(default ``~/.cache/duet-trio``), ``DUET_LLAMA_FLAGS`` replaces the flags (for a GPU:
``-DGGML_CUDA=ON -DLLAMA_OPENSSL=OFF``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from pathlib import Path

LLAMA = "llama-cpp-python"
#: GGML_NATIVE=OFF: the native build with gcc 12 crashes at the first prompt on CPUs with AMX.
#: LLAMA_OPENSSL=OFF: nothing is downloaded by llama.cpp, so no libssl is needed.
#: LLAVA_BUILD=OFF: no pictures here; a third of the compile time.
LLAMA_FLAGS = "-DGGML_NATIVE=OFF -DLLAMA_OPENSSL=OFF -DLLAVA_BUILD=OFF"
EXTRAS = ("whisper", "piper", "llama", "test")
#: What editable installs need inside the environment besides `build-system.requires`.
EDITABLE_NEEDS = ("editables",)
#: A resolution that wants this is wrong (it would bring gigabytes); fail instead.
FORBIDDEN = "torch<0\n"


class SetUpError(Exception):
    """One line for the person at the keyboard."""


def main() -> int:
    """Install what is missing; 0 on success, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(description="Make .venv with everything in it.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--extras", default=",".join(EXTRAS), help="default: %(default)s")
    parser.add_argument("--force", action="store_true", help="run every step again")
    args = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - this very check is for older ones
        print(
            f"set-up: Python {platform.python_version()} is too old; run this with 3.11 or newer"
            " (make install PYTHON=python3.12)",
            file=sys.stderr,
        )
        return 1
    try:
        Installer(args.root, [extra for extra in args.extras.split(",") if extra]).run(args.force)
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; run it again and it goes on from there", file=sys.stderr)
        return 130
    return 0


class Installer:
    """The four steps for one checkout."""

    def __init__(self, root: Path, extras: list[str]) -> None:
        import tomllib  # 3.11; the version check comes first

        self.root = root
        self.venv = root / ".venv"
        scripts = self.venv / ("Scripts" if os.name == "nt" else "bin")
        self.python = scripts / ("python.exe" if os.name == "nt" else "python")
        self.script = scripts / ("duet.exe" if os.name == "nt" else "duet")
        self.stamp_file = self.venv / "duet-install.json"
        self.flags = os.environ.get("DUET_LLAMA_FLAGS", LLAMA_FLAGS)
        pyproject = root / "pyproject.toml"
        try:
            tree = tomllib.loads(pyproject.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise SetUpError(f"{pyproject} cannot be read: {error}") from None
        optional = tree["project"].get("optional-dependencies", {})
        unknown = sorted(set(extras) - set(optional))
        if unknown:
            raise SetUpError(f"{pyproject}: no extra named {', '.join(unknown)}")
        wanted = [line for extra in extras for line in optional[extra]]
        self.llama = next((line for line in wanted if line.startswith(LLAMA + "==")), None)
        self.requirements = [
            *tree["project"]["dependencies"],
            *(line for line in wanted if line != self.llama),
            *tree["build-system"]["requires"],
            *EDITABLE_NEEDS,
        ]

    def run(self, force: bool) -> None:
        """Do what the stamp of the last run says is still to do."""
        done = {} if force else self._read_stamp()
        wanted = self._wanted()
        if done.get("venv") != wanted["venv"] or not self.python.exists():
            done = {}
            self._make_venv()
            wanted = self._wanted()
            self._save(done, "venv", wanted)
        if self.llama is not None and done.get("llama") != wanted["llama"]:
            self._install_llama(self.llama)
            self._save(done, "llama", wanted)
        if done.get("requirements") != wanted["requirements"]:
            self._install_requirements()
            self._save(done, "requirements", wanted)
        built = [self.root / name for name in json.loads(done.get("built", "[]"))]
        whole = self.script.exists() and all(path.exists() for path in built)
        if done.get("project") != wanted["project"] or not whole:
            self._install_project()
            wanted["built"] = json.dumps(self._native_parts())
            self._save(done, "built", wanted)
            self._save(done, "project", wanted)
        say(f"ready: {self.script}")

    # What each step depends on -------------------------------------------------------------

    def _wanted(self) -> dict[str, str]:
        # The environment's own Python counts, not the one that runs this: a later `make test`
        # with another python3 on the path must not throw away what stands.
        made_by = self.venv / "pyvenv.cfg"
        base = str(self.venv), made_by.read_text(encoding="utf-8") if made_by.exists() else ""
        llama = base, self.llama, self.flags
        # The hook of the build may read anything native: all of it counts.
        sources = [self.root / "pyproject.toml", self.root / "cffi_build.py"]
        sources += sorted((self.root / "native").rglob("*.[ch]*"))
        contents = [
            (path.relative_to(self.root).as_posix(), digest(path.read_bytes()))
            for path in sources
            if path.is_file()
        ]
        return {
            "venv": digest(base),
            "llama": digest(llama),
            "requirements": digest((base, self.requirements)),
            "project": digest((base, contents)),
        }

    def _read_stamp(self) -> dict[str, str]:
        try:
            stamp = json.loads(self.stamp_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _save(self, done: dict[str, str], step: str, wanted: dict[str, str]) -> None:
        done[step] = wanted[step]
        self.stamp_file.write_text(json.dumps(done, indent=1), encoding="utf-8")

    def _native_parts(self) -> list[str]:
        suffixes = {".so", ".pyd", ".dylib"}
        found = (p for p in (self.root / "duet_trio").rglob("*") if p.suffix in suffixes)
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    # The steps -------------------------------------------------------------------------------

    def _make_venv(self) -> None:
        say("1/4 Python environment in .venv")
        if self.venv.exists() and not self._usable():
            shutil.rmtree(self.venv)
        try:
            if not self.venv.exists():
                venv.create(self.venv, with_pip=True)
        except subprocess.CalledProcessError:
            raise SetUpError(
                "this Python cannot make environments; install its venv part"
                " (Debian: apt-get install python3-venv)"
            ) from None
        self._pip("install", "--upgrade", "pip")

    def _usable(self) -> bool:
        command = [str(self.python), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
        try:
            return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
        except OSError:
            return False

    def _install_llama(self, requirement: str) -> None:
        version = requirement.partition("==")[2]
        key = "-".join(
            (version, platform_name(), digest(self.flags)[:12])
        )  # the wheel is py3-none: one for every Python
        folder = cache_folder() / "wheels" / key
        wheel = find_wheel(folder)
        if wheel is None:
            say(f"2/4 {LLAMA} {version}: building it once, about 4 minutes on 2 cores")
            wheel = self._build_llama(requirement, folder)
        else:
            say(f"2/4 {LLAMA} {version} from {folder}")
        self._pip("install", "--force-reinstall", "--no-deps", str(wheel))
        self._pip("install", str(wheel))  # what it depends on

    def _build_llama(self, requirement: str, folder: Path) -> Path:
        need_compiler()
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CMAKE_ARGS": self.flags, "FORCE_CMAKE": "1"}
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            self._pip(
                "wheel", "--no-deps", "--no-cache-dir", "--no-binary", LLAMA, "--wheel-dir",
                scratch, requirement, environment=environment,
            )  # fmt: skip
            built = find_wheel(Path(scratch))
            if built is None:
                raise SetUpError(f"pip built no wheel of {requirement}; its output is above")
            # Whole or not at all: an interrupted build leaves nothing that looks finished.
            return built.replace(folder / built.name)

    def _install_requirements(self) -> None:
        say(f"3/4 {len(self.requirements)} requirements and what they need")
        with tempfile.TemporaryDirectory() as scratch:
            constraints = Path(scratch) / "constraints.txt"
            constraints.write_text(FORBIDDEN, encoding="utf-8")
            self._pip("install", "--constraint", str(constraints), *self.requirements)

    def _install_project(self) -> None:
        say("4/4 duet-trio itself, editable")
        need_compiler()
        # Everything it needs is there already: no isolation means no network, and 2 seconds.
        self._pip("install", "--no-build-isolation", "--no-deps", "--editable", str(self.root))

    def _pip(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments]
        start = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                command, env=environment, cwd=self.root, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                failed = self._outcome(process, arguments[0], start)
            except KeyboardInterrupt:
                end(process)
                raise
            if failed:
                output.seek(0)
                sys.stderr.write(output.read()[-8000:])
                shown = " ".join(arguments[:2])
                raise SetUpError(f"'pip {shown} …' failed; the reason is above (no network?)")
        say(f"    pip {arguments[0]}: {time.monotonic() - start:.0f} s")

    def _outcome(self, process: subprocess.Popen[bytes], step: str, start: float) -> int:
        """Wait for its exit code, with a sign of life every half minute."""
        while True:
            try:
                return process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                say(f"    pip {step}: at work for {time.monotonic() - start:.0f} s")


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for pip to tidy up after Ctrl-C, which a terminal sends it, too; else end it."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def say(line: str) -> None:
    """Progress for people; flushed, since the next step may take minutes."""
    print(line, flush=True)


def digest(value: object) -> str:
    """A short name for a value: equal values have equal names."""
    data = value if isinstance(value, bytes) else repr(value).encode()
    return hashlib.sha256(data).hexdigest()


def cache_folder() -> Path:
    """Where built wheels are kept; ``DUET_CACHE`` names another place."""
    return Path(os.environ.get("DUET_CACHE") or Path.home() / ".cache" / "duet-trio")


def platform_name() -> str:
    """System, processor and C library: a wheel built against a newer one does not load."""
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return "-".join(part for part in (system, "".join(platform.libc_ver())) if part)


def find_wheel(folder: Path) -> Path | None:
    """The whole wheel in this folder, if there is one; a damaged one does not count."""
    return next((path for path in sorted(folder.glob("*.whl")) if zipfile.is_zipfile(path)), None)


def need_compiler() -> None:
    """Raise `SetUpError` where nothing can compile C and C++ (pip's own error is a long one)."""
    if os.name == "nt":
        return  # the build finds MSVC by itself; `which` does not see it
    named = os.environ.get("CC", "cc").split()[0], os.environ.get("CXX", "c++").split()[0]
    for program in named:
        if shutil.which(program) is None:
            raise SetUpError(
                f"no C/C++ compiler ({program}); install one"
                " (Debian: apt-get install gcc g++, macOS: xcode-select --install)"
            )


if __name__ == "__main__":
    sys.exit(main())
