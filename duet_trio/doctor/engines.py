"""Engines, their model files, and the memory that these will take. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from duet_trio.config import Config
from duet_trio.doctor.finding import Finding, usable
from duet_trio.engines.silero import find_model
from duet_trio.memory_plan import MemoryPlan, plan
from duet_trio.memory_plan.rows import VRAM_SPARE_MIB
from duet_trio.models.model_set import Kind
from duet_trio.models.paths import locate, require
from duet_trio.voices.configured import configured_voices, describe_voice

#: An engine in the configuration → the extra that brings its libraries.
ENGINE_EXTRAS = {"whisper": "whisper", "llama": "llama", "piper": "piper"}


def configured_engines(config: Config) -> set[str]:
    """The names of the three engines."""
    return {config.asr.engine, config.llm.engine, config.tts.engine}


def memory_plan(config: Config) -> MemoryPlan | None:
    """Plan the memory of the engines that run here; None if none of them loads a model."""
    return plan(config) if configured_engines(config) & {*ENGINE_EXTRAS, "qwen"} else None


def memory(config: Config, planned: MemoryPlan | None) -> Iterator[Finding]:
    """Yield whether this machine's own card and RAM hold what is planned."""
    if planned is None:
        return
    now = planned.measured
    if (config.llm.gpu or config.tts.gpu) and now.vram_total_mib is None:
        seen = f"{now.gpu_name} does not say what it has" if now.gpu_name else "no NVIDIA card seen"
        mend = "here the plan below is all there is; a GPU build without a card runs on the CPU"
        yield Finding("note", "VRAM", f"{seen} (nvidia-smi)", mend)
    own = planned.own_cure
    if planned.vram_mib and own is not None and (own.changes or not own.enough):
        detail = f"{planned.vram_mib:,.0f} MiB planned, {now.vram_total_mib:,.0f} there"
        yield Finding("BAD", "VRAM", f"{detail}, {VRAM_SPARE_MIB} of it to stay free", str(own))
    if now.ram_total_mib is not None and planned.ram_mib > now.ram_total_mib:
        turns = ", ".join(advice.change for advice in planned.advice if advice.ram_mib >= 1)
        mend = f"turn: {turns}" if turns else "take smaller models"
        detail = f"{planned.ram_mib:,.0f} MiB planned, {now.ram_total_mib:,.0f} there"
        yield Finding("BAD", "RAM", detail, mend)


def model_files(config: Config) -> Iterator[Finding]:
    """Yield the files of the configured local engines, and the one of speech detection."""
    yield usable("speech detection", lambda: str(find_model(config.vad.model)))
    wanted: tuple[tuple[Kind, str, str], ...] = (
        ("asr", config.asr.engine, config.asr.model),
        ("llm", config.llm.engine, config.llm.model),
        ("tts", config.tts.engine, config.tts.model),
    )
    for kind, engine, model in wanted:
        if engine == "openai":
            section = getattr(config, kind)
            yield Finding("ok", kind, f"remote: {section.base_url or 'no base_url'}")
        elif engine == "scripted":
            yield Finding("ok", kind, "scripted, needs no model")
        elif engine == "qwen":
            yield from native_voice(config)
        else:
            yield usable(kind, partial(_model, kind, f"{engine} model", model))


def _model(kind: Kind, what: str, configured: str) -> str:
    return f"{what} {require(locate(kind, configured), what)}"


def native_voice(config: Config) -> Iterator[Finding]:
    """Yield how the library and the model files of the native voice stand; loads neither."""
    settings = {name: getattr(config.tts, name) for name in config.tts.__struct_fields__}

    def library() -> str:
        # Our own compiled part is checked by this import.
        from duet_trio.engines.native.loading import TONE, library_path

        return "tone" if settings["library"] == TONE else f"library {library_path(settings)}"

    def model() -> str:
        from duet_trio.engines.native.loading import describe_folder, describe_pair

        talker = require(locate("tts", settings["model"]), "tts.model")
        if not settings["codec"]:
            return f"model {describe_folder(talker).identity} in {talker}"
        codec = require(locate("tts", settings["codec"]), "tts.codec")
        return f"model {describe_pair(talker, codec).identity} in {talker}"

    yield usable("tts", library)
    if settings["library"] == "tone":
        return
    yield usable("tts", model)
    for name in configured_voices(config):
        yield usable("voice", partial(describe_voice, config, name))
