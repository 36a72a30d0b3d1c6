"""TLS from certificate files."""

from __future__ import annotations

import ssl
from pathlib import Path

from duet_trio.config import ServerSection
from duet_trio.errors import ConfigError, MissingFileError


def tls_context(section: ServerSection) -> ssl.SSLContext | None:
    """What ``server.tls_certificate`` asks for; None: plain text.

    Raises `MissingFileError` or `ConfigError` for files that cannot be used.
    """
    if not section.tls_certificate:
        if section.tls_key:
            raise ConfigError("server.tls_key: has no certificate; set server.tls_certificate")
        return None
    certificate = Path(section.tls_certificate).expanduser()
    key = Path(section.tls_key).expanduser() if section.tls_key else None
    for name, path in (("tls_certificate", certificate), ("tls_key", key)):
        if path is not None and not path.is_file():
            raise MissingFileError(f"{path}: no such file; mend server.{name}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # No password: nobody is there to be asked for one.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise ConfigError(
            f"{certificate}: cannot be used ({reason}); it must be PEM, with an unencrypted key"
            " that belongs to it (server.tls_key)"
        ) from None
    return context
