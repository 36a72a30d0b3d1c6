"""The language between the main process and an engine's worker: framed msgpack messages.

Each message is four bytes of length (big-endian) and a msgpack array that starts with the
message's tag. Sans-IO: bytes in, messages out; the same code runs at both ends, over a real
pipe and over a memory stream on a mock clock.

A worker answers every job with exactly one of `DoneTranscribe` / `DoneWrite` / `DoneSpeak`,
`Failed` or `Cancelled`; that is its word that it is idle again for that job. Job ids are
unique within one worker's life and grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from duet_trio.engines.contracts import Inject, Message, Spoken, Transcript, Written
from duet_trio.errors import EngineCrashedError

#: The longest body of a message. 8 MiB are 4 minutes of 16 kHz speech, the largest thing sent.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
HEADER_BYTES = 4


class Wire(Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages; the tag is the class's name."""


# --- to the worker ---------------------------------------------------------------------------


class Load(Wire, frozen=True):
    """Load the engine: its config section as builtins (always the first message)."""

    settings: dict[str, Any]


class TranscribeJob(Wire, frozen=True):
    """Recognise one utterance; ``pcm`` is 16 kHz s16le mono."""

    id: int
    pcm: bytes
    language: str = ""
    inject: Inject | None = None


class WriteJob(Wire, frozen=True):
    """Go on writing in ``stream`` (unique within the main process), at most ``max_tokens``.

    ``messages`` is given with a stream's first step, and again whenever the worker cannot know
    the stream (it is a fresh process, or said that the sequence was lost); then the model goes
    on after the prompt followed by ``written``, the answer's text so far.
    """

    id: int
    stream: int
    max_tokens: int
    messages: list[Message] | None = None
    written: str = ""
    inject: Inject | None = None


class SpeakJob(Wire, frozen=True):
    """Speak one piece; the worker (not the engine) cuts its audio at ``cap_s``."""

    id: int
    text: str
    generation: int
    piece: int
    cap_s: float
    voice: str = ""
    seed: int = 0
    inject: Inject | None = None


class Cancel(Wire, frozen=True):
    """Stop that job as soon as you can. An id that is over or unknown is ignored."""

    id: int


class Pause(Wire, frozen=True):
    """End that writing step as soon as you can, keeping the stream; no text may be lost."""

    id: int


class CloseStream(Wire, frozen=True):
    """That answer is over: its sequence may go. An unknown stream is ignored."""

    stream: int


# --- from the worker -------------------------------------------------------------------------


class Ready(Wire, frozen=True):
    """The engine is loaded. ``slots``: jobs that may run at once.

    ``longest_step_ms``: how long a cancel may take at worst; ``info``: model, version, device;
    ``control_tokens``: texts of the template that must never be spoken (LLM).
    """

    slots: int = 1
    longest_step_ms: float = 0.0
    info: dict[str, str] = {}
    control_tokens: list[str] = []


class LoadFailed(Wire, frozen=True):
    """It cannot be loaded. ``usage``: only the user can mend it, trying again is of no use.

    ``usage`` is "" (try again), "file", "library" or "config"; ``missing_file`` is its path.
    """

    message: str
    usage: str = ""
    missing_file: str = ""


class Text(Wire, frozen=True):
    """A bit of text, usually one token's."""

    id: int
    text: str


class Block(Wire, frozen=True):
    """A block of speech: 24 kHz s16le mono."""

    id: int
    pcm: bytes


class DoneTranscribe(Wire, frozen=True):
    """The utterance's transcript."""

    id: int
    transcript: Transcript


class DoneWrite(Wire, frozen=True):
    """The writing step is over; all its text has been sent before."""

    id: int
    written: Written


class DoneSpeak(Wire, frozen=True):
    """The piece has been spoken; all its blocks have been sent before."""

    id: int
    spoken: Spoken


class Failed(Wire, frozen=True):
    """The engine reported an error; the worker lives. ``lost``: send the prompt again (LLM).

    ``reason``: for people, if the adapter has a better one than that its engine failed.
    """

    id: int
    message: str
    lost: bool = False
    reason: str = ""


class Cancelled(Wire, frozen=True):
    """The job ended because it was cancelled."""

    id: int


class Injected(Wire, frozen=True):
    """An injected fault is being committed right now."""

    id: int
    effect: str


ToWorker = Load | TranscribeJob | WriteJob | SpeakJob | Cancel | Pause | CloseStream
FromWorker = (
    Ready
    | LoadFailed
    | Text
    | Block
    | DoneTranscribe
    | DoneWrite
    | DoneSpeak
    | Failed
    | Cancelled
    | Injected
)
Job = TranscribeJob | WriteJob | SpeakJob
T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


def encode(message: ToWorker | FromWorker) -> bytes:
    """One framed message. Raises `ValueError` when it is longer than a message may be."""
    body = _encoder.encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise ValueError(
            f"{type(message).__name__} of {len(body)} bytes; at most {MAX_MESSAGE_BYTES} fit"
        )
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class Decoder(Generic[T]):
    """Bytes in arbitrary chunks → messages.

    ``feed`` a chunk, then iterate: messages that are whole come out, in order. What is not the
    protocol raises `EngineCrashedError` after the messages before it, now and ever after: a
    byte stream that has lost its framing cannot be mended.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._decoder = decoder
        self._data: bytes | bytearray = b""
        self._at = 0  # what lies before has been read
        self._broken = ""

    def feed(self, chunk: bytes | bytearray) -> None:
        """Take a chunk; holds at most one unfinished message if always iterated to the end.

        Most chunks are whole messages, blocks of speech above all: those are read where they are.
        """
        if not self.pending_bytes:
            self._data, self._at = bytes(chunk), 0
            return
        if not isinstance(self._data, bytearray):
            self._data, self._at = bytearray(self._data[self._at :]), 0
        elif self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += chunk

    def __iter__(self) -> Iterator[T]:
        """Yield the whole messages fed so far."""
        while True:
            message = self._next()
            if message is None:
                return
            yield message

    @property
    def pending_bytes(self) -> int:
        """Bytes of a message that is not whole yet (not 0 at end of file: torn)."""
        return len(self._data) - self._at

    def _next(self) -> T | None:
        if self._broken:
            raise EngineCrashedError(self._broken)
        start = self._at + HEADER_BYTES
        if len(self._data) < start:
            return None
        length = int.from_bytes(self._data[self._at : start], "big")
        if length > MAX_MESSAGE_BYTES:
            self._fail(f"a message of {length} bytes; at most {MAX_MESSAGE_BYTES} are allowed")
        end = start + length
        if len(self._data) < end:
            return None
        self._at = end
        try:
            with memoryview(self._data) as view, view[start:end] as body:
                return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._fail(f"a message that cannot be read: {error}")

    def _fail(self, why: str) -> NoReturn:
        self._data, self._at = b"", 0
        self._broken = f"not the pipe protocol: {why}"
        raise EngineCrashedError(self._broken)


def worker_decoder() -> Decoder[ToWorker]:
    """What a worker reads with."""
    return Decoder(msgspec.msgpack.Decoder(ToWorker))


def client_decoder() -> Decoder[FromWorker]:
    """What the main process reads with."""
    return Decoder(msgspec.msgpack.Decoder(FromWorker))
