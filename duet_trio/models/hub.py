"""Files from a Hugging Face repository, for sets that no package carries.

``huggingface_hub`` answers where a file is, which commit and which hash it has (tokens, mirrors
in ``HF_ENDPOINT``, gated repositories); it is imported here only, and only when a set names such
a file. The bytes we fetch ourselves, because its own download begins anew after every
interruption (each process writes to a temporary file of its own) and these files have gigabytes.

Every file is checked when it has come: against the catalogue's hash where one is pinned, and
always against the hub's own, which is the SHA-256 of large (LFS) files and git's SHA-1 of small
ones. What was fetched is written down in the set's lock file (`duet_trio.models.lock`).
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.models.lock import Locked
from duet_trio.models.model_set import HubFile, ModelFile

_BLOCK = 1 << 20
_TIMEOUT_S = 20.0
#: A connection that breaks is opened again where it broke; in vain so often in a row: given up.
_TRIES = 4
_BETWEEN_TRIES_S = 1.0

#: A connection that cannot be made or broke; other `OSError` are the disk's.
_BROKEN = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError)

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """What the hub says of a file: its commit, its hash (hex), its size, where the bytes are."""

    commit: str
    etag: str
    size: int
    location: str
    headers: dict[str, str]


def ask_hub(origin: HubFile, revision: str = "") -> HubAnswer:
    """Ask for a file's commit, hash and size; ``revision`` goes over the catalogue's.

    Raises `MissingLibraryError` without ``huggingface_hub``, `UsageError` of one line when the
    hub cannot be reached, has no such file, or wants a licence to be accepted first.
    """
    hub, errors = _import_hub()
    # Read from the environment at each call: the library itself reads it at import only.
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    url = hub.hf_hub_url(
        origin.repository, origin.name, revision=revision or origin.revision, endpoint=endpoint
    )
    token = hub.get_token()
    try:
        found = hub.get_hf_file_metadata(url, token=token, timeout=_TIMEOUT_S, endpoint=endpoint)
    except errors.GatedRepoError:
        raise UsageError(
            f"models: {origin.repository} wants its licence accepted: do that on its page, then "
            "set HF_TOKEN to a token of that account and pull again"
        ) from None
    except errors.HfHubHTTPError as error:
        raise UsageError(_answered(origin, error)) from None
    except _client_errors() as error:
        raise UsageError(_unreachable(origin, error)) from None
    if not (found.etag and found.commit_hash and found.size):
        raise UsageError(
            f"models: {_name(origin)}: the hub's answer has no hash, commit or size; is "
            "HF_ENDPOINT a Hugging Face hub?"
        )
    # Its own address gets the token, a storage it points to has its right in the address.
    same = found.location.startswith(url.partition("/resolve/")[0])
    headers = {"Authorization": f"Bearer {token}"} if token and same else {}
    return HubAnswer(found.commit_hash, found.etag, found.size, found.location, headers)


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
    # Named by hash: a partial file of another version is never continued.
    partial = downloads / f"{answer.etag}.partial"
    with partial.open("ab") as sink:
        _fill(file.origin, answer, sink, on_bytes)
        sink.flush()
        os.fsync(sink.fileno())
    locked = check(partial, file, answer)
    if locked is None:
        partial.unlink()
        raise UsageError(
            f"models: {_name(file.origin)} came damaged or is another file (hash differs); "
            "pull again"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(target)
    return locked


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
    tries_left = _TRIES
    while (done := sink.tell()) < answer.size:
        on_bytes(done)
        try:
            _read_from(answer, sink, on_bytes)
        except urllib.error.HTTPError as error:
            raise UsageError(
                f"models: {_name(origin)} cannot be fetched: the hub answers {error.code}"
            ) from None
        except (*_BROKEN, http.client.HTTPException) as error:
            tries_left = _TRIES if sink.tell() > done else tries_left - 1
            if not tries_left:
                raise UsageError(_unreachable(origin, error)) from None
            time.sleep(_BETWEEN_TRIES_S)
    if sink.tell() > answer.size:
        sink.truncate(0)
    on_bytes(answer.size)


def _read_from(answer: HubAnswer, sink: BinaryIO, on_bytes: OnBytes) -> None:
    """Append what is missing; returns early when the server ends early."""
    start = sink.tell()
    headers = {**answer.headers, "Accept-Encoding": "identity", "User-Agent": "duet-trio"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(answer.location, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        if start and response.status != 206:  # it knows no ranges: from the beginning, then
            sink.truncate(0)
            sink.seek(0)
        while block := response.read(min(_BLOCK, answer.size + 1 - sink.tell())):
            sink.write(block)
            on_bytes(min(sink.tell(), answer.size))
            if sink.tell() > answer.size:
                return
    if sink.tell() == start:
        raise http.client.IncompleteRead(b"", answer.size - start)


def _import_hub() -> tuple[Any, Any]:
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise MissingLibraryError(
            "models: huggingface_hub is missing; run: pip install 'duet-trio[hub]'"
        ) from None
    return huggingface_hub, errors


def _client_errors() -> tuple[type[Exception], ...]:
    """What the library's HTTP client raises without a network: it has changed twice.

    (requests, whose errors are `OSError`; httpx; httpx2.) Only the one in use is loaded.
    """
    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return (OSError, *(client.HTTPError for client in clients))


def _answered(origin: HubFile, error: Exception) -> str:
    response = getattr(error, "response", None)
    code = getattr(response, "status_code", None)
    if code == 404:
        return (
            f"models: the hub has no {_name(origin)} at '{origin.revision}'; it may have been "
            "renamed: look at its page, and name the file in your configuration"
        )
    if code in (401, 403):
        return (
            f"models: the hub does not show {_name(origin)} (answer {code}): no such repository, "
            "or one for which HF_TOKEN must be set"
        )
    return f"models: {_name(origin)} cannot be fetched: the hub answers {code or _first(error)}"


def _unreachable(origin: HubFile, error: BaseException) -> str:
    return (
        f"models: {_name(origin)} cannot be fetched: the hub is not reachable ({_first(error)}); "
        "connect and pull again, what has come is kept"
    )


def _first(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _name(origin: HubFile) -> str:
    return f"{origin.repository}/{origin.name}"
