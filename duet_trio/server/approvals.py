"""Which boards may connect: a list on disk that ``duet boards`` writes and the server reads.

The two are different processes, so the file has one writer (the command) and is read again when
it has changed. What the server itself learns of a board stands in another file (`board_facts`).

Each approval has a number of its own, which goes into the board's token: whoever approves a board
again, or forgets it, thereby ends the tokens given before.
"""

from __future__ import annotations

import logging
import secrets
import time
from pathlib import Path

import msgspec

from duet_trio.errors import UsageError
from duet_trio.server.state_file import replace_file

log = logging.getLogger(__name__)

NAME = "approved.json"


class Approval(msgspec.Struct, frozen=True):
    """One approved board."""

    number: str
    at: float = 0.0  # seconds since the epoch


class Approvals:
    """Approved boards by Device-Id."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._read_at: tuple[int, int] | None = None
        self._told = ""  # what the log was last told of the file
        self._approved: dict[str, Approval] = {}

    def of(self, device_id: str) -> Approval | None:
        """The board's approval, if it has one. One ``stat``, and a read if the file is new."""
        self._refresh()
        return self._approved.get(device_id)

    def all(self) -> dict[str, Approval]:
        """All of them (a copy)."""
        self._refresh()
        return dict(self._approved)

    def approve(self, device_id: str) -> None:
        """Let a board in. Raises `UsageError` if the file cannot be written."""
        self._refresh()
        self._approved[device_id] = Approval(secrets.token_hex(8), time.time())
        self._write()

    def forget(self, device_id: str) -> bool:
        """Let a board in no longer; False if it was not approved. Raises as `approve`."""
        self._refresh()
        known = self._approved.pop(device_id, None) is not None
        if known:
            self._write()
        return known

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._read_at:
                return
            self._approved = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Approval])
            self._read_at, self._told = stamp, ""
        except FileNotFoundError:
            self._approved, self._read_at = {}, None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            # Better no board than every board; what was read before stays valid.
            if str(error) != self._told:  # once, not at each request
                log.warning("%s cannot be read: %s", self._path, error)
            self._told = str(error)

    def _write(self) -> None:
        try:
            replace_file(self._path, msgspec.json.format(msgspec.json.encode(self._approved)))
        except OSError as error:
            raise UsageError(
                f"{self._path}: cannot be written ({error.strerror}); mend server.state_dir"
            ) from None
