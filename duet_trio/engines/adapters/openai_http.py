"""HTTP for the remote adapters: the standard library's client, made cancellable.

A blocked read cannot be interrupted by a flag, so a cancel shuts the socket down from the
command thread: that wakes the reader with an end of file.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from duet_trio.engines.adapter import Flag
from duet_trio.errors import ConfigError, EngineFailedError, MissingFileError

CONNECT_S = 5.0
#: Long: the job's own deadline in the main process comes first in all ordinary settings.
READ_S = 120.0
ERROR_BYTES = 300
MAX_LINE_BYTES = 1 << 20


def never() -> bool:
    """Stand in for the flag of a job while there is none."""
    return False


class Exchange:
    """One response that is being read. A context manager that closes it."""

    def __init__(self, api: Api, connection: http.client.HTTPConnection, cancelled: Flag) -> None:
        self._api = api
        self._connection = connection
        self._sock: socket.socket = connection.sock
        self._response: http.client.HTTPResponse | None = None
        self._cancelled = cancelled

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def attend(self, cancelled: Flag) -> None:
        """Another job reads from it now."""
        self._cancelled = cancelled

    def rest(self) -> None:
        """No job reads from it now."""
        self._cancelled = never

    @property
    def cancelled(self) -> bool:
        """Has the job been cancelled that reads from it?"""
        return self._cancelled()

    def shut(self) -> None:
        """Wake whoever reads (any thread)."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up."""
        self._api.forget(self)
        if self._response is not None:
            self._response.close()
        self._connection.close()

    def begin(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send the request and read the response's head."""
        try:
            self._connection.request("POST", path, body, headers)
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise EngineFailedError(
                f"{self._api.where}: {str(error) or type(error).__name__}"
            ) from None
        if self._response.status != http.HTTPStatus.OK:
            words = self.read_some(ERROR_BYTES).decode(errors="replace").strip()
            raise EngineFailedError(f"{self._api.where}: HTTP {self._response.status}: {words}")

    def read_some(self, limit: int) -> bytes:
        """Up to ``limit`` bytes as soon as there are some; empty at the end."""
        assert self._response is not None
        try:
            return self._response.read1(limit)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineFailedError(
                f"{self._api.where}: {str(error) or type(error).__name__}"
            ) from None

    def read_line(self) -> bytes:
        """One line; empty at the end."""
        assert self._response is not None
        try:
            return self._response.readline(MAX_LINE_BYTES)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineFailedError(
                f"{self._api.where}: {str(error) or type(error).__name__}"
            ) from None

    def read_json(self) -> dict[str, Any]:
        """The whole body as one JSON object."""
        body = bytearray()
        while len(body) < MAX_LINE_BYTES and (chunk := self.read_some(65536)):
            body += chunk
        try:
            value = json.loads(body)
        except ValueError:
            raise EngineFailedError(f"{self._api.where}: the response is no JSON") from None
        if not isinstance(value, dict):
            raise EngineFailedError(f"{self._api.where}: the response is no JSON object")
        return value


class Api:
    """An address, a key, and the exchanges that are under way."""

    def __init__(self, scheme: str, host: str, port: int | None, path: str, key: str) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._path = path
        self._key = key
        self._lock = threading.Lock()
        self._exchanges: set[Exchange] = set()
        self.where = f"{scheme}://{host}{f':{port}' if port else ''}{path}"

    @classmethod
    def from_settings(cls, kind: str, settings: dict[str, Any]) -> Api:
        """From ``base_url``, ``api_key_file`` and ``api_key_env`` of a config section."""
        base = str(settings.get("base_url", ""))
        try:
            parts = urlsplit(base)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if host is None or parts.scheme not in ("http", "https"):
            raise ConfigError(f"{kind}.base_url: '{base}' is no address; write http://host:port/v1")
        key = os.environ.get(str(settings.get("api_key_env", "")), "")
        if settings.get("api_key_file"):
            path = Path(settings["api_key_file"]).expanduser()
            try:
                key = path.read_text().strip()
            except OSError as error:
                raise MissingFileError(
                    f"{kind}.api_key_file: {path} cannot be read ({error.strerror})"
                ) from None
        return cls(parts.scheme, host, port, parts.path.rstrip("/"), key)

    def post_json(self, path: str, body: dict[str, Any], cancelled: Flag) -> Exchange:
        """Ask; returns when the response's head is there. Raises `EngineFailedError`."""
        return self.post(path, json.dumps(body).encode(), "application/json", cancelled)

    def post(self, path: str, body: bytes, content_type: str, cancelled: Flag) -> Exchange:
        """Like `post_json`, with any body."""
        headers = {"Content-Type": content_type, "Accept": "*/*"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        exchange = Exchange(self, self._connect(), cancelled)
        with self._lock:
            self._exchanges.add(exchange)
        try:
            if cancelled():  # it came before the socket could be shut
                exchange.shut()
            exchange.begin(self._path + path, body, headers)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def shut_cancelled(self) -> None:
        """Wake the readers of all cancelled jobs (command thread)."""
        with self._lock:
            for exchange in self._exchanges:
                if exchange.cancelled:
                    exchange.shut()

    def forget(self, exchange: Exchange) -> None:
        """It is closed."""
        with self._lock:
            self._exchanges.discard(exchange)

    def _connect(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=CONNECT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        try:
            connection.connect()
        except OSError as error:
            raise EngineFailedError(f"{self.where}: {error}") from None
        connection.sock.settimeout(READ_S)
        return connection
