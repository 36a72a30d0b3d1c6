"""What is kept of each board between its connections: chip, firmware, last seen, voice.

A board tells its chip only to OTA, at boot, and the server may be restarted meanwhile; the chip
decides how many packets may wait on the board.

Facts change in the event loop and are written in a thread, at most once in `WRITE_EVERY_S`: OTA is
open to everybody, and whoever asks it a thousand times must not hold up due packets. The first
change is written at once, so that ``duet boards`` sees a board that has just asked.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec
import trio

from duet_trio.server.state_file import replace_file
from duet_trio.session.peer import Facts
from duet_trio.wire.ota import OtaRequest

log = logging.getLogger(__name__)

SMALL_CHIPS = ("esp32c3", "esp32c5", "esp32c6")
#: A board that connects is seen; on disk that may be an hour old.
SAVE_SEEN_AFTER_S = 3600.0
WRITE_EVERY_S = 2.0  # lost at most when the process is killed; all of it can be learnt again
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
    """Facts by Device-Id in one JSON file.

    Reading and changing them is synchronous and touches no disk; `run` writes what has changed,
    `flush` the last of it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "boards.json"
        self._facts: dict[str, BoardFacts] = {}
        self._is_failing = False  # was the last attempt to write in vain?
        self._version = self._written = 0  # of the facts; of the file
        self._changed = trio.Event()
        try:
            self._facts = msgspec.json.decode(self._path.read_bytes(), type=dict[str, BoardFacts])
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError, RecursionError) as error:
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
        self._note_change()

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
            self._note_change()
        return facts.client_id == request.client_id

    def of(self, device_id: str) -> Facts:
        """What a session that begins needs to know; an unknown chip counts as small."""
        facts = self._facts.get(device_id, BoardFacts())
        if device_id in self._facts:
            long_ago = time.time() - facts.last_seen > SAVE_SEEN_AFTER_S
            facts.last_seen = time.time()
            if long_ago:
                self._note_change()
        return Facts(small=not facts.chip or facts.chip in SMALL_CHIPS, voice=facts.voice)

    async def run(self) -> None:
        """Write changes until cancelled; a write that has begun is finished."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            version, data = self._version, msgspec.json.encode(self._facts)
            self._settle(version, await trio.to_thread.run_sync(self._write, data))
            await trio.sleep(WRITE_EVERY_S)

    def flush(self) -> None:
        """Write what is unwritten, here and now: for the end of a server, after `run`."""
        if self._written != self._version:
            self._settle(self._version, self._write(msgspec.json.encode(self._facts)))

    def _note_change(self) -> None:
        self._version += 1
        self._changed.set()

    def _write(self, data: bytes) -> OSError | None:
        """Runs in a thread: it touches nothing but the file."""
        try:
            replace_file(self._path, msgspec.json.format(data))
        except OSError as error:
            return error
        return None

    def _settle(self, version: int, error: OSError | None) -> None:
        if error is None:
            self._written = version
        elif not self._is_failing:  # once: OTA is open, whoever asks it must not fill the log
            log.warning("%s cannot be written: %s", self._path, error.strerror)
        self._is_failing = error is not None  # then with the next change, or at the end
