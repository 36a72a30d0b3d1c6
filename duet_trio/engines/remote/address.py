"""Where a remote engine is, and the key that it wants."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from duet_trio.config import AsrSection, LlmSection, TtsSection
from duet_trio.engines.contracts import EngineKind
from duet_trio.errors import ConfigError, MissingFileError


@dataclass(frozen=True, slots=True)
class Address:
    """``path``: what stands before ``/audio/speech`` and the like. ``key`` is never printed."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    key: str = field(default="", repr=False)

    @property
    def where(self) -> str:
        """For people: host and port."""
        return f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def read_address(kind: EngineKind, section: AsrSection | LlmSection | TtsSection) -> Address:
    """From ``base_url``, ``api_key_file`` and ``api_key_env``.

    Raises `ConfigError` or `MissingFileError`. A key is not required: servers at home want none.
    """
    url = section.base_url
    if not url:
        raise ConfigError(f"{kind}.base_url: missing; {kind}.engine = openai needs an address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{kind}.base_url: '{url}' is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError(f"{kind}.base_url: '{url}' must look like http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise ConfigError(f"{kind}.base_url: no password in it; use {kind}.api_key_file")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    return Address(
        parts.hostname,
        port or (443 if tls else 80),
        parts.path.rstrip("/"),
        tls,
        _key(kind, section),
    )


def _key(kind: EngineKind, section: AsrSection | LlmSection | TtsSection) -> str:
    if section.api_key_file:
        path = Path(section.api_key_file).expanduser()
        try:
            key = path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            raise MissingFileError(f"{path}: cannot be read; mend {kind}.api_key_file") from None
        where = f"{path}"
    else:
        key = os.environ.get(section.api_key_env, "").strip() if section.api_key_env else ""
        where = section.api_key_env
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{kind}: the key in {where} cannot be sent in a header")
    return key
