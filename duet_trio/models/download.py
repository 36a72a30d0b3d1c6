"""The bytes of a hub's file: resumed where they broke off, checked when they have come.

``huggingface_hub``'s own download begins anew after every interruption (each process writes to a
temporary file of its own), and these files have gigabytes.

Every file is checked against the catalogue's hash where one is pinned, and always against the
hub's own, which is the SHA-256 of large (LFS) files and git's SHA-1 of small ones. What was
fetched is written down in the set's lock file (`duet_trio.models.lock`).
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from duet_trio.errors import UsageError
from duet_trio.models import hub
from duet_trio.models.hub import HubAnswer
from duet_trio.models.lock import Locked
from duet_trio.models.model_set import HubFile, ModelFile

_BLOCK = 1 << 20
_TIMEOUT_S = 20.0
#: A connection that breaks is opened again where it broke; in vain so often in a row, with twice
#: the wait each time (half a minute in all): given up.
_TRIES = 6

#: A connection that cannot be made or broke; other `OSError` are the disk's.
_BROKEN = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError)
#: The right to read a storage's address ends after an hour or so; then the hub gives a new one.
_EXPIRED = (400, 401, 403, 404, 410)

OnBytes = Callable[[int], None]


def promised(file: ModelFile, answer: HubAnswer) -> None:
    """Compare the hub's word with the catalogue's, before anything is fetched.

    Raises `UsageError` if what would come cannot be the pinned file.
    """
    assert isinstance(file.origin, HubFile)
    is_sha256 = len(answer.etag) == len(file.sha256)
    if file.pinned and (answer.size != file.size or (is_sha256 and answer.etag != file.sha256)):
        raise UsageError(
            f"models: {hub.file_name(file.origin)} is another file than the one that was checked "
            f"for this version ({answer.size} bytes, {file.size} expected, or its hash differs); "
            "is HF_ENDPOINT a mirror that changes files?"
        )


def fetch_hub_file(
    file: ModelFile, answer: HubAnswer, downloads: Path, target: Path, on_bytes: OnBytes
) -> Locked:
    """Fetch one file by way of ``downloads``, check it, move it to ``target``.

    What an interruption leaves in ``downloads`` is continued by the next call, as long as the
    hub still has the same file. ``on_bytes`` is called with the bytes there so far. Raises
    `UsageError` of one line: unreachable, or not the file that was promised.
    """
    assert isinstance(file.origin, HubFile)
    downloads.mkdir(parents=True, exist_ok=True)
    partial = partial_path(downloads, answer)
    with partial.open("ab") as sink:
        _fill(file.origin, answer, sink, on_bytes)
        sink.flush()
        os.fsync(sink.fileno())
    locked = check(partial, file, answer)
    if locked is None:
        partial.unlink()
        raise UsageError(
            f"models: {hub.file_name(file.origin)} came damaged or is another file (hash differs);"
            " pull again"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(target)
    return locked


def partial_path(downloads: Path, answer: HubAnswer) -> Path:
    """Where a file grows. Named by hash: one of another version is never continued."""
    return downloads / f"{answer.etag}.partial"


def check(path: Path, file: ModelFile, answer: HubAnswer) -> Locked | None:
    """Read ``path``; what to write into the lock file if it is what the hub has, else None."""
    assert isinstance(file.origin, HubFile)
    size = path.stat().st_size
    if size != answer.size or (file.pinned and size != file.size):
        return None
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            sha256.update(block)
            git.update(block)
    digest = sha256.hexdigest()
    if answer.etag not in (digest, git.hexdigest()) or (file.pinned and digest != file.sha256):
        return None
    return Locked(
        repository=file.origin.repository, name=file.origin.name, commit=answer.commit,
        size=size, sha256=digest, hub_hash=answer.etag,
    )  # fmt: skip


def _fill(origin: HubFile, answer: HubAnswer, sink: BinaryIO, on_bytes: OnBytes) -> None:
    failures, renewed = 0, False  # since the last byte that came
    while (done := sink.tell()) < answer.size:
        on_bytes(done)
        try:
            _read_from(answer, sink, on_bytes)
        except urllib.error.HTTPError as error:
            wait_s = hub.wait_before_retry_s(error.code, error.headers["Retry-After"])
            if error.code in _EXPIRED and not renewed:
                answer, renewed, wait_s = _ask_again(origin, answer), True, 0.0
            failures += 1
            if wait_s is None or failures >= _TRIES:
                raise UsageError(hub.refused(origin, error.code)) from None
            time.sleep(wait_s)
        except (*_BROKEN, http.client.HTTPException) as error:
            failures += 1
            if sink.tell() > done:
                failures, renewed = 0, False
            elif failures >= _TRIES:
                raise UsageError(hub.unreachable(origin, error)) from None
            time.sleep(hub.BETWEEN_TRIES_S * 2 ** max(0, failures - 1))
        else:
            failures, renewed = 0, False
    if sink.tell() > answer.size:
        sink.truncate(0)
    on_bytes(answer.size)


def _ask_again(origin: HubFile, answer: HubAnswer) -> HubAnswer:
    """The same file's address of now. Raises `UsageError` when it is not the same any more."""
    found = hub.ask_hub(origin, answer.commit)
    if (found.etag, found.size) != (answer.etag, answer.size):
        raise UsageError(f"models: {hub.file_name(origin)} changed meanwhile; pull again")
    return found


def _read_from(answer: HubAnswer, sink: BinaryIO, on_bytes: OnBytes) -> None:
    """Append what is missing; returns early when the server ends early."""
    start = sink.tell()
    headers = {"Accept-Encoding": "identity", "User-Agent": "duet-trio"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(answer.location, headers=headers)
    for name, value in answer.headers.items():  # a token must not follow to another host
        request.add_unredirected_header(name, value)
    opener = urllib.request.build_opener()  # reads the proxies of now
    with opener.open(request, timeout=_TIMEOUT_S) as response:
        if start and response.status != 206:  # it knows no ranges: from the beginning, then
            sink.truncate(0)
            sink.seek(0)
        # `read1`: what has come. `read` would wait for a whole block, and lose it if a slow
        # connection breaks before.
        while block := response.read1(min(_BLOCK, answer.size + 1 - sink.tell())):
            sink.write(block)
            on_bytes(min(sink.tell(), answer.size))
            if sink.tell() > answer.size:
                return
    if sink.tell() <= start:
        raise http.client.IncompleteRead(b"", answer.size - start)
