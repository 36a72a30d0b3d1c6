"""Heads of the models of the 8 GB laptop, for plans made before the files are there.

Dimensions are those of the published models; sizes are what libqwen's load logs say of them
(1.7B: talker 1,013 MiB at Q4_K_M, predictor 110; codec decoder 243 MiB at Q8_0) and what
llama.cpp keeps per layer. Together they meet the published sizes of the files within 2 %, which
a test holds against the catalogue.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from duet_trio.engines.gguf import TYPES, Gguf, Tensor
from duet_trio.models.paths import known_files

_KINDS = {name: (values, size) for name, values, size in TYPES.values()}
_MIB = 1024 * 1024
_VOCABULARY = 262_144


def published_head(path: Path) -> Gguf | None:
    """The head of a file of the catalogue that is not there yet; None if it is not known."""
    file = known_files(path).get("")
    makers = {"gemma-4-E4B": _gemma_4_e4b, "qwen-talker-1.7b": _talker, "qwen-tokenizer": _codec}
    for beginning, make in makers.items():
        if file is not None and path.name.startswith(beginning):
            return make(path, file.size)
    return None


class _Table:
    """Collects tensors that exist on paper only."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []

    def matrix(self, name: str, rows: int, columns: int, kind: str) -> None:
        values, size = _KINDS[kind]
        self.plain(name, math.prod((rows, columns)) // values * size, kind)

    def plain(self, name: str, size_bytes: int, kind: str = "") -> None:
        self.tensors.append(Tensor(name, (), kind, 0, size_bytes))

    @property
    def size_bytes(self) -> int:
        return sum(tensor.size_bytes for tensor in self.tensors)


def _head(path: Path, architecture: str, table: _Table, size: int, keys: dict[str, Any]) -> Gguf:
    metadata = {f"{architecture}.{key}": value for key, value in keys.items()}
    metadata["general.architecture"] = architecture
    return Gguf(path, metadata, tuple(table.tensors), size, "")


def _gemma_4_e4b(path: Path, size: int) -> Gguf:
    """42 layers, every sixth full, the last 18 without K and V of their own."""
    hidden, feed, layers, shared, per_layer = 2560, 10_240, 42, 18, 256
    table = _Table()
    table.matrix("token_embd.weight", _VOCABULARY, hidden, "Q6_K")
    table.matrix("per_layer_token_embd.weight", _VOCABULARY, per_layer * layers, "Q6_K")
    for layer in range(layers):
        head = 512 if (layer + 1) % 6 == 0 else 256
        name = f"blk.{layer}"
        table.matrix(f"{name}.attn_q.weight", 8 * head, hidden, "Q4_0")
        table.matrix(f"{name}.attn_output.weight", hidden, 8 * head, "Q4_0")
        if layer < layers - shared:
            table.matrix(f"{name}.attn_k.weight", 2 * head, hidden, "Q4_0")
            table.matrix(f"{name}.attn_v.weight", 2 * head, hidden, "Q4_0")
        for part in ("ffn_gate", "ffn_up", "ffn_down"):
            table.matrix(f"{name}.{part}.weight", feed, hidden, "Q4_0")
        table.matrix(f"{name}.inp_gate.weight", per_layer, hidden, "Q4_0")
        table.matrix(f"{name}.proj.weight", hidden, per_layer, "Q4_0")
    keys = {
        "block_count": layers,
        "context_length": 131_072,
        "embedding_length": hidden,
        "feed_forward_length": feed,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 512,
        "attention.sliding_window_pattern": [(n + 1) % 6 != 0 for n in range(layers)],
        "attention.shared_kv_layers": shared,
        "vocab_size": _VOCABULARY,
    }
    return _head(path, "gemma4", table, size, keys)


def _talker(path: Path, size: int) -> Gguf:
    """28 layers, predictor of 5, both with 8 KV heads of 128; the text table is part of it."""
    table = _Table()
    table.matrix("talker.text_embd.weight", 151_936, 2048, "Q4_K")
    table.plain("talker.layers", 1013 * _MIB - table.size_bytes)
    table.plain("code_pred.layers", 110 * _MIB)
    table.plain("spk_enc.layers", max(0, size - table.size_bytes))
    keys: dict[str, Any] = {}
    for part, layers in (("talker", 28), ("code_pred", 5)):
        keys[f"{part}.block_count"] = layers
        keys[f"{part}.attention.head_count_kv"] = 8
        keys[f"{part}.attention.key_length"] = 128
    return _head(path, "qwen3-tts", table, size, keys)


def _codec(path: Path, size: int) -> Gguf:
    table = _Table()
    # 51 MiB of it are F16 in the file and F32 in memory.
    table.matrix("tok_dec.dec.1.conv_t.weight", 51 * 1024, 512, "F16")
    table.plain("tok_dec.layers", (243 - 2 * 51) * _MIB)
    table.plain("tok_enc.layers", max(0, size - table.size_bytes))
    return _head(path, "qwen3-tts-tokenizer", table, size, {})
