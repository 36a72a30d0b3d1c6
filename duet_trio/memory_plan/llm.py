"""What llama.cpp takes for a model, from the head of its GGUF.

Checked against llama.cpp's own load logs: KV sizes are exact (Gemma 4 E4B, 3,072 cells of its
20 sliding layers: 120 MiB; SmolLM2 here, in the tests), compute buffers are an estimate that
met 1,278 MiB for Gemma 4 E4B with 1,024 tokens a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from duet_trio.config import LlmSection
from duet_trio.engines.gguf import Gguf, SkippedArray
from duet_trio.errors import MissingFileError
from duet_trio.memory_plan.rows import MIB, Row

#: Tokens per evaluation: the adapter's ``CHUNK_TOKENS``.
BATCH_TOKENS = 256
KV_VALUE_BYTES = 2  # F16, llama.cpp's default
CUDA_CONTEXT_MIB = 350.0
PROCESS_MIB = 205.0  # the worker with llama.cpp loaded and no model
_CELL_STEP = 256
#: Layers that slide, where a file has a window but no list: every n-th does not.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3n": 5}


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps per position, in values (K and V together); 0: it shares another's."""

    kv_values: int
    sliding: bool


def plan_llm(head: Gguf, section: LlmSection) -> Iterator[Row]:
    """The rows of the language model's worker."""
    layers = layers_of(head)
    on_gpu = section.gpu_layers < 0 or section.gpu_layers > len(layers)
    offloaded = len(layers) if on_gpu else section.gpu_layers
    first_gpu = len(layers) - offloaded
    weights = _Weights(head, first_gpu, output_on_gpu=on_gpu)
    yield Row("llm", f"{offloaded} of {len(layers)} layers", weights.gpu, weights.cpu_layers)
    yield Row(
        "llm",
        "token tables",
        weights.output_gpu,
        weights.tables_cpu,
        "input side stays in RAM" if weights.output_gpu else "",
    )
    full, sliding = _cells(head, section)
    gpu_kv = _kv_mib(layers[first_gpu:], full, sliding) * section.sequences
    cpu_kv = _kv_mib(layers[:first_gpu], full, sliding) * section.sequences
    window = f", {sliding} in sliding layers" if any(layer.sliding for layer in layers) else ""
    yield Row(
        "llm", f"KV cache, {section.sequences} x {full} positions{window}", gpu_kv, cpu_kv, "F16"
    )
    compute = _compute_mib(head)
    host = compute / 2 if offloaded else compute
    yield Row("llm", "compute buffers", compute if offloaded else 0.0, host, "estimate")
    yield Row("llm", "process", CUDA_CONTEXT_MIB if offloaded else 0.0, PROCESS_MIB, "assumed")


def layers_of(head: Gguf) -> list[Layer]:
    """Each layer's share of the KV cache. Raises `MissingFileError` for what has no such layers."""
    count = head.whole("block_count")
    # Every layer has several tensors: a larger count is damage, and would be planned for ever.
    if not 0 < count <= len(head.tensors):
        raise MissingFileError(
            f"llm.model = {head.path}: {count} layers in {len(head.tensors)} tensors; "
            "no language model, or damaged: take another file"
        )
    heads = _per_layer(head, "attention.head_count_kv", count, head.whole("attention.head_count"))
    width = head.whole("embedding_length") // max(1, head.whole("attention.head_count", 1))
    key = head.whole("attention.key_length", width)
    value = head.whole("attention.value_length", width)
    key_sliding = head.whole("attention.key_length_swa", key)
    value_sliding = head.whole("attention.value_length_swa", value)
    own = count - head.whole("attention.shared_kv_layers")
    layers = []
    for index, sliding in enumerate(_sliding(head, count)):
        size = key_sliding + value_sliding if sliding else key + value
        layers.append(Layer(heads[index] * size if index < own else 0, sliding))
    return layers


def _sliding(head: Gguf, count: int) -> list[bool]:
    if not head.whole("attention.sliding_window"):
        return [False] * count
    pattern = head.metadata.get(f"{head.architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, list) and len(pattern) == count:
        return [bool(item) for item in pattern]
    every = pattern if isinstance(pattern, int) else _FULL_EVERY.get(head.architecture, 1)
    return [bool(every > 1 and (index + 1) % every) for index in range(count)]


def _per_layer(head: Gguf, key: str, count: int, default: int) -> list[int]:
    value = head.metadata.get(f"{head.architecture}.{key}", default)
    if isinstance(value, list) and len(value) == count:
        return [item if isinstance(item, int) else default for item in value]
    return [value if isinstance(value, int) else default] * count


def _cells(head: Gguf, section: LlmSection) -> tuple[int, int]:
    """Positions per sequence: in full layers, and in sliding ones."""
    # The adapter asks for no more than the model was trained for.
    context = min(section.context, head.whole("context_length") or section.context)
    full = -(-context // _CELL_STEP) * _CELL_STEP
    window = head.whole("attention.sliding_window")
    if not window or section.swa_full:
        return full, full
    padded = -(-(window + BATCH_TOKENS) // _CELL_STEP) * _CELL_STEP
    return full, min(full, padded)


def kv_mib(head: Gguf, section: LlmSection) -> float:
    """The whole KV cache, wherever it lies."""
    return _kv_mib(layers_of(head), *_cells(head, section)) * section.sequences


def _kv_mib(layers: list[Layer], full: int, sliding: int) -> float:
    values = sum(layer.kv_values * (sliding if layer.sliding else full) for layer in layers)
    return values * KV_VALUE_BYTES / MIB


def _compute_mib(head: Gguf) -> float:
    """Logits of a whole batch, and the widest activations (see the module's text)."""
    tokens = head.metadata.get("tokenizer.ggml.tokens")
    known = tokens.length if isinstance(tokens, SkippedArray) else 0
    known = len(tokens) if isinstance(tokens, list) else known
    vocabulary = head.whole("vocab_size", known)
    wide = 2 * head.whole("feed_forward_length") + 16 * head.whole("embedding_length")
    return BATCH_TOKENS * (vocabulary + wide) * 4 / MIB


class _Weights:
    """Which tensors lie where, as llama.cpp's loader decides it."""

    def __init__(self, head: Gguf, first_gpu: int, *, output_on_gpu: bool) -> None:
        self.gpu = self.cpu_layers = self.tables_cpu = self.output_gpu = 0.0
        tied = not any(tensor.name == "output.weight" for tensor in head.tensors)
        for tensor in head.tensors:
            size = tensor.size_bytes / MIB
            part = tensor.name.split(".")
            if part[0] == "blk" and len(part) > 1 and part[1].isdecimal():
                if int(part[1]) >= first_gpu:
                    self.gpu += size
                else:
                    self.cpu_layers += size
                continue
            is_input = part[0] in ("token_embd", "per_layer_token_embd")
            # With a tied head the token table lies in both places.
            is_output = not is_input or (part[0] == "token_embd" and tied)
            if output_on_gpu and is_output:
                self.output_gpu += size
            if is_input or not output_on_gpu:
                self.tables_cpu += size
