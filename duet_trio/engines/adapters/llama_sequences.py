"""Which llama.cpp sequence holds which tokens, and who gets which (pure bookkeeping).

A stream keeps its sequence while it lives. A new one takes the free sequence in which more of
its prompt is found than would be thrown away: the conversation's own last turn, or one that
holds the system prompt alone. Without such a one, the free sequence that was used least
recently: the longest common beginning would be the wrong rule, since all prompts share the
system prompt, and one conversation would destroy another's past while others lie idle. With
none free, the least recently used changes hands, and its owner will have to be evaluated
again: that is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_REMEMBERED = 8  # token lists of lost sequences, kept only to count what is computed twice


@dataclass(slots=True)
class Slot:
    """One sequence: the tokens whose keys and values it holds, and its owner if it has one."""

    index: int
    tokens: list[int] = field(default_factory=list)
    owner: int | None = None
    used: int = 0


class SequenceTable:
    """The sequences of one context."""

    def __init__(self, count: int) -> None:
        self.slots = [Slot(index) for index in range(count)]
        self._lost: deque[list[int]] = deque(maxlen=_REMEMBERED)
        self._clock = 0

    def take(self, stream: int, tokens: Sequence[int]) -> Slot:
        """The slot of ``stream``, given to it now if it had none (see the module)."""
        self._clock += 1
        slot = next((slot for slot in self.slots if slot.owner == stream), None)
        if slot is None:
            free = [slot for slot in self.slots if slot.owner is None]
            slot = _worth_reusing(free, tokens) or min(free or self.slots, key=lambda s: s.used)
        slot.owner = stream
        slot.used = self._clock
        return slot

    def release(self, stream: int) -> None:
        """The stream is over; what its slot holds stays for whoever shares its beginning."""
        for slot in self.slots:
            if slot.owner == stream:
                slot.owner = None

    def cut(self, slot: Slot, keep: int) -> None:
        """The slot's sequence has been truncated to ``keep`` tokens."""
        if keep < len(slot.tokens):
            self._lost.append(list(slot.tokens))
            del slot.tokens[keep:]

    def computed_before(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens``, from the first on, were in some sequence at some time."""
        lists = [slot.tokens for slot in self.slots] + list(self._lost)
        return max((common_prefix(known, tokens) for known in lists), default=0)


def _worth_reusing(free: Sequence[Slot], tokens: Sequence[int]) -> Slot | None:
    """The slot with the best balance of tokens found and tokens lost, if that is a gain."""

    def gain(slot: Slot) -> int:
        found = common_prefix(slot.tokens, tokens)
        return found - (len(slot.tokens) - found)

    best = max(free, key=lambda slot: (gain(slot), -slot.used), default=None)
    return best if best is not None and gain(best) > 0 else None


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
