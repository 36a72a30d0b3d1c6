"""Sizes of the tiny Qwen3-TTS pair, and a maker of random tensors under one architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from duet_trio.lab.gguf_writer import GgufWriter

Floats = npt.NDArray[np.float32]

# Sizes that the engine leaves free.
CODES = 64  # entries per codebook (real: 2048)
HIDDEN = 32  # talker width, and length of an embedding (real: 1024 or 2048)
HEADS, KV_HEADS, HEAD = 2, 1, 16
FEED = 32
TEXT_HIDDEN = 32
PREDICTOR_HIDDEN = 16  # differs from HIDDEN, so the projection between them is used
# Sizes that are fixed in libqwen.
CODEBOOKS = 16  # 1 semantic, 15 acoustic
RESERVED = 1024  # the sampler masks these top rows except the end token
VOCABULARY = CODES + RESERVED
LATENT = 1024  # width of the codec decoder's entry
QUANTISER_HIDDEN = 512
DAC = (1536, 768, 384, 192, 96)
STRIDES = (8, 5, 4, 3)
MELS = 128


class Maker:
    """Puts tensors and keys under one architecture."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.file = GgufWriter(architecture)
        self.random = np.random.default_rng(seed)

    def whole(self, prefix: str = "", **values: int) -> None:
        """Whole numbers under ``<architecture>.<prefix>``; ``__`` in a key stands for a dot."""
        for key, value in values.items():
            self.file.u32(self._key(prefix, key), value)

    def real(self, prefix: str = "", **values: float) -> None:
        """Floats, likewise."""
        for key, value in values.items():
            self.file.f32(self._key(prefix, key), value)

    def normal(self, *shape: int, scale: float = 1.0) -> Floats:
        """Random values of that standard deviation."""
        return self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def put(self, name: str, values: npt.ArrayLike, kind: Any = np.float32) -> None:
        """A tensor with these values."""
        self.file.tensor(name, np.asarray(values, dtype=kind))

    def weight(self, name: str, *shape: int, gain: float = 1.0) -> None:
        """``name.weight`` with random values that keep the variance."""
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        self.put(f"{name}.weight", self.normal(*shape, scale=gain / fan_in**0.5))

    def ones(self, *names: str, n: int) -> None:
        """Vectors of ones."""
        for name in names:
            self.put(name, np.ones(n))

    def zeros(self, name: str, *shape: int) -> None:
        """A tensor of zeros."""
        self.put(name, np.zeros(shape))

    def layer(self, name: str, *shape: int, gain: float = 1.0) -> None:
        """Weight and a zero bias; the first dimension is the output."""
        self.weight(name, *shape, gain=gain)
        self.zeros(f"{name}.bias", shape[0])

    def snake(self, name: str, n: int) -> None:
        """The two parameters of a snake activation."""
        self.zeros(f"{name}.alpha", n)
        self.ones(f"{name}.beta", n=n)

    def _key(self, prefix: str, key: str) -> str:
        return f"{self.file.architecture}.{prefix}{key.replace('__', '.')}"
