"""Audio as clients want it: WAV and PCM made here, all else by a process of its own.

PyAV is never imported in this process. A process starts in about 0.3 s and is killed when its
request ends; `Workshop` bounds how many there are.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec

import trio

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.errors import DuetError

MAX_PROCESSES = 8
DECODE_S = 20.0
READ_BYTES = 1 << 14
_BAD_INPUT, _TOO_LONG = 3, 4  # exit codes of the program
_PROGRAM = "duet_trio.engines.containers"

#: Gives the next block of 24 kHz s16le PCM, or None at the end.
Source = Callable[[], Awaitable[bytes | None]]


class UnreadableAudioError(DuetError):
    """A file that somebody sent is no audio, or too much of it."""


class ConverterFailedError(DuetError):
    """The process that makes a container has failed."""


class NoConverterError(DuetError):
    """The optional package that makes containers is not installed."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """``encoder``: what the program calls it; empty: made here."""

    mimetype: str
    encoder: str = ""


FORMATS = {
    "wav": AudioFormat("audio/wav"),
    "pcm": AudioFormat("audio/pcm"),
    "ogg": AudioFormat("audio/ogg", "ogg"),
    "opus": AudioFormat("audio/ogg", "ogg"),
    "mp3": AudioFormat("audio/mpeg", "mp3"),
    "aac": AudioFormat("audio/aac", "aac"),
    "flac": AudioFormat("audio/flac", "flac"),
}


def wav_header(rate_hz: int = SPEECH_RATE_HZ, data_bytes: int | None = None) -> bytes:
    """A WAV header for s16le mono; without a size it says "until the end", as players accept."""
    size = 0xFFFFFFFF if data_bytes is None else data_bytes
    whole = 0xFFFFFFFF if data_bytes is None else data_bytes + 36
    return b"".join(
        [
            b"RIFF", whole.to_bytes(4, "little"), b"WAVEfmt ", (16).to_bytes(4, "little"),
            (1).to_bytes(2, "little"), (1).to_bytes(2, "little"),
            rate_hz.to_bytes(4, "little"), (2 * rate_hz).to_bytes(4, "little"),
            (2).to_bytes(2, "little"), (16).to_bytes(2, "little"),
            b"data", size.to_bytes(4, "little"),
        ]
    )  # fmt: skip


@dataclass(eq=False, slots=True)
class Encoded:
    """A container's bytes as they are made. ``whole`` is valid once ``over``."""

    stream: trio.abc.ReceiveStream
    whole: bool = False
    over: trio.Event = field(default_factory=trio.Event)

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises `ConverterFailedError` if that is too early."""
        chunk = bytes(await self.stream.receive_some(READ_BYTES))
        if not chunk:
            await self.over.wait()
            if not self.whole:
                raise ConverterFailedError("the encoder ended too early")
        return chunk


class Workshop:
    """Starts the programs; one per server."""

    def __init__(self) -> None:
        self._room = trio.CapacityLimiter(MAX_PROCESSES)

    @property
    def running(self) -> int:
        """Processes now."""
        return self._room.borrowed_tokens

    def check(self) -> None:
        """Raises `NoConverterError` if nothing can be started."""
        if find_spec("av") is None:
            raise NoConverterError(
                "this format needs the package av (pip install 'duet-trio[whisper]');"
                " wav and pcm do not"
            )

    async def encode(
        self,
        encoder: str,
        source: Source,
        task_status: trio.TaskStatus[Encoded],
    ) -> None:
        """Encode what ``source`` gives; ``started`` with what can be read (see `check`).

        Lasts until cancelled, since it may be read for longer than its process lives. Raises what
        ``source`` raises.
        """
        async with self._room, _program("encode", encoder) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            encoded = Encoded(process.stdout)
            task_status.started(encoded)
            await _feed(source, process.stdin)
            encoded.whole = await process.wait() == 0
            encoded.over.set()
            await trio.sleep_forever()

    async def decode(self, data: bytes, most_s: float) -> bytes:
        """Any audio file as 16 kHz s16le mono PCM.

        Raises `UnreadableAudioError`. Takes at most `DECODE_S`.
        """
        pcm = bytearray()
        with trio.move_on_after(DECODE_S):
            async with self._room, _program("decode", f"{most_s:g}") as process:
                assert process.stdin is not None
                assert process.stdout is not None
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_pour, data, process.stdin)
                    while chunk := await process.stdout.receive_some(1 << 16):
                        pcm += chunk
                    code = await process.wait()
                    nursery.cancel_scope.cancel()
            if code == _TOO_LONG:
                raise UnreadableAudioError(f"the recording is longer than {most_s:g} s")
            if code == _BAD_INPUT or not pcm:
                raise UnreadableAudioError("this is no audio file that can be read")
            return bytes(pcm)
        raise UnreadableAudioError("the file took too long to decode")


async def _feed(source: Source, sink: trio.abc.SendStream) -> None:
    try:
        while (block := await source()) is not None:
            await sink.send_all(block)
        # Not if the source has failed: half an answer must not look like a whole one.
        await sink.aclose()
    except trio.BrokenResourceError:
        return  # it has ended early; what it wrote tells


async def _pour(data: bytes, sink: trio.abc.SendStream) -> None:
    try:
        async with sink:
            await sink.send_all(data)
    except trio.BrokenResourceError:
        return


@asynccontextmanager
async def _program(what: str, value: str) -> AsyncIterator[trio.Process]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", _PROGRAM, what, value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):  # bounded by the kernel: it has got SIGKILL
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await stream.aclose()
