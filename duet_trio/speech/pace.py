"""When each packet of an answer may leave, and what the board has played of it. Sans-IO.

The model of the player is exact: it starts with the first packet that it gets and plays each
for ``frame_s``; a packet that comes after the one before it has ended starts late, and all
that follow move with it (an *underrun*). So packet ``n`` plays from ``anchor + n x frame_s``,
where the anchor is set by the first packet and moved by underruns only. Rules:

* At most ``lead`` packets are sent and not yet played out, whatever arrives when.
* The first ``lead`` packets may leave together; from then on, and from any underrun on, due
  times are at least ``CATCH_UP_S`` (50 ms) apart: small boards drop or crash on a burst. After an
  underrun the lead is thus 1 and grows back by 10 ms a packet.
* A late send within the lead moves nothing: the schedule is absolute. The next one follows it
  after ``LEAST_GAP_S`` (30 ms) at the earliest. Not 50: with timers of 15.6 ms (Windows) each
  send would then come 62.5 ms after the one before, and the board would run dry. Re-basing the
  schedule on lateness would add up to the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Least time between two due times when catching up.
CATCH_UP_S = 0.05
#: Least time between two sends, however late the first of them was.
LEAST_GAP_S = 0.03

_TINY_S = 1e-9  # rounding of float times


@dataclass(frozen=True, slots=True)
class Underruns:
    """How often and for how long in all the player had nothing to play."""

    count: int = 0
    total_s: float = 0.0


class PaceSchedule:
    """The schedule of one answer. Times are seconds of any one clock."""

    def __init__(self, frame_s: float = 0.06, *, lead: int) -> None:
        if lead < 1 or frame_s <= CATCH_UP_S:
            raise ValueError("a schedule needs a lead of at least 1 and frames above 50 ms")
        self._frame_s = frame_s
        self._lead = lead
        self._anchor: float | None = None
        self._sent = 0
        self._last_sent = -math.inf
        self._last_due = -math.inf
        self._next_due = -math.inf
        self._free = lead  # packets below this number need no distance
        self._underruns = Underruns()

    @property
    def sent_packets(self) -> int:
        """Packets sent so far."""
        return self._sent

    @property
    def underruns(self) -> Underruns:
        """Underruns so far."""
        return self._underruns

    def due(self, ready_at: float) -> float:
        """Earliest time at which the next packet, ready since ``ready_at``, may be sent.

        Remembered until `sent`: the distance to the packet after it counts from here.
        """
        self._next_due = ready_at
        if self._anchor is None:
            return ready_at
        due = self._anchor + max(0, self._sent + 1 - self._lead) * self._frame_s
        if self._sent >= self._free:
            due = max(due, self._last_due + CATCH_UP_S, self._last_sent + LEAST_GAP_S)
        self._next_due = max(ready_at, due)
        return self._next_due

    def room_at(self, sequence: int) -> float:
        """When packet ``sequence`` may reach the player without more than ``lead`` of them there.

        Long ago (``-inf``) while nothing has been sent, since the first `lead` may go together.
        """
        if self._anchor is None:
            return -math.inf
        return self._anchor + max(0, sequence + 1 - self._lead) * self._frame_s

    def sent(self, now: float) -> float:
        """Count the next packet as sent at ``now``; give the seconds of underrun before it."""
        late = 0.0
        if self._anchor is None:
            self._anchor = self._next_due = now
        else:
            late = now - (self._anchor + self._sent * self._frame_s)
            if late > _TINY_S:
                self._anchor = now - self._sent * self._frame_s
                self._next_due = now
                self._free = 0
                self._underruns = Underruns(
                    self._underruns.count + 1, self._underruns.total_s + late
                )
            else:
                late = 0.0
        self._sent += 1
        self._last_sent, self._last_due = now, self._next_due
        return late

    def playback_end(self, now: float) -> float:
        """When the player will have played all that was sent; ``now`` if it already has."""
        if self._anchor is None:
            return now
        return max(now, self._anchor + self._sent * self._frame_s)

    def played_packets(self, at: float) -> int:
        """Packets played to their end at ``at`` (a time not before the last `sent`)."""
        if self._anchor is None:
            return 0
        played = math.floor((at - self._anchor) / self._frame_s + _TINY_S)
        return min(max(played, 0), self._sent)

    def lead_packets(self, at: float) -> int:
        """Packets sent and not yet played to their end at ``at``."""
        return self._sent - self.played_packets(at)
