"""What a Hugging Face hub says of a file: where it is, which commit and which hash it has.

``huggingface_hub`` asks (tokens, mirrors in ``HF_ENDPOINT``, gated repositories); it is imported
here only, and only when a set names such a file. The bytes are fetched by
`duet_trio.models.download`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from duet_trio.errors import MissingLibraryError, UsageError
from duet_trio.models.model_set import HubFile

_TIMEOUT_S = 20.0
#: A hub that is busy (429) or broken (5xx) is asked so often in all.
_TRIES = 4
BETWEEN_TRIES_S = 1.0
#: Longest that a server's ``Retry-After`` is heeded; then it is for the person to wait.
_WAIT_MOST_S = 60.0
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


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
    found = _ask(origin, hub, errors, {"url": url, "token": token, "endpoint": endpoint})
    at_a_server = str(found.location).startswith(("https://", "http://"))
    if not (found.etag and found.commit_hash and found.size and at_a_server):
        raise UsageError(
            f"models: {file_name(origin)}: the hub's answer has no hash, commit, size or address; "
            "is HF_ENDPOINT a Hugging Face hub?"
        )
    # Its own address gets the token, a storage it points to has its right in the address.
    same = found.location.startswith(url.partition("/resolve/")[0])
    headers = {"Authorization": f"Bearer {token}"} if token and same else {}
    return HubAnswer(found.commit_hash, found.etag, found.size, found.location, headers)


def _ask(origin: HubFile, hub: Any, errors: Any, question: dict[str, Any]) -> Any:
    for tries_left in range(_TRIES - 1, -1, -1):
        try:
            return hub.get_hf_file_metadata(**question, timeout=_TIMEOUT_S)
        except errors.GatedRepoError:
            raise UsageError(
                f"models: {origin.repository} wants its licence accepted: do that on its page, "
                "then set HF_TOKEN to a token of that account and pull again"
            ) from None
        except errors.HfHubHTTPError as error:
            response = getattr(error, "response", None)
            status, headers = getattr(response, "status_code", 0), getattr(response, "headers", {})
            wait_s = wait_before_retry_s(status, headers.get("Retry-After"))
            if wait_s is None or not tries_left:
                raise UsageError(_answered(origin, error)) from None
            time.sleep(wait_s)
        except _client_errors() as error:
            raise UsageError(unreachable(origin, error)) from None
    raise AssertionError("the last try returns or raises")


def wait_before_retry_s(status: int, retry_after: str | None) -> float | None:
    """How long to wait before a server that answered so is asked again; None: in vain.

    ``retry_after``: that header of its answer, if it sent one.
    """
    if status not in (408, 429) and not 500 <= status <= 599:
        return None
    try:
        asked_s = float(retry_after or 0)
    except ValueError:  # a date
        asked_s = 0.0
    return max(BETWEEN_TRIES_S, asked_s) if asked_s <= _WAIT_MOST_S else None


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
            f"models: the hub has no {file_name(origin)} at '{origin.revision}'; it may have been "
            "renamed: look at its page, and name the file in your configuration"
        )
    if code in (401, 403):
        return (
            f"models: the hub does not show {file_name(origin)} (answer {code}): no such "
            "repository, or one for which HF_TOKEN must be set"
        )
    return refused(origin, code or _first(error))


def refused(origin: HubFile, answer: object) -> str:
    """For people: the hub or its storage answered with a status that cannot be mended here."""
    why = f"models: {file_name(origin)} cannot be fetched: the hub answers {answer}"
    if answer == 429:
        return f"{why} (too many requests); wait some minutes and pull again, what has come is kept"
    return f"{why}; pull again later, what has come is kept"


def unreachable(origin: HubFile, error: BaseException) -> str:
    """For people: no answer at all."""
    proxies = [name for name in _PROXIES if os.environ.get(name)]
    proxy = f" by way of the proxy in {proxies[0]}" if proxies else ""
    return (
        f"models: {file_name(origin)} cannot be fetched: the hub is not reachable{proxy} "
        f"({_first(error)}); connect and pull again, what has come is kept"
    )


def _first(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def file_name(origin: HubFile) -> str:
    """``owner/repository/name``, for people."""
    return f"{origin.repository}/{origin.name}"
