"""Remarks that are made once per board and server run, however often the board connects."""

from __future__ import annotations

#: Boards remembered. Whoever invents Device-Ids fills neither the memory nor the log.
MOST = 2000


class Once:
    """Who has been told already. Synchronous."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def is_first(self, board: str) -> bool:
        """True for the first call with this board; False for all later ones."""
        if board in self._told or len(self._told) >= MOST:
            return False
        self._told.add(board)
        return True
