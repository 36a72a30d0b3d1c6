"""A stand-in for a Hugging Face hub on loopback: what its client asks when it fetches a file.

``HEAD`` and ``GET /<owner>/<repository>/resolve/<revision>/<name>``: commit, ETag (SHA-256 of
large files by way of a redirect to a storage, git's SHA-1 of small ones), sizes, byte ranges.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c0ffee" * 6 + "0000"


@dataclass
class Hub:
    """Files by ``owner/repository/name``, what was asked, and how to misbehave."""

    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)  # LFS: redirected, with a SHA-256
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, range
    cut_after: int = 0  # bytes of each answer after which the connection breaks; 0: never
    cuts: int = 0  # … so often
    corrupt: bool = False  # storage serves other bytes than promised
    ranges: bool = True
    refuse: int = 0  # status for everything
    refusals: int = -1  # … so often; -1: always
    retry_after: str = ""  # … with this header
    storage_refuse: list[int] = field(default_factory=list)  # … of the storage's next answers
    stall_after: int = 0  # bytes of an answer after which nothing comes until `go_on` is set
    stalls: int = 0  # … so often
    go_on: threading.Event = field(default_factory=threading.Event)
    stalled: threading.Event = field(default_factory=threading.Event)
    auth: list[tuple[str, str]] = field(default_factory=list)  # host asked for, Authorization
    refuse_code: str = ""  # X-Error-Code beside it
    commit: str = COMMIT
    url: str = ""
    promised_size: int = 0  # of large files; 0: the real one
    moved: bool = False  # small files are redirected as well, but only when they are fetched
    storage: str = ""  # address of the storage; empty: this server by another name

    def got(self) -> list[tuple[str, str]]:
        """Paths and ranges of the GETs."""
        return [(path, span) for method, path, span in self.asked if method == "GET"]


def etag_of(data: bytes, *, large: bool) -> str:
    """As the hub gives it."""
    if large:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@contextmanager
def serving_hub() -> Iterator[Hub]:
    """The stand-in on a free port of loopback, in threads; ended when the block is left."""
    hub = Hub()

    def elsewhere(key: str) -> str:
        return f"{hub.storage or hub.url.replace('127.0.0.1', 'localhost')}/storage/{key}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            # A proxy is asked for whole addresses.
            host, _, path = self.path.removeprefix("http://").partition("/")
            if self.path.startswith("http://"):
                self.path = f"/{path}"
            else:
                host = self.headers.get("Host", "")
            hub.asked.append((self.command, self.path, self.headers.get("Range", "")))
            hub.auth.append((host.partition(":")[0], self.headers.get("Authorization", "")))
            if hub.refuse and hub.refusals:
                hub.refusals -= 1
                headers = {"X-Error-Code": hub.refuse_code, "Retry-After": hub.retry_after}
                return self._head(hub.refuse, headers, 0)
            if hub.storage_refuse and self.path.startswith("/storage/"):
                return self._head(hub.storage_refuse.pop(0), {}, 0)
            if self.path.startswith("/storage/"):
                return self._bytes(self.path.removeprefix("/storage/"), {})
            repository, _, rest = self.path.removeprefix("/").partition("/resolve/")
            revision, _, name = rest.partition("/")
            key = f"{repository}/{name}"
            if key not in hub.files or revision not in ("main", hub.commit):
                return self._head(404, {"X-Error-Code": "EntryNotFound"}, 0)
            data, large = hub.files[key], key in hub.large
            headers = {"X-Repo-Commit": hub.commit, "ETag": f'"{etag_of(data, large=large)}"'}
            if not large and hub.moved and self.command == "GET":
                return self._head(302, {"Location": elsewhere(key)}, 0)
            if not large:
                return self._bytes(key, headers)
            headers |= {
                "X-Linked-Etag": f'"{etag_of(data, large=True)}"',
                "X-Linked-Size": str(hub.promised_size or len(data)),
                "ETag": '"of-the-redirect"',
                # Another host: the client follows redirects within the hub by itself.
                "Location": elsewhere(key),
            }
            return self._head(302, headers, 0)

        def _bytes(self, key: str, headers: dict[str, str]) -> None:
            data = hub.files[key]
            if hub.corrupt:
                data = bytes([data[0] ^ 1]) + data[1:]
            span = self.headers.get("Range", "")
            start = int(span.removeprefix("bytes=").rstrip("-")) if span and hub.ranges else 0
            if start:
                headers = {
                    **headers,
                    "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}",
                }
            self._head(206 if start else 200, headers, len(data) - start)
            if self.command == "HEAD":
                return
            body = data[start:]
            if hub.stalls:
                hub.stalls -= 1
                self.wfile.write(body[: hub.stall_after])
                self.wfile.flush()
                hub.stalled.set()
                hub.go_on.wait(20)
                self.close_connection = True
                return
            if hub.cut_after and hub.cuts and len(body) > hub.cut_after:
                hub.cuts -= 1
                self.wfile.write(body[: hub.cut_after])
                self.close_connection = True
                return
            self.wfile.write(body)

        def _head(self, status: int, headers: dict[str, str], length: int) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(length))
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
