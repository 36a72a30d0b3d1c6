"""The machine and what is installed on it: packages, processor, libopus, ports, disk."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from duet_trio.config import Config
from duet_trio.doctor.engines import ENGINE_EXTRAS, configured_engines
from duet_trio.doctor.finding import Finding
from duet_trio.errors import UsageError
from duet_trio.opus import find_libopus, load_opus

#: Below this much free space a trace or a model will not fit.
LITTLE_DISK_BYTES = 2_000_000_000
#: What the wheel of llama-cpp-python that `make install` builds uses without asking.
LLAMA_CPU_FLAGS = {"avx2", "fma", "f16c", "bmi2"}


def installed_parts(config: Config) -> Iterator[Finding]:
    """Yield Python, and each required package of ours with its version."""
    yield Finding("ok", "Python", f"{platform.python_version()} in {sys.prefix}")
    engines = configured_engines(config)
    needed = {ENGINE_EXTRAS[engine] for engine in engines if engine in ENGINE_EXTRAS}
    for requirement in metadata.requires("duet-trio") or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if extra is not None and extra[1] not in set(ENGINE_EXTRAS.values()):
            continue  # for working on the project
        try:
            yield Finding("ok", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            if extra is None:
                yield Finding("BAD", name, "not installed", "run 'make install'")
            elif extra[1] in needed:
                mend = f"run 'make install', or choose an engine other than {extra[1]}"
                yield Finding("BAD", name, "not installed, but configured", mend)
            else:
                yield Finding("note", name, "not installed; this configuration needs no such thing")


def processor(config: Config, cpuinfo: Path = Path("/proc/cpuinfo")) -> Iterator[Finding]:
    """Yield what the CPU lacks for our build of llama.cpp (known on Linux with x86 only)."""
    if config.llm.engine != "llama" or platform.machine() not in ("x86_64", "AMD64"):
        return
    try:
        flags = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return
    lacking = sorted(LLAMA_CPU_FLAGS.difference(flags[1].split())) if flags else []
    if lacking:
        mend = "build llama-cpp-python for it: DUET_LLAMA_FLAGS='-DGGML_NATIVE=ON …' make install"
        yield Finding("BAD", "processor", f"has no {', '.join(lacking)}", mend)


def opus() -> Finding:
    """Return where libopus was found, and its version."""
    try:
        load_opus()
        where = find_libopus()
    except UsageError as error:
        return Finding("BAD", "libopus", str(error))
    from opuslib_next.api import info  # only importable after `load_opus`

    version = info.get_version_string()
    text = version.decode() if isinstance(version, bytes) else str(version)
    return Finding("ok", "libopus", f"{text} from {where}")


def port(host: str, number: int, key: str) -> Finding:
    """Return whether this port can be bound now, as the server would."""
    what = f"port {number}"
    if number == 0:
        return Finding("ok", key, "any free port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        if os.name != "nt":  # there it would mean the opposite
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))  # without listening: nobody can connect meanwhile
        except OSError as error:
            reason = "taken" if error.errno == errno.EADDRINUSE else error.strerror
            mend = f"stop what listens there (a running server?), or set server.{key}"
            return Finding("BAD", what, f"{reason} on {host}", mend)
    return Finding("ok", what, f"free on {host}")


def state_folder(folder: Path) -> Iterator[Finding]:
    """Yield whether the state can be kept, and whether the disk has room."""
    existing = next(part for part in (folder, *folder.parents) if part.exists())
    if folder.exists() and not folder.is_dir():
        yield Finding("BAD", "server.state_dir", f"{folder} is a file", "name a folder")
    elif os.access(existing, os.W_OK | os.X_OK):
        yield Finding("ok", "server.state_dir", f"{folder} is writable")
    else:
        mend = "make it writable, or set server.state_dir"
        yield Finding("BAD", "server.state_dir", f"{existing} is not writable", mend)
    free = shutil.disk_usage(existing).free
    if free < LITTLE_DISK_BYTES:
        yield Finding("note", "disk", f"only {free / 1e9:.1f} GB free at {existing}")
    else:
        yield Finding("ok", "disk", f"{free / 1e9:.0f} GB free at {existing}")
