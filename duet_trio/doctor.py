"""``duet doctor``: is everything here that the configuration needs, and how to mend what is not.

One line per finding, then what the configured models will take of VRAM and RAM (planned, not
measured; `duet_trio.memory_plan`). Nothing is loaded, created or fetched: it reads, and tries the
ports, and asks nvidia-smi where there is one.
Exit code 0, or 1 if something is missing that a server with this configuration needs.
"""

from __future__ import annotations

import argparse
import errno
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from duet_trio.cli import add_config_options, read_config
from duet_trio.config import Config
from duet_trio.engines.silero import find_model
from duet_trio.errors import UsageError
from duet_trio.memory_plan import MemoryPlan, plan
from duet_trio.memory_plan.rows import VRAM_SPARE_MIB
from duet_trio.models.model_set import Kind
from duet_trio.models.paths import locate, require
from duet_trio.opus import find_libopus, load_opus
from duet_trio.voices.configured import configured_voices, describe_voice

Verdict = Literal["ok", "note", "BAD"]

#: An engine in the configuration → the extra that brings its libraries.
ENGINE_EXTRAS = {"whisper": "whisper", "llama": "llama", "piper": "piper"}
#: Below this much free space a trace or a model will not fit.
LITTLE_DISK_BYTES = 2_000_000_000
#: What the wheel of llama-cpp-python that `make install` builds uses without asking.
LLAMA_CPU_FLAGS = {"avx2", "fma", "f16c", "bmi2"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it stands, and how to mend it (if there is a need)."""

    verdict: Verdict
    what: str
    detail: str
    mend: str = ""

    def __str__(self) -> str:
        """``ok    libopus: libopus 1.6.1``."""
        end = f"; {self.mend}" if self.mend else ""
        return f"{self.verdict:5} {self.what}: {self.detail}{end}"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``duet doctor``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this installation",
        description="Is everything here that the configuration needs, and how to mend what is"
        " not. Reads only: nothing is loaded, created or fetched.",
        epilog="Exit code: 0, or 1 if a server with this configuration lacks something.",
    )
    add_config_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print every finding and the memory plan; 1 if a finding is bad."""
    config = read_config(args)
    planned = memory_plan(config)
    findings = [*examine(config), *memory(config, planned)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    if planned is not None:
        sys.stdout.write(f"\n{planned.render()}\n\n")
    bad = sum(finding.verdict == "BAD" for finding in findings)
    sys.stdout.write(f"{bad} to mend\n" if bad else "all is there\n")
    return 1 if bad else 0


def examine(config: Config) -> Iterator[Finding]:
    """Yield all findings for this configuration."""
    yield from installed_parts(config)
    yield from processor(config)
    yield opus()
    yield from model_files(config)
    yield port(config.server.host, config.server.websocket_port, "websocket_port")
    yield port(config.server.host, config.server.http_port, "http_port")
    yield from state_folder(Path(config.server.state_dir).expanduser())


def memory_plan(config: Config) -> MemoryPlan | None:
    """Plan the memory of the engines that run here; None if none of them loads a model."""
    engines = {config.asr.engine, config.llm.engine, config.tts.engine}
    return plan(config) if engines & {*ENGINE_EXTRAS, "qwen"} else None


def memory(config: Config, planned: MemoryPlan | None) -> Iterator[Finding]:
    """Yield whether this machine's own card and RAM hold what is planned."""
    if planned is None:
        return
    now = planned.measured
    if (config.llm.gpu or config.tts.gpu) and now.vram_total_mib is None:
        seen = f"{now.gpu_name} does not say what it has" if now.gpu_name else "no NVIDIA card seen"
        mend = "here the plan below is all there is; a GPU build without a card runs on the CPU"
        yield Finding("note", "VRAM", f"{seen} (nvidia-smi)", mend)
    own = planned.own_cure
    if planned.vram_mib and own is not None and (own.changes or not own.enough):
        detail = f"{planned.vram_mib:,.0f} MiB planned, {now.vram_total_mib:,.0f} there"
        yield Finding("BAD", "VRAM", f"{detail}, {VRAM_SPARE_MIB} of it to stay free", str(own))
    if now.ram_total_mib is not None and planned.ram_mib > now.ram_total_mib:
        turns = ", ".join(advice.change for advice in planned.advice if advice.ram_mib >= 1)
        mend = f"turn: {turns}" if turns else "take smaller models"
        detail = f"{planned.ram_mib:,.0f} MiB planned, {now.ram_total_mib:,.0f} there"
        yield Finding("BAD", "RAM", detail, mend)


def installed_parts(config: Config) -> Iterator[Finding]:
    """Yield Python, and each required package of ours with its version."""
    yield Finding("ok", "Python", f"{platform.python_version()} in {sys.prefix}")
    engines = {config.asr.engine, config.llm.engine, config.tts.engine}
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


def model_files(config: Config) -> Iterator[Finding]:
    """Yield the files of the configured local engines, and the one of speech detection."""
    yield _usable("speech detection", lambda: str(find_model(config.vad.model)))
    wanted: tuple[tuple[Kind, str, str], ...] = (
        ("asr", config.asr.engine, config.asr.model),
        ("llm", config.llm.engine, config.llm.model),
        ("tts", config.tts.engine, config.tts.model),
    )
    for kind, engine, model in wanted:
        if engine == "openai":
            section = getattr(config, kind)
            yield Finding("ok", kind, f"remote: {section.base_url or 'no base_url'}")
        elif engine == "scripted":
            yield Finding("ok", kind, "scripted, needs no model")
        elif engine == "qwen":
            yield from native_voice(config)
        else:
            yield _usable(kind, partial(_model, kind, f"{engine} model", model))


def _model(kind: Kind, what: str, configured: str) -> str:
    return f"{what} {require(locate(kind, configured), what)}"


def native_voice(config: Config) -> Iterator[Finding]:
    """Yield how the library and the model files of the native voice stand; loads neither."""
    settings = {name: getattr(config.tts, name) for name in config.tts.__struct_fields__}

    def library() -> str:
        # Our own compiled part is checked by this import.
        from duet_trio.engines.native.loading import TONE, library_path

        return "tone" if settings["library"] == TONE else f"library {library_path(settings)}"

    def model() -> str:
        from duet_trio.engines.native.loading import describe_folder, describe_pair

        talker = require(locate("tts", settings["model"]), "tts.model")
        if not settings["codec"]:
            return f"model {describe_folder(talker).identity} in {talker}"
        codec = require(locate("tts", settings["codec"]), "tts.codec")
        return f"model {describe_pair(talker, codec).identity} in {talker}"

    yield _usable("tts", library)
    if settings["library"] == "tone":
        return
    yield _usable("tts", model)
    for name in configured_voices(config):
        yield _usable("voice", partial(describe_voice, config, name))


def _usable(what: str, look: Callable[[], str]) -> Finding:
    """What ``look`` says, or the `UsageError` that it raises."""
    try:
        return Finding("ok", what, look())
    except UsageError as error:
        return Finding("BAD", what, str(error))


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
