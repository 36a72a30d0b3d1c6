"""The rows of a whole configuration: its engines, the server, and what the machine itself takes."""

from __future__ import annotations

from collections.abc import Iterator

from duet_trio.config import Config
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.llm import plan_llm
from duet_trio.memory_plan.rows import MIB, Row
from duet_trio.memory_plan.sources import Sources
from duet_trio.memory_plan.tts import plan_cpu_voice, plan_folder, plan_qwen, plan_tone
from duet_trio.models.paths import locate

#: What a desktop with a browser holds on the card: the reference machine showed 7,448 MiB with
#: models of about 6.8 GB.
DESKTOP_VRAM_MIB = 600.0
SYSTEM_RAM_MIB = 3_500.0
SERVER_MIB = 150.0
ASR_PROCESS_MIB = 150.0


def all_rows(config: Config, sources: Sources) -> tuple[list[Row], list[str]]:
    """Every row, and what could not be read (so that its share is not counted)."""
    rows: list[Row] = []
    missing: list[str] = []
    for part in (_llm, _tts, _asr):
        try:
            rows += part(config, sources)
        except MissingFileError as error:
            missing.append(str(error))
    rows.append(Row("machine", "server", 0.0, SERVER_MIB, "assumed"))
    desktop = DESKTOP_VRAM_MIB if any(row.vram_mib for row in rows) else 0.0
    rows.append(Row("machine", "system and desktop", desktop, SYSTEM_RAM_MIB, "assumed"))
    return rows, missing


def _llm(config: Config, sources: Sources) -> Iterator[Row]:
    if config.llm.engine == "llama":
        yield from plan_llm(sources.head("llm", config.llm.model, "llm.model"), config.llm)


def _tts(config: Config, sources: Sources) -> Iterator[Row]:
    if config.tts.engine == "qwen" and config.tts.library == "tone":
        yield plan_tone()
    elif config.tts.engine == "qwen" and not config.tts.model:
        raise MissingFileError("tts.model is empty; name the talker's GGUF file")
    elif config.tts.engine == "qwen" and not config.tts.codec:
        yield from plan_folder(locate("tts", config.tts.model), config.tts)
    elif config.tts.engine == "qwen":
        talker = sources.head("tts", config.tts.model, "tts.model")
        codec = sources.head("tts", config.tts.codec, "tts.codec")
        yield from plan_qwen(talker, codec, config.tts)
    elif config.tts.engine == "piper":
        yield plan_cpu_voice(sources.size(locate("tts", config.tts.model), "tts.model"))


def _asr(config: Config, sources: Sources) -> Iterator[Row]:
    if config.asr.engine == "whisper":
        size_bytes = sources.size(locate("asr", config.asr.model) / "model.bin", "asr.model")
        yield Row("asr", "whisper", 0.0, size_bytes / MIB + ASR_PROCESS_MIB, "on the CPU")
