"""The token: as configured, or made at the first start and kept."""

from __future__ import annotations

import secrets
from pathlib import Path

from duet_trio.config import Config
from duet_trio.errors import ConfigError, UsageError
from duet_trio.server.security import is_loopback
from duet_trio.server.state_file import replace_file
from duet_trio.wire.handshake import bare_token

NAME = "token"
MODE = 0o600


def token_file(config: Config) -> Path:
    """Where a made token is kept."""
    return Path(config.server.state_dir).expanduser() / NAME


def obtain_token(config: Config) -> str:
    """The token of this server. Raises `ConfigError` or `UsageError` if there can be none."""
    token = bare_token(config.auth.token)
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError("auth.token: cannot be sent in a header; use letters and digits")
        return token
    path = token_file(config)
    try:
        kept = path.read_text().strip()
        if kept:
            return kept
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); mend its rights") from None
    token = secrets.token_urlsafe(24)
    try:
        _keep(path, token)
    except UsageError:
        if not is_loopback(config.server.host):
            raise  # else nobody from elsewhere can ask for it
    return token


def _keep(path: Path, token: str) -> None:
    try:
        replace_file(path, f"{token}\n".encode(), mode=MODE)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({error.strerror});"
            " mend server.state_dir, or set auth.token"
        ) from None
