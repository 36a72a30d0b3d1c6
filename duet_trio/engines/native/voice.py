"""The binding: one native engine, typed (see ``native/duet_voice.h`` for the rules).

Import this in a worker process only: the engine's library is loaded into this process, may
abort it, and clashes with llama.cpp's copy of the same libraries.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from duet_trio.engines.native.cstructs import Keeper, check, fill, struct, text
from duet_trio.engines.native.interface import ffi, lib
from duet_trio.engines.native.types import (
    Can,
    Floats,
    Info,
    Options,
    RefusedError,
    Request,
    Stats,
    Voice,
)
from duet_trio.errors import EngineFailedError, MissingLibraryError

_ERROR_BYTES = 8192  # the longest path, and what is wrong with it


OnBlock = Callable[[Floats], bool]


class _Listener:
    """Carries blocks, and the first exception of ``on_block``, across the C call."""

    def __init__(self, on_block: OnBlock) -> None:
        self._on_block = on_block
        self.error: BaseException | None = None

    def take(self, pcm: Any, samples: int) -> int:
        block = np.frombuffer(ffi.buffer(pcm, samples * 4), dtype=np.float32)
        return int(self._on_block(block))

    def failed(self, error: BaseException | None) -> None:
        self.error = self.error or error


def _on_block_failed(kind: Any, error: Any, trace: Any) -> None:
    """Keep the exception for `NativeVoice.speak`; the 0 that C gets stops the engine.

    The first frame of the trace is `_on_block`'s: cffi's documented way to its arguments.
    """
    ffi.from_handle(trace.tb_frame.f_locals["user"]).failed(error)


@ffi.def_extern(name="duet_on_block", error=0, onerror=_on_block_failed)  # type: ignore[untyped-decorator]
def _on_block(pcm: Any, samples: int, user: Any) -> int:
    listener: _Listener = ffi.from_handle(user)
    return listener.take(pcm, samples)


class NativeVoice:
    """An open engine. One call at a time; `cancel` from any thread while it is open."""

    def __init__(self, options: Options) -> None:
        """Load the library and the model (seconds).

        Raises `MissingLibraryError` (library, symbol, version), `MissingFileError` (model files)
        or `RefusedError` (bad options).
        """
        given, keep = struct("dv_options")
        given.engine = keep.text(options.engine)
        for key in ("library", "model", "codec"):
            setattr(given, key, keep.path(getattr(options, key)))
        fill(given, options, "threads", "gpu", "embedding_length", "codebook_size")
        out = ffi.new("dv_engine **")
        error = ffi.new("char[]", _ERROR_BYTES)
        check(lib.dv_open(given, out, error, _ERROR_BYTES), error)
        self._engine: Any = out[0]
        self._inside = 0  # calls that are in the engine
        self._lock = threading.RLock()  # of these two; held for a moment only
        self._job = 0
        self.info = self._read_info()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Give the model back. Raises `EngineFailedError` while a job runs; safe to repeat."""
        with self._lock:
            if self._inside:
                raise EngineFailedError("the engine is busy; cancel its job and wait for it first")
            engine, self._engine = self._engine, None
        if engine is not None:
            error = ffi.new("char[]", _ERROR_BYTES)
            check(lib.dv_close(engine, error, _ERROR_BYTES), error)

    def next_job(self) -> int:
        """The number of the job that the next `speak` will be; name it to `cancel`."""
        self._job += 1
        return self._job

    def speak(self, request: Request, on_block: OnBlock, *, job: int = 0) -> Stats:
        """Speak, blocking; ``on_block`` gets float32 mono blocks and returns whether to go on.

        A block is the engine's own memory, valid only within the call: copy what you keep.
        An exception in ``on_block`` stops the engine and is raised here. Raises `RefusedError`
        for what an engine must not see, `EngineFailedError` for what the engine reports. A cap,
        a deadline and a cancel are no errors: see `Stats.status`.
        """
        given, keep = struct("dv_request")
        given.job = job or self.next_job()
        given.text = keep.text(request.text, empty_is_null=False)
        for key in ("language", "speaker", "style"):
            setattr(given, key, keep.text(getattr(request, key)))
        fill(
            given, request,
            "seed", "max_frames", "deadline_ms", "greedy", "temperature", "top_p", "top_k",
            "repetition_penalty", "quiet_start_ban",
        )  # fmt: skip
        if request.voice is not None:
            self._give_voice(given, keep, request.voice)
        listener = _Listener(on_block)
        handle = ffi.new_handle(listener)
        given.on_block = lib.duet_on_block
        given.user = handle
        stats, _ = struct("dv_stats")
        error = ffi.new("char[]", _ERROR_BYTES)
        with self._open() as engine:
            code = lib.dv_speak(engine, given, stats, error, _ERROR_BYTES)
        if listener.error is not None:
            raise listener.error
        status = check(code, error)
        return Stats(status, stats.blocks, stats.samples, stats.first_ms, stats.total_ms)

    def cancel(self, job: int) -> None:
        """Ask that job to stop: an atomic flag, any thread, never blocks."""
        with self._lock:  # else another thread's `close` could free it in between
            if self._engine is not None:
                lib.dv_cancel(self._engine, job)

    def make_voice(
        self, pcm: Floats, *, transcript: str = "", wav_path: str = "", out_path: str = ""
    ) -> Voice:
        """Make a voice of ``pcm`` (24 kHz mono); with a transcript one for ICL.

        Engines that read files take ``wav_path``, and those with voices in files write
        ``out_path``. Raises `RefusedError` or `EngineFailedError`.
        """
        given, keep = struct("dv_reference")
        given.pcm, given.samples = keep.array("float", np.asarray(pcm, np.float32)), len(pcm)
        given.transcript = keep.text(transcript)
        given.wav_path = keep.path(wav_path)
        given.out_path = keep.path(out_path)
        made, _ = struct("dv_voice")
        error = ffi.new("char[]", _ERROR_BYTES)
        with self._open() as engine:
            check(lib.dv_make_voice(engine, given, made, error, _ERROR_BYTES), error)
        try:
            return self._take_voice(made, transcript, out_path)
        finally:
            lib.dv_free_voice(made)

    def _take_voice(self, made: Any, transcript: str, out_path: str) -> Voice:
        if Can.VOICE_IN_FILE in self.info.can:
            return Voice(transcript=transcript, file=out_path)
        length = made.embedding_length * 4
        embedding = np.frombuffer(ffi.buffer(made.embedding, length), np.float32).copy()
        if not transcript:
            return Voice(embedding=embedding)
        shape = (made.codebooks, made.code_frames)
        codes = np.frombuffer(ffi.buffer(made.codes, shape[0] * shape[1] * 4), np.int32)
        return Voice(embedding, codes.reshape(shape).copy(), transcript)

    def _give_voice(self, given: Any, keep: Keeper, voice: Voice) -> None:
        given.voice_file = keep.path(voice.file)
        given.transcript = keep.text(voice.transcript)
        if voice.embedding is not None:
            given.embedding = keep.array("float", np.asarray(voice.embedding, np.float32))
            given.embedding_length = voice.embedding.size
        if voice.codes is not None:
            if voice.codes.ndim != 2 or voice.codes.shape[0] != self.info.codebooks:
                raise RefusedError(f"codes must be [{self.info.codebooks}, frames]")
            given.codes = keep.array("int32_t", np.asarray(voice.codes, np.int32))
            given.code_frames = voice.codes.shape[1]

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The engine, which nobody closes meanwhile."""
        with self._lock:
            if self._engine is None:
                raise RefusedError("the engine is closed")
            self._inside += 1
            engine = self._engine
        try:
            yield engine
        finally:
            with self._lock:
                self._inside -= 1

    def _read_info(self) -> Info:
        raw, _ = struct("dv_info")
        check(lib.dv_get_info(self._engine, raw), ffi.new("char[]", 1))
        return Info(
            engine=text(raw.engine),
            version=text(raw.version),
            rate_hz=raw.rate_hz,
            frame_samples=raw.frame_samples,
            codebooks=raw.codebooks,
            embedding_length=raw.embedding_length,
            step_frames=raw.step_frames,
            can=Can(raw.can),
        )


if sys.byteorder != "little":  # pragma: no cover - no such machine has been tried
    raise MissingLibraryError("the native voice supports little-endian machines only")
