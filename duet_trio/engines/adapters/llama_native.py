"""llama.cpp as this project uses it: one model, several sequences, one thread, a stop switch.

Built on llama-cpp-python's low-level bindings: its high-level ``Llama`` knows one sequence
only, and two generations that alternate on it continue each other's text.

Each sequence has its own part of the KV memory (``kv_unified`` off): attention then never
walks over another answer's cells, so what one answer computes does not depend on the others.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from duet_trio.engines import gguf
from duet_trio.engines.adapters.llama_sampler import Sampler
from duet_trio.errors import EngineFailedError, MissingLibraryError
from duet_trio.models.paths import damaged

#: Tokens that one call evaluates at most; a prompt is evaluated in chunks of this size.
CHUNK_TOKENS = 256
_SMALL_PARAMETERS = 1_000_000_000
_ABORTED = 2  # llama_decode's word for "the abort callback said so"
_ATTR_CONTROL = 1 << 3
_ATTR_USER_DEFINED = 1 << 4
WHAT = "language model"


class StoppedError(Exception):
    """The stop switch was thrown during an evaluation."""


def library() -> Any:
    """The bindings, silent; `MissingLibraryError` when they are not installed."""
    try:
        from llama_cpp import llama_cpp
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingLibraryError(
            f"llm.engine = llama: llama-cpp-python cannot be used ({error}); run: make install"
        ) from None
    llama_cpp.llama_log_set(_silence(), ctypes.c_void_p(0))
    return llama_cpp


@cache
def _silence() -> Any:
    """A log callback that drops everything; kept for ever, since llama.cpp keeps the pointer."""
    from llama_cpp import llama_cpp

    return llama_cpp.llama_log_callback(lambda level, text, data: None)


class StopSwitch:
    """A flag that llama.cpp looks at before each node of its graph, without a Python call.

    The abort callback is libc's ``strlen`` on two bytes of ours: 0 while the first is NUL, 1
    when it is not. A Python callback would have to take the GIL hundreds of times per token.
    """

    def __init__(self, lib: Any) -> None:
        self._byte = ctypes.create_string_buffer(2)
        libc = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.cdll.msvcrt
        self.callback = ctypes.cast(libc.strlen, lib.ggml_abort_callback)
        self.data = ctypes.cast(self._byte, ctypes.c_void_p)

    def throw(self) -> None:
        """Stop the evaluation that runs (any thread)."""
        self._byte[0] = b"\x01"

    def reset(self) -> None:
        """Allow evaluations again."""
        self._byte[0] = b"\x00"


class LlamaRuntime:
    """A loaded model with a context of ``sequences`` × ``context`` tokens.

    Not thread-safe, except ``switch.throw``. Raises `MissingFileError` for a file that
    llama.cpp does not accept.
    """

    def __init__(
        self,
        path: Path,
        *,
        context: int,
        sequences: int,
        threads: int,
        gpu_layers: int,
        swa_full: bool,
    ) -> None:
        self._lib = lib = library()
        self._model = self._context = self._batch = None
        lib.llama_backend_init()
        self.switch = StopSwitch(lib)
        model_params = lib.llama_model_default_params()
        model_params.n_gpu_layers = gpu_layers
        self._model = lib.llama_model_load_from_file(str(path).encode(), model_params)
        if not self._model:
            gguf.read(path, "llm.model")  # says in one line what is wrong with the file
            raise damaged(path, WHAT, "this llama.cpp does not know its kind")
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.trained_context = int(lib.llama_model_n_ctx_train(self._model))
        self.context = min(context, self.trained_context)
        self.sequences = sequences
        params = lib.llama_context_default_params()
        params.n_ctx = self.context * sequences
        params.n_seq_max = sequences
        params.n_batch = params.n_ubatch = CHUNK_TOKENS
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.swa_full = swa_full
        params.abort_callback = self.switch.callback
        params.abort_callback_data = self.switch.data
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            self.close()
            raise EngineFailedError(
                f"llm: no memory for a context of {sequences} × {self.context} tokens; "
                "lower llm.context or llm.sequences",
                engine="llm",
            )
        self._memory = lib.llama_get_memory(self._context)
        self._batch = lib.llama_batch_init(CHUNK_TOKENS, 0, 1)
        #: Width of the sliding window, 0 when the whole past is kept.
        self.window = 0 if swa_full else int(lib.llama_model_n_swa(self._model))

    def close(self) -> None:
        """Free everything; the object is of no use afterwards."""
        if self._batch is not None:
            self._lib.llama_batch_free(self._batch)
        if self._context:
            self._lib.llama_free(self._context)
        if self._model:
            self._lib.llama_model_free(self._model)
        self._model = self._context = self._batch = None

    # --- vocabulary ---------------------------------------------------------------------

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of ``text``; with ``special`` control tokens in it are recognised."""
        data = text.encode()
        room = len(data) + 8
        tokens = (self._lib.llama_token * room)()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), tokens, room, False, special)
        if count < 0:
            raise EngineFailedError("llm: the prompt cannot be tokenised", engine="llm")
        return list(tokens[:count])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; control tokens have none unless ``special``."""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            length = int(
                self._lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            )
            if length >= 0:
                return buffer.raw[:length]
            room = -length

    def is_end(self, token: int) -> bool:
        """Does this token end the model's text?"""
        return bool(self._lib.llama_vocab_is_eog(self._vocab, token))

    def special_tokens(self) -> dict[int, str]:
        """Tokens that are marks, not language: control and user-defined ones, with their texts."""
        found = {}
        for token in range(int(self._lib.llama_vocab_n_tokens(self._vocab))):
            attributes = int(self._lib.llama_vocab_get_attr(self._vocab, token))
            if attributes & (_ATTR_CONTROL | _ATTR_USER_DEFINED):
                text = self.piece(token, special=True).decode(errors="replace")
                if text.strip():
                    found[token] = text
        return found

    def boundary_tokens(self) -> tuple[str, str, bool]:
        """Texts of the begin and end tokens, and whether prompts must begin with the first."""
        bos, eos = (
            int(self._lib.llama_vocab_bos(self._vocab)),
            int(self._lib.llama_vocab_eos(self._vocab)),
        )
        add = bool(self._lib.llama_vocab_get_add_bos(self._vocab)) and bos >= 0
        texts = [
            self.piece(token, special=True).decode(errors="replace") if token >= 0 else ""
            for token in (bos, eos)
        ]
        return texts[0], texts[1], add

    def chat_template(self) -> str:
        """The Jinja template that the model file carries; empty when it has none."""
        template = self._lib.llama_model_chat_template(self._model, None)
        return template.decode(errors="replace") if template else ""

    def description(self) -> str:
        """Architecture, size and quantisation in llama.cpp's words."""
        buffer = ctypes.create_string_buffer(256)
        self._lib.llama_model_desc(self._model, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    # --- sequences ----------------------------------------------------------------------

    def truncate(self, sequence: int, keep: int) -> int:
        """Forget all but the first ``keep`` tokens of a sequence; how many are really kept.

        Less (0) where the model cannot roll back: recurrent ones, and sliding windows that
        have already dropped what lies before ``keep``.
        """
        lib = self._lib
        lost = self.window > 0 and int(lib.llama_memory_seq_pos_min(self._memory, sequence)) > max(
            0, keep - self.window
        )
        if not lost and lib.llama_memory_seq_rm(self._memory, sequence, keep, -1):
            return keep
        lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return 0

    def evaluate(self, sequence: int, tokens: Sequence[int], position: int) -> None:
        """Evaluate at most `CHUNK_TOKENS` tokens that follow ``position`` others.

        Afterwards the last one's logits can be sampled. Raises `StoppedError` when the switch
        was thrown, `EngineFailedError` when llama.cpp fails; the sequence's memory beyond
        ``position`` is then undefined: truncate it.
        """
        batch = self._batch
        assert batch is not None
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = position + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = index == len(tokens) - 1
        code = int(self._lib.llama_decode(self._context, batch))
        if code == _ABORTED:
            raise StoppedError
        if code != 0:
            raise EngineFailedError(f"llm: llama_decode failed with code {code}", engine="llm")

    def sampler(self, temperature: float, seed: int) -> Sampler:
        """A sampler of one stream; at temperature 0 the likeliest token is taken."""
        small = int(self._lib.llama_model_n_params(self._model)) < _SMALL_PARAMETERS
        vocabulary = int(self._lib.llama_vocab_n_tokens(self._vocab)) if small else 0
        return Sampler(self._lib, self._context, temperature, seed, penalised=vocabulary)
