"""Audio containers with PyAV: PCM into them as it comes, PCM out of whatever somebody sends."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO, cast

import av
import numpy as np

SPEECH_RATE_HZ = 24_000
LISTEN_RATE_HZ = 16_000
#: 40 ms of speech: what is read at a time, so that the first bytes leave soon.
READ_BYTES = 1920
BAD_INPUT, TOO_LONG = 3, 4


@dataclass(frozen=True, slots=True)
class Format:
    """How FFmpeg names it."""

    container: str
    codec: str
    rate_hz: int = SPEECH_RATE_HZ
    bit_rate: int = 48_000


FORMATS = {
    "ogg": Format("ogg", "libopus", 48_000, 32_000),
    "mp3": Format("mp3", "libmp3lame", 24_000, 64_000),
    "aac": Format("adts", "aac", 24_000, 64_000),
    "flac": Format("flac", "flac"),
}


class _Out(io.RawIOBase):
    """A sink that cannot seek: containers are then written front to back."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        whole = bytes(view)
        self._out.write(whole)
        return len(whole)


def encode(source: BinaryIO, out: BinaryIO, name: str) -> int:
    """Encode s16le 24 kHz mono until the end of ``source``; each packet is written at once."""
    wanted = FORMATS[name]
    # flush_packets and a page per packet: FFmpeg would else keep a second of Opus to itself.
    options = {"flush_packets": "1"}
    if wanted.container == "ogg":
        options["page_duration"] = "60000"
    if wanted.container == "mp3":
        options |= {"write_xing": "0", "id3v2_version": "0"}
    with av.open(
        _Out(out), "w", format=wanted.container, container_options=options, buffer_size=4096
    ) as container:
        stream = cast(av.AudioStream, container.add_stream(wanted.codec, rate=wanted.rate_hz))
        stream.layout = "mono"
        if wanted.container != "flac":
            stream.bit_rate = wanted.bit_rate
        resampler = av.AudioResampler(
            format=stream.codec_context.format,
            layout="mono",
            rate=wanted.rate_hz,
            frame_size=0,
        )
        fifo = av.AudioFifo()
        size = 0
        at = 0
        rest = b""
        while chunk := source.read1(READ_BYTES):  # type: ignore[attr-defined]
            data = rest + chunk
            rest = data[len(data) & ~1 :]
            at = _feed(data[: len(data) & ~1], at, resampler, fifo)
            if not size:
                container.start_encoding()
                size = stream.codec_context.frame_size or 1024
            _drain(fifo, size, stream, container, partial=False)
        for frame in resampler.resample(None):
            fifo.write(frame)
        if size:
            _drain(fifo, size, stream, container, partial=True)
            container.mux(stream.encode(None))
    return 0


def _feed(pcm: bytes, at: int, resampler: av.AudioResampler, fifo: av.AudioFifo) -> int:
    if not pcm:
        return at
    samples = np.frombuffer(pcm, dtype="<i2").reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
    frame.sample_rate = SPEECH_RATE_HZ
    frame.pts = at
    for resampled in resampler.resample(frame):
        resampled.pts = None
        fifo.write(resampled)
    return at + samples.shape[1]


def _drain(
    fifo: av.AudioFifo,
    size: int,
    stream: av.AudioStream,
    container: av.container.OutputContainer,
    *,
    partial: bool,
) -> None:
    while fifo.samples >= size or (partial and fifo.samples):
        frame = fifo.read(size, partial=partial)
        if frame is None:
            return
        container.mux(stream.encode(frame))


def decode(source: BinaryIO, out: BinaryIO, most_s: float) -> int:
    """Decode the first audio stream of a file to s16le 16 kHz mono.

    Returns `BAD_INPUT` for what is no audio, `TOO_LONG` beyond ``most_s`` seconds.
    """
    most = int(most_s * LISTEN_RATE_HZ)
    written = 0
    try:
        # Whole, since some containers (MP4) have their index at the end.
        with av.open(io.BytesIO(source.read()), "r") as container:
            if not container.streams.audio:
                return BAD_INPUT
            resampler = av.AudioResampler(format="s16", layout="mono", rate=LISTEN_RATE_HZ)
            for frame in container.decode(audio=0):
                for resampled in resampler.resample(frame):
                    written += _put(resampled, out)
                if written > most:
                    return TOO_LONG
            for resampled in resampler.resample(None):
                written += _put(resampled, out)
    except (av.error.FFmpegError, ValueError):
        return BAD_INPUT
    return 0 if written else BAD_INPUT


def _put(frame: av.AudioFrame, out: BinaryIO) -> int:
    out.write(frame.to_ndarray().astype("<i2").tobytes())
    return frame.samples
