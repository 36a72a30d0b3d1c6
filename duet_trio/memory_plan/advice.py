"""Which key to turn when it does not fit: what each would save, and what is enough.

Found by planning again with the key turned, so an advice never differs from the plan that comes
of following it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import msgspec

from duet_trio.config import Config
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.parts import all_rows
from duet_trio.memory_plan.rows import Advice, Cure, Row
from duet_trio.memory_plan.sources import Sources

#: Below this an advice is noise.
WORTH_MIB = 32.0
_CONTEXT_FLOOR = 1024
_CONTEXT_STEP = 256
_HALVES = 8  # from a million tokens to the floor
#: One try of fewer layers: enough to see what a layer is worth.
_LAYERS_STEP = 6
#: The 1.7B talker without its text embedding, Q4_K_M, by its file.
_TALKER_Q4_MIB = 850.0

Turn = Callable[[Config], Config]


class Adviser:
    """Advice on one configuration; reads its files once."""

    def __init__(self, config: Config, sources: Sources) -> None:
        self._config = config
        self._sources = sources
        layers, trained = 0, 0
        if config.llm.engine == "llama":
            with contextlib.suppress(MissingFileError):  # nothing is known of its model, then
                head = sources.head("llm", config.llm.model, "llm.model")
                layers, trained = head.whole("block_count"), head.whole("context_length")
        self._trained = trained
        asked = config.llm.gpu_layers
        self._layers = layers if asked < 0 else min(asked, layers)  # on the card
        #: What costs at most the computing of a conversation's beginning again.
        self._gentle: tuple[Turn, ...] = (
            lambda c: _with_llm(c, swa_full=False),
            lambda c: _with_llm(c, sequences=1),
            self._half_context,
        )

    def savings(self) -> list[Advice]:
        """What each key alone would save; the most first."""
        return sorted(self._savings(), key=lambda one: -one.vram_mib - one.ram_mib / 1000)

    def cure(self, vram_mib: float) -> Cure:
        """What to turn so that all of it takes ``vram_mib`` at most.

        One key if one is enough, else as few as are, those first that cost little; layers go
        back to the CPU last, and no more than must, because that makes every answer slower.
        """
        config = self._config
        if self._vram_mib(config) <= vram_mib:
            return Cure((), self._vram_mib(config), enough=True)
        candidates = [turn(config) for turn in self._gentle]
        turned = config
        for turn in (*self._gentle, *(self._half_context,) * _HALVES):
            following = turn(turned)
            if self._vram_mib(turned) - self._vram_mib(following) >= WORTH_MIB:
                turned = following
                candidates.append(turned)
        for candidate in candidates:
            if self._vram_mib(candidate) <= vram_mib:
                break
        else:
            candidate = self._fewer_layers(turned, vram_mib)
        planned_mib = self._vram_mib(candidate)
        changes = tuple(_changes(config, candidate))
        return Cure(changes, planned_mib, enough=planned_mib <= vram_mib)

    def _savings(self) -> Iterator[Advice]:
        config, rows = self._config, self._rows(self._config)
        fewer = self._with_layers(config, max(0, self._layers - _LAYERS_STEP))
        for turned in (*(turn(config) for turn in self._gentle), fewer):
            others = self._rows(turned)
            vram_mib = sum(row.vram_mib for row in rows) - sum(row.vram_mib for row in others)
            ram_mib = sum(row.ram_mib for row in rows) - sum(row.ram_mib for row in others)
            if vram_mib >= WORTH_MIB or (vram_mib > -1 and ram_mib >= WORTH_MIB):
                change = ", ".join(_changes(config, turned))
                yield Advice(change, max(0.0, vram_mib), max(0.0, ram_mib))
        talker = [row for row in rows if row.owner == "tts" and row.what == "talker"]
        if talker and talker[0].vram_mib > _TALKER_Q4_MIB * 1.2:
            yield Advice("tts.model: a Q4_K_M talker", talker[0].vram_mib - _TALKER_Q4_MIB)

    def _fewer_layers(self, config: Config, vram_mib: float) -> Config:
        """As many layers on the card as fit, by halving: each one less takes less."""
        least, most = 0, self._layers
        while least < most:
            middle = (least + most + 1) // 2
            if self._vram_mib(self._with_layers(config, middle)) <= vram_mib:
                least = middle
            else:
                most = middle - 1
        return self._with_layers(config, least)

    def _with_layers(self, config: Config, count: int) -> Config:
        return _with_llm(config, gpu_layers=count) if count < self._layers else config

    def _half_context(self, config: Config) -> Config:
        """With room for a prompt beside the longest answer: the adapter insists on it."""
        context = min(config.llm.context, self._trained or config.llm.context)
        floor = max(_CONTEXT_FLOOR, 2 * config.llm.max_tokens)
        half = -(-max(floor, context // 2) // _CONTEXT_STEP) * _CONTEXT_STEP
        return _with_llm(config, context=half) if half < context else config

    def _rows(self, config: Config) -> list[Row]:
        return all_rows(config, self._sources)[0]

    def _vram_mib(self, config: Config) -> float:
        return sum(row.vram_mib for row in self._rows(config))


def _with_llm(config: Config, **keys: object) -> Config:
    return msgspec.structs.replace(config, llm=msgspec.structs.replace(config.llm, **keys))


def _changes(before: Config, after: Config) -> Iterator[str]:
    for key in ("swa_full", "sequences", "context", "gpu_layers"):
        value = getattr(after.llm, key)
        if value != getattr(before.llm, key):
            slower = " (slower)" if key == "gpu_layers" else ""
            yield f"llm.{key} = {str(value).lower()}{slower}"
