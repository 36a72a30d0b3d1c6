"""Will it fit? VRAM and RAM of a configuration, planned from the heads of its model files.

Nothing is loaded and no card is needed. Files that are not there yet but that the catalogue knows
are planned from their published dimensions (`memory_plan.published`), and the plan says so. Figures
that no file tells (contexts, processes, the desktop) are assumptions and say so; where nvidia-smi
exists, what is really in use stands beside the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from duet_trio.config import Config
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.llm import plan_llm
from duet_trio.memory_plan.machine import measure
from duet_trio.memory_plan.rows import MIB, Advice, Measured, MemoryPlan, Row
from duet_trio.memory_plan.sources import Sources
from duet_trio.memory_plan.tts import plan_cpu_voice, plan_qwen
from duet_trio.models.paths import locate

__all__ = ["Advice", "Measured", "MemoryPlan", "Row", "plan"]

#: What a desktop with a browser holds on the card: the reference machine showed 7,448 MiB with
#: models of about 6.8 GB.
DESKTOP_VRAM_MIB = 600.0
SYSTEM_RAM_MIB = 3_500.0
SERVER_MIB = 150.0
ASR_PROCESS_MIB = 150.0
#: Below this an advice is noise.
WORTH_MIB = 32.0
_CONTEXT_FLOOR = 1024


def plan(config: Config, *, measured: Measured | None = None) -> MemoryPlan:
    """Plan ``config``. Missing or damaged model files are listed, not raised.

    ``measured``: what the machine says (default: asked now, up to ten seconds).
    """
    sources = Sources()
    rows, missing = _rows(config, sources)
    return MemoryPlan(
        rows=tuple(rows),
        advice=tuple(_advice(config, rows)),
        missing=tuple(missing),
        published=tuple(sources.published),
        measured=measure() if measured is None else measured,
    )


def _rows(config: Config, sources: Sources) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    missing: list[str] = []
    for part in (_llm, _tts, _asr):
        try:
            rows += part(config, sources)
        except MissingFileError as error:
            missing.append(str(error))
    rows.append(Row("machine", "server", 0.0, SERVER_MIB, "assumed"))
    desktop = DESKTOP_VRAM_MIB if config.llm.gpu or config.tts.gpu else 0.0
    rows.append(Row("machine", "system and desktop", desktop, SYSTEM_RAM_MIB, "assumed"))
    return rows, missing


def _llm(config: Config, sources: Sources) -> Iterator[Row]:
    if config.llm.engine == "llama":
        yield from plan_llm(sources.head("llm", config.llm.model, "llm.model"), config.llm)


def _tts(config: Config, sources: Sources) -> Iterator[Row]:
    if config.tts.engine == "qwen":
        talker = sources.head("tts", config.tts.model or ".", "tts.model")
        codec = sources.head("tts", config.tts.codec or ".", "tts.codec")
        yield from plan_qwen(talker, codec, config.tts)
    elif config.tts.engine == "piper":
        yield plan_cpu_voice(sources.size(locate("tts", config.tts.model), "tts.model"))


def _asr(config: Config, sources: Sources) -> Iterator[Row]:
    if config.asr.engine == "whisper":
        size = sources.size(locate("asr", config.asr.model) / "model.bin", "asr.model")
        yield Row("asr", "whisper", 0.0, size / MIB + ASR_PROCESS_MIB, "on the CPU")


def _advice(config: Config, rows: list[Row]) -> Iterator[Advice]:
    """What each key would save, found by planning again with it turned; the most first."""
    tries = [(change, turned(config)) for change, turned in _TURNS if turned(config) != config]
    found = []
    for change, other in tries:
        others = _rows(other, Sources())[0]
        vram = sum(row.vram_mib for row in rows) - sum(row.vram_mib for row in others)
        ram = sum(row.ram_mib for row in rows) - sum(row.ram_mib for row in others)
        if vram >= WORTH_MIB or (vram > -1 and ram >= WORTH_MIB):
            found.append(Advice(change(config), max(0.0, vram), max(0.0, ram)))
    talker = [row for row in rows if row.owner == "tts" and row.what == "talker"]
    if talker and talker[0].vram_mib > _TALKER_Q4_MIB * 1.2:
        saving = talker[0].vram_mib * (1 - _TALKER_Q4_MIB / talker[0].vram_mib)
        found.append(Advice("tts.model: a Q4_K_M talker", saving))
    yield from sorted(found, key=lambda advice: -advice.vram_mib - advice.ram_mib / 1000)


#: The 1.7B talker without its text embedding, Q4_K_M, by its file.
_TALKER_Q4_MIB = 850.0


def _with_llm(config: Config, **keys: object) -> Config:
    return msgspec.structs.replace(config, llm=msgspec.structs.replace(config.llm, **keys))


def _fewer_layers(config: Config) -> int:
    layers = config.llm.gpu_layers
    if layers == 0 or config.llm.engine != "llama":
        return layers
    try:
        head = Sources().head("llm", config.llm.model, "llm.model")
    except MissingFileError:
        return layers
    count = head.whole("block_count")
    return max(0, (count if layers < 0 or layers > count else layers) - 6)


_TURNS: tuple[tuple[Callable[[Config], str], Callable[[Config], Config]], ...] = (
    (lambda _: "llm.swa_full = false", lambda c: _with_llm(c, swa_full=False)),
    (lambda _: "llm.sequences = 1", lambda c: _with_llm(c, sequences=1)),
    (
        lambda c: f"llm.context = {max(_CONTEXT_FLOOR, c.llm.context // 2)}",
        lambda c: _with_llm(c, context=min(c.llm.context, max(_CONTEXT_FLOOR, c.llm.context // 2))),
    ),
    (
        lambda c: f"llm.gpu_layers = {_fewer_layers(c)} (slower)",
        lambda c: _with_llm(c, gpu_layers=_fewer_layers(c)),
    ),
)
