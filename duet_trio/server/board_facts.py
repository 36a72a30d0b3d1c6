"""What is kept of each board between its connections: chip, firmware, last seen, voice.

A board tells its chip only to OTA, at boot, and the server may be restarted meanwhile; the chip
decides how many packets may wait on the board.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec

from duet_trio.server.state_file import replace_file
from duet_trio.session.connection import Facts
from duet_trio.wire.ota import OtaRequest

log = logging.getLogger(__name__)

SMALL_CHIPS = ("esp32c3", "esp32c5", "esp32c6")
#: A board that connects is seen; on disk that may be an hour old.
SAVE_SEEN_AFTER_S = 3600.0
MAX_BOARDS = 2000  # an open OTA endpoint must not fill the disk


class BoardFacts(msgspec.Struct):
    """One board."""

    chip: str = ""
    firmware: str = ""
    name: str = ""
    last_seen: float = 0.0  # seconds since the epoch
    voice: str = ""
    client_id: str = ""  # that its approval is bound to …
    approval: str = ""  # … and the number of that approval


class FactStore:
    """Facts by Device-Id in one JSON file; synchronous (a few KB, at a board's boot only)."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "boards.json"
        self._facts: dict[str, BoardFacts] = {}
        self._is_failing = False  # was the last attempt to write in vain?
        try:
            self._facts = msgspec.json.decode(self._path.read_bytes(), type=dict[str, BoardFacts])
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            # Everything in it can be learnt again; a damaged file must not stop the server.
            log.warning("%s cannot be read (%s); starting with no known boards", self._path, error)

    def known(self) -> dict[str, BoardFacts]:
        """All boards (a copy)."""
        return dict(self._facts)

    def saw(self, request: OtaRequest) -> None:
        """A board has asked OTA."""
        if not request.device_id:
            return
        facts = self._facts.setdefault(request.device_id, BoardFacts())
        facts.chip = request.chip or facts.chip
        facts.firmware = request.firmware or facts.firmware
        facts.name = request.board or facts.name
        facts.last_seen = time.time()
        while len(self._facts) > MAX_BOARDS:
            oldest = min(self._facts, key=lambda key: self._facts[key].last_seen)
            del self._facts[oldest]
        self._save()

    def is_bound(self, request: OtaRequest, approval: str) -> bool:
        """Is this the board that was approved? The first to ask after an approval is.

        A Device-Id is printed on the board and sent in the clear; the Client-Id is a number that
        the board drew itself, so it takes more than reading a label to play that board.
        """
        facts = self._facts.get(request.device_id)
        if facts is None or not approval:
            return not approval
        if facts.approval != approval:
            facts.approval, facts.client_id = approval, request.client_id
            self._save()
        return facts.client_id == request.client_id

    def of(self, device_id: str) -> Facts:
        """What a session that begins needs to know; an unknown chip counts as small."""
        facts = self._facts.get(device_id, BoardFacts())
        if device_id in self._facts:
            long_ago = time.time() - facts.last_seen > SAVE_SEEN_AFTER_S
            facts.last_seen = time.time()
            if long_ago:
                self._save()
        return Facts(small=not facts.chip or facts.chip in SMALL_CHIPS, voice=facts.voice)

    def _save(self) -> None:
        try:
            replace_file(self._path, msgspec.json.format(msgspec.json.encode(self._facts)))
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:  # once: OTA is open, whoever asks it must not fill the log
                log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._is_failing = True
