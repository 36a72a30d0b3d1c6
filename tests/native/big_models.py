"""Heads of the models of the 8 GB laptop, from their published dimensions, with no weights."""

from __future__ import annotations

import math
from pathlib import Path

from duet_trio.engines.gguf import TYPES
from duet_trio.lab.gguf_writer import GgufWriter

KINDS = {name: kind for kind, (name, _, _) in TYPES.items()}
VOCABULARY = 262_144


class Ghost(GgufWriter):
    """Adds tensors by (rows, columns) and the name of their type."""

    def matrix(self, name: str, rows: int, columns: int, kind: str) -> None:
        _, values, size = TYPES[KINDS[kind]]
        self.ghost(name, (columns, rows), KINDS[kind], math.prod((rows, columns)) // values * size)


def gemma_4_e4b(path: Path) -> Path:
    """42 layers, every sixth full, the last 18 without K and V of their own; q4_0, tables Q6_K."""
    file = Ghost("gemma4")
    hidden, feed, layers, shared, per_layer = 2560, 10_240, 42, 18, 256
    sizes = {
        "block_count": layers,
        "embedding_length": hidden,
        "feed_forward_length": feed,
        "embedding_length_per_layer_input": per_layer,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 512,
        "attention.shared_kv_layers": shared,
        "vocab_size": VOCABULARY,
    }
    for key, value in sizes.items():
        file.u32(f"gemma4.{key}", value)
    file.flags("gemma4.attention.sliding_window_pattern", [(n + 1) % 6 != 0 for n in range(layers)])
    file.matrix("token_embd.weight", VOCABULARY, hidden, "Q6_K")
    file.matrix("per_layer_token_embd.weight", VOCABULARY, per_layer * layers, "Q6_K")
    for layer in range(layers):
        head = 256 if (layer + 1) % 6 else 512
        name = f"blk.{layer}"
        file.matrix(f"{name}.attn_q.weight", 8 * head, hidden, "Q4_0")
        file.matrix(f"{name}.attn_output.weight", hidden, 8 * head, "Q4_0")
        if layer < layers - shared:
            file.matrix(f"{name}.attn_k.weight", 2 * head, hidden, "Q4_0")
            file.matrix(f"{name}.attn_v.weight", 2 * head, hidden, "Q4_0")
        for part in ("ffn_gate", "ffn_up"):
            file.matrix(f"{name}.{part}.weight", feed, hidden, "Q4_0")
        file.matrix(f"{name}.ffn_down.weight", hidden, feed, "Q4_0")
        file.matrix(f"{name}.inp_gate.weight", per_layer, hidden, "Q4_0")
        file.matrix(f"{name}.proj.weight", hidden, per_layer, "Q4_0")
    file.write_head(path)
    return path


def qwen_talker_17b(path: Path, kind: str = "Q8_0") -> Path:
    """28 layers of 2048, 16/8 heads of 128; predictor 5 layers of 1024; text table 151936."""
    file = Ghost("qwen3-tts")
    parts = {"talker": (28, 2048, 6144), "code_pred": (5, 1024, 3072)}
    for part, (layers, hidden, feed) in parts.items():
        file.u32(f"qwen3-tts.{part}.block_count", layers)
        file.u32(f"qwen3-tts.{part}.embedding_length", hidden)
        file.u32(f"qwen3-tts.{part}.attention.head_count_kv", 8)
        file.u32(f"qwen3-tts.{part}.attention.key_length", 128)
        for layer in range(layers):
            name = f"{part}.blk.{layer}"
            file.matrix(f"{name}.attn_q.weight", 2048, hidden, kind)
            file.matrix(f"{name}.attn_k.weight", 1024, hidden, kind)
            file.matrix(f"{name}.attn_v.weight", 1024, hidden, kind)
            file.matrix(f"{name}.attn_output.weight", hidden, 2048, kind)
            for ffn in ("ffn_gate", "ffn_up"):
                file.matrix(f"{name}.{ffn}.weight", feed, hidden, kind)
            file.matrix(f"{name}.ffn_down.weight", hidden, feed, kind)
    file.matrix("talker.text_embd.weight", 151_936, 2048, kind)
    file.matrix("talker.codec_embd.weight", 3072, 2048, kind)
    file.matrix("talker.codec_head.weight", 3072, 2048, kind)
    file.matrix("talker.text_proj.fc1.weight", 2048, 2048, kind)
    file.matrix("talker.text_proj.fc2.weight", 2048, 2048, kind)
    for book in range(15):
        file.matrix(f"code_pred.codec_embd.{book}.weight", 2048, 2048, kind)
        file.matrix(f"code_pred.lm_head.{book}.weight", 2048, 1024, kind)
    file.matrix("spk_enc.fc.weight", 2048, 4500, "F32")
    file.write_head(path)
    return path


def qwen_codec(path: Path) -> Path:
    """The decoder's 220 MiB and the encoder's 86 as one tensor each."""
    file = Ghost("qwen3-tts-tokenizer")
    file.matrix("tok_dec.all.weight", 220, 1024 * 1024 // 4, "F32")
    file.matrix("tok_enc.all.weight", 86, 1024 * 1024 // 4, "F32")
    file.write_head(path)
    return path
