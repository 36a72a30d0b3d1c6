"""What the voice takes: Qwen3-TTS on libqwen from the heads of its two files, or another one.

Held against libqwen's own load log (CPU build 0.4.2). With the 1.7B talker's real dimensions and
random weights, by hand: talker and text embedding 1,765.0 MB logged and planned at Q8_0, 934.7 and
934.6 at Q4_K throughout; predictor 177.5 and 94.0, KV cache 896, the same in both. (The published
Q4_K_M keeps some tensors at more bits: 1,013 MB.) The tiny pair is compared in the tests.

On the CPU the worker's resident memory shows as much again for the mapped file: pages that the
system drops when it needs them, and which are not counted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duet_trio.config import TtsSection
from duet_trio.engines.gguf import Gguf
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.rows import MIB, Row

#: libqwen keeps K and V as 32-bit floats for a fixed number of positions.
KV_POSITIONS = 4096
KV_VALUE_BYTES = 4
#: Streaming, with the published codec's dimensions; measured on the CPU back end.
COMPUTE_MIB = 70.0
CUDA_CONTEXT_MIB = 350.0
PROCESS_MIB = 120.0
#: By the end of their names: in the four decoder blocks, and in the two upsamplers.
TRANSPOSED = (".conv_t.weight", ".0.conv.weight", ".1.conv.weight")
_NO_SWITCH = "no engine has a switch to save this"


def plan_qwen(talker: Gguf, codec: Gguf, section: TtsSection) -> Iterator[Row]:
    """The rows of the voice's worker."""

    def row(what: str, mib: float, note: str = "") -> Row:
        return Row("tts", what, mib if section.gpu else 0.0, 0.0 if section.gpu else mib, note)

    embedding = talker.weight_bytes(lambda name: name.startswith("talker.text_embd"))
    main = talker.weight_bytes(lambda name: name.startswith("talker."))
    predictor = talker.weight_bytes(lambda name: name.startswith("code_pred."))
    decoder = decoder_bytes(codec)
    for head, key, size_bytes in ((talker, "model", main), (codec, "codec", decoder)):
        if not size_bytes:
            what = "talker" if key == "model" else "codec"
            raise MissingFileError(f"tts.{key} = {head.path}: no {what} in it; name another file")
    yield row("talker", (main - embedding) / MIB)
    yield row("text embedding", embedding / MIB, _NO_SWITCH)
    yield row("code predictor", predictor / MIB)
    yield row("codec decoder", decoder / MIB)
    yield row(
        f"KV cache, {KV_POSITIONS} positions",
        (kv_bytes(talker, "talker", KV_POSITIONS) + kv_bytes(talker, "code_pred", 16)) / MIB,
        f"F32, fixed: {_NO_SWITCH}",
    )
    if section.voice:
        encoders = talker.weight_bytes(lambda name: name.startswith("spk_enc."))
        encoders += codec.weight_bytes(lambda name: name.startswith("tok_enc."))
        yield row("voice encoders", encoders / MIB, "only where a voice is made at start")
    yield row("compute buffers", COMPUTE_MIB, "measured on a CPU")
    vram = CUDA_CONTEXT_MIB if section.gpu else 0.0
    yield Row("tts", "process", vram, PROCESS_MIB, "assumed")


def plan_folder(folder: Path, section: TtsSection) -> Iterator[Row]:
    """The rows for engines that take a folder of models: by the sizes of its files."""
    folder = folder.parent if folder.suffix == ".gguf" else folder
    size_mib = sum(path.stat().st_size for path in folder.glob("*.gguf")) / MIB
    if not size_mib:
        raise MissingFileError(f"tts.model = {folder}: no GGUF files in it; correct the path")
    gpu_mib, cpu_mib = (size_mib, 0.0) if section.gpu else (0.0, size_mib)
    note = "size of the files; what the engine adds to it is not known"
    yield Row("tts", "models", gpu_mib, cpu_mib, note)
    yield Row("tts", "process", CUDA_CONTEXT_MIB if section.gpu else 0.0, PROCESS_MIB, "assumed")


def plan_tone() -> Row:
    """The engine that needs no model."""
    return Row("tts", "process", 0.0, PROCESS_MIB, "assumed")


def decoder_bytes(codec: Gguf) -> int:
    """The codec's decoder as libqwen loads it: F16 transposed convolutions grow to F32."""
    own = codec.weight_bytes(lambda name: name.startswith("tok_dec."))
    grown = sum(
        tensor.size_bytes
        for tensor in codec.tensors
        if tensor.name.endswith(TRANSPOSED) and tensor.type_name == "F16"
    )
    return own + grown


def kv_bytes(talker: Gguf, part: str, positions: int) -> float:
    """K and V of one transformer in the talker's file."""
    heads = talker.whole(f"{part}.attention.head_count_kv")
    length = talker.whole(f"{part}.attention.key_length")
    layers = talker.whole(f"{part}.block_count")
    return 2 * heads * length * layers * positions * KV_VALUE_BYTES


def plan_cpu_voice(size_bytes: int) -> Row:
    """Piper on onnxruntime: the file, as much again for its buffers, and the process."""
    return Row("tts", "voice", 0.0, 2 * size_bytes / MIB + 150.0, "assumed")
