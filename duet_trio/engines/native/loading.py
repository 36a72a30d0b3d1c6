"""From the ``[tts]`` section to an open engine: which files, are they sound, do they fit.

Everything that an engine would answer with "cannot load" (or by aborting) is looked at first in
the heads of the files, so that the message names the key and the cure.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duet_trio.engines import gguf
from duet_trio.engines.native.types import Options, RefusedError
from duet_trio.engines.native.voice import NativeVoice
from duet_trio.errors import ConfigError, MissingFileError, MissingLibraryError
from duet_trio.models.paths import fetch_hint, locate

TALKER = "qwen3-tts"
CODEC = "qwen3-tts-tokenizer"
#: ``tts.library`` of the engine that needs no library: a tone, for trying the pipeline.
TONE = "tone"
_CODEBOOK_SIZE = 2048  # of the published codec, where the file does not say
#: Keys that libqwen divides by or allocates from unasked: with an absurd one it aborts.
_COUNTS = ("head_count", "head_count_kv", "num_attention_heads", "num_quantizers",
           "num_code_groups", "latent_dim", "vocab_size")  # fmt: skip
_POSITIVE = ("freq_base", "epsilon", "_eps")
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Model:
    """What the model files say. ``languages`` empty: not known, any is passed on."""

    identity: str
    embedding_length: int = 0
    codebook_size: int = 0
    kind: str = "base"
    languages: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """An engine ready to speak, and what its model is."""

    native: NativeVoice
    model: Model


def open_engine(settings: Mapping[str, Any]) -> OpenEngine:
    """Open what ``tts.library``, ``.model`` and ``.codec`` name; takes seconds.

    Raises `ConfigError`, `MissingFileError` or `MissingLibraryError`, one line each.
    """
    # Else ggml starts a debugger when it aborts, which can hang instead of ending the process.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    threads, gpu = int(settings.get("threads", 1)), bool(settings.get("gpu", False))
    if settings.get("library") == TONE:
        return OpenEngine(NativeVoice(Options(engine=TONE, threads=threads)), Model("tone"))
    library = library_path(settings)
    if not settings.get("model"):
        raise ConfigError("tts.model is empty; name the talker's GGUF file")
    model_path = _path(settings, "model")
    codec_path = _path(settings, "codec") if settings.get("codec") else None
    # qwen3-tts.cpp takes a folder and finds its codec in it; libqwen wants both named.
    model = describe_pair(model_path, codec_path) if codec_path else describe_folder(model_path)
    options = Options(
        library=str(library),
        model=str(model_path),
        codec=str(codec_path or ""),
        threads=threads,
        gpu=gpu,
        embedding_length=model.embedding_length,
        codebook_size=model.codebook_size,
    )
    try:
        return OpenEngine(NativeVoice(options), model)
    except MissingLibraryError as error:
        raise MissingLibraryError(f"tts.library = {error}") from None
    except MissingFileError as error:
        raise MissingFileError(
            f"tts.model = {model_path}: the engine refused it: {error}"
        ) from None
    except RefusedError as error:
        raise ConfigError(f"[tts]: {error}") from None


def library_path(settings: Mapping[str, Any]) -> Path:
    """The configured library. Raises `ConfigError` or `MissingLibraryError`."""
    if not settings.get("library"):
        raise ConfigError("tts.library is empty; name libqwen or another engine's shared library")
    path = _path(settings, "library")
    if not os.path.isfile(path):  # `Path.is_file` raises for names that are too long
        cure = fetch_hint(path) or "correct the path"
        raise MissingLibraryError(f"tts.library = {path}: no such file; {cure}")
    return path


def _path(settings: Mapping[str, Any], key: str) -> Path:
    if "\0" in settings[key]:
        raise ConfigError(f"tts.{key} has a NUL in it; correct the path")
    return locate("tts", settings[key])


def describe_pair(talker_path: Path, codec_path: Path) -> Model:
    """Check a talker and a codec GGUF and say what matters of them."""
    talker = gguf.read(talker_path, "tts.model")
    codec = gguf.read(codec_path, "tts.codec")
    if (talker.architecture, codec.architecture) == (CODEC, TALKER):
        raise MissingFileError(
            f"tts.model = {talker_path}: this is the codec; exchange tts.model and tts.codec"
        )
    for file, key, wanted in ((talker, "model", TALKER), (codec, "codec", CODEC)):
        if file.architecture != wanted:
            raise MissingFileError(
                f"tts.{key} = {file.path}: holds '{file.architecture}', not '{wanted}'; "
                f"take a Qwen3-TTS {'talker' if key == 'model' else 'codec (tokenizer)'} file"
            )
        if damaged := next(filter(_is_absurd, file.metadata.items()), None):
            raise MissingFileError(
                f"tts.{key} = {file.path}: damaged: its {damaged[0]} is {damaged[1]}; "
                "download it again"
            )
    return Model(
        identity=f"{talker.identity}{codec.identity[:8]}",
        embedding_length=talker.whole("talker.embedding_length"),
        codebook_size=codec.whole("decoder.codebook_size", _CODEBOOK_SIZE),
        kind=str(talker.metadata.get(f"{TALKER}.model_type", "base")),
        languages=_texts(talker, "codec.language_names"),
        speakers=_texts(talker, "codec.speaker_names"),
    )


def describe_folder(path: Path) -> Model:
    """The same for the model folder of qwen3-tts.cpp (or one talker in it)."""
    folder = path.parent if path.suffix == ".gguf" else path
    files = sorted(folder.glob("*.gguf")) if folder.is_dir() else []
    if not files:
        raise MissingFileError(f"tts.model = {path}: no folder with GGUF files; correct the path")
    digest = hashlib.sha256()
    length = 0
    for file in files:
        head = gguf.read(file, "tts.model")
        digest.update(head.identity.encode())
        if "tokenizer" not in file.name:
            length = length or _embedding_length(head)
    return Model(identity=digest.hexdigest()[:24], embedding_length=length)


def _is_absurd(item: tuple[str, Any]) -> bool:
    key, value = item
    if isinstance(value, float):
        return not math.isfinite(value) or (key.endswith(_POSITIVE) and value <= 0)
    return isinstance(value, int) and key.endswith(_COUNTS) and not 1 <= value <= _MOST


def _embedding_length(head: gguf.Gguf) -> int:
    """By whatever key that converter used, else by the published sizes (0.6B and 1.7B)."""
    for key, value in head.metadata.items():
        ours = key.endswith(("talker.embedding_length", "spk_enc.embedding_length"))
        if ours and isinstance(value, int):
            return value
    name = head.path.name.lower()
    return 1024 if "0.6b" in name else 2048 if "1.7b" in name else 0


def _texts(file: gguf.Gguf, key: str) -> tuple[str, ...]:
    value = file.metadata.get(f"{file.architecture}.{key}", [])
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
