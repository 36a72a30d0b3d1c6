"""How the next token of a stream is chosen: llama.cpp's sampler chain, one per stream."""

from __future__ import annotations

from typing import Any


class Sampler:
    """Chooses tokens for one stream; owns llama.cpp's sampler chain.

    The usual cuts (40 likeliest, 95 % of the mass, at least 5 % of the best one's
    probability) keep small models from derailing; with ``penalised`` (the size of
    the vocabulary; 0: not) the last 64 tokens become a little less likely: below a billion
    parameters models fall into loops.
    """

    def __init__(
        self, lib: Any, context: Any, temperature: float, seed: int, *, penalised: int = 0
    ) -> None:
        self._lib = lib
        self._context = context
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        if temperature <= 0:
            self._add(lib.llama_sampler_init_greedy())
            return
        if penalised:
            self._add(lib.llama_sampler_init_penalties(penalised, 64, 1.1, 0.0, 0.0))
        self._add(lib.llama_sampler_init_top_k(40))
        self._add(lib.llama_sampler_init_top_p(0.95, 1))
        self._add(lib.llama_sampler_init_min_p(0.05, 1))
        self._add(lib.llama_sampler_init_temp(temperature))
        self._add(lib.llama_sampler_init_dist(seed & 0xFFFFFFFF))

    def _add(self, part: Any) -> None:
        self._lib.llama_sampler_chain_add(self._chain, part)

    def sample(self) -> int:
        """The next token, from the logits of the last evaluation."""
        return int(self._lib.llama_sampler_sample(self._chain, self._context, -1))

    def close(self) -> None:
        """Free the chain; may be called twice."""
        if self._chain is not None:
            self._lib.llama_sampler_free(self._chain)
            self._chain = None
