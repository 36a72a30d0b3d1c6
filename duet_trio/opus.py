"""Opus packets from and to PCM, and where libopus is found.

opuslib-next brings bindings but no libopus, and raises a bare ``Exception`` on import when
it finds none. So it is imported here only, after the library has been found: the system's
own first, then the copy inside the PyAV wheel (``av.libs``, ``av/.dylibs``), which is opened
by path. PyAV itself is never imported: it would pull all of FFmpeg into the process.

All PCM is mono, 16-bit little-endian. Calls are short (60 ms at 24 kHz: encoding 0.2 to
0.6 ms by complexity, decoding 0.1 ms), hold no lock and are no checkpoints.

Not verified on Apple arm64: the bindings call libopus's variadic ``ctl`` through ctypes,
whose calling convention differs there, so `Encoder`'s settings may not take effect.
"""

from __future__ import annotations

import ctypes.util
import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast

from duet_trio.errors import MissingLibraryError, PeerError

Application = Literal["voip", "audio", "restricted_lowdelay"]

#: The longest packet that Opus can carry.
LONGEST_PACKET_MS = 120

#: Where libopus lies on systems whose loader cache does not know it.
_USUAL_PLACES = (
    "/usr/lib/x86_64-linux-gnu/libopus.so.0",
    "/usr/lib/aarch64-linux-gnu/libopus.so.0",
    "/usr/local/lib/libopus.so.0",
    "/opt/homebrew/lib/libopus.dylib",
    "/usr/local/lib/libopus.dylib",
)


def find_libopus() -> str:
    """Return a name or path that the dynamic loader can open.

    Raises `MissingLibraryError` when neither the system nor an installed PyAV has one.
    """
    for candidate in _candidates():
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue  # another architecture, or a stale cache entry
        return candidate
    raise MissingLibraryError(
        "libopus not found; install it (Debian: libopus0, macOS: brew install opus)"
        " or 'pip install av', which carries a copy"
    )


def _candidates() -> Iterator[str]:
    found = ctypes.util.find_library("opus")
    if found is not None:
        yield found
    yield from (place for place in _USUAL_PLACES if Path(place).exists())
    spec = PathFinder.find_spec("av")  # finds the package without running it
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        for folder in (package.parent / "av.libs", package / ".dylibs"):
            yield from sorted(str(path) for path in folder.glob("*opus*"))


def load_opus() -> ModuleType:
    """Return the module ``opuslib_next``, bound to a libopus.

    The first call searches and imports (some 20 ms); later ones are a dictionary look-up.
    Raises `MissingLibraryError` if libopus or the bindings are missing.
    """
    if "opuslib_next.classes" in sys.modules:
        return sys.modules["opuslib_next"]
    library = find_libopus()
    usual = ctypes.util.find_library
    # The bindings ask ``find_library`` once, while they are imported: lead them there.
    ctypes.util.find_library = lambda name: library
    try:
        return importlib.import_module("opuslib_next")
    except ImportError:
        raise MissingLibraryError(
            "the package opuslib-next is missing; run 'pip install opuslib-next'"
        ) from None
    finally:
        ctypes.util.find_library = usual


class Encoder:
    """One stream of packets of ``frame_ms`` each. Start a fresh one (or `reset`) per answer.

    ``bitrate`` in bit/s, None for libopus's own choice; ``dtx`` makes packets of silence one
    or two bytes long, as boards send them. Raises `MissingLibraryError` without libopus and
    `ValueError` for a rate, frame or setting that Opus does not have.
    """

    def __init__(
        self,
        sample_rate_hz: int = 24_000,
        frame_ms: int = 60,
        *,
        complexity: int = 5,
        bitrate: int | None = 24_000,
        application: Application = "audio",
        dtx: bool = False,
    ) -> None:
        _check(sample_rate_hz, frame_ms)
        self.sample_rate_hz = sample_rate_hz
        self.frame_ms = frame_ms
        self.frame_bytes = 2 * sample_rate_hz * frame_ms // 1000
        opus: Any = load_opus()
        self._encoder = opus.Encoder(sample_rate_hz, 1, application)
        try:
            self._encoder.complexity = complexity
            if bitrate is not None:
                self._encoder.bitrate = bitrate
            self._encoder.dtx = int(dtx)
        except opus.OpusError as error:
            raise ValueError(
                f"complexity {complexity} or bitrate {bitrate} is out of range: {error}"
            ) from None

    def encode(self, pcm: bytes) -> bytes:
        """Return the packet for exactly one frame; any other length is a `ValueError`."""
        if len(pcm) != self.frame_bytes:
            raise ValueError(f"a frame has {self.frame_bytes} bytes, not {len(pcm)}")
        return cast("bytes", self._encoder.encode(pcm, self.frame_bytes // 2))

    def packets(self, pcm: bytes) -> Iterator[bytes]:
        """Encode a whole recording frame by frame; the last frame is filled with silence."""
        for offset in range(0, len(pcm), self.frame_bytes):
            yield self.encode(
                pcm[offset : offset + self.frame_bytes].ljust(self.frame_bytes, b"\0")
            )

    def reset(self) -> None:
        """Forget all that was encoded; the settings stay."""
        self._encoder.reset_state()


class Decoder:
    """The other end of a stream of packets.

    ``frame_ms`` is what the peer announced: the length of the concealment that an empty
    packet stands for. ``longest_ms`` bounds what one packet may hold; give ``frame_ms`` there
    to refuse longer ones as a board does. Raises like `Encoder`.
    """

    def __init__(
        self,
        sample_rate_hz: int = 16_000,
        frame_ms: int = 60,
        *,
        longest_ms: int = LONGEST_PACKET_MS,
    ) -> None:
        _check(sample_rate_hz, frame_ms)
        self.sample_rate_hz = sample_rate_hz
        self.frame_ms = frame_ms
        self._frame_samples = sample_rate_hz * frame_ms // 1000
        self._most_samples = sample_rate_hz * max(frame_ms, longest_ms) // 1000
        self._opus: Any = load_opus()
        self._decoder = self._opus.Decoder(sample_rate_hz, 1)

    def decode(self, packet: bytes) -> bytes:
        """Return the packet's PCM, of whatever length it holds.

        An empty packet gives one concealed frame. A damaged or too long one raises
        `PeerError`; the decoder stays usable.
        """
        samples = self._most_samples if packet else self._frame_samples
        try:
            return cast("bytes", self._decoder.decode(packet, samples))
        except self._opus.OpusError as error:
            raise PeerError(f"Opus packet of {len(packet)} bytes: {error}") from None

    def reset(self) -> None:
        """Forget all that was decoded."""
        self._decoder.reset_state()


def _check(sample_rate_hz: int, frame_ms: int) -> None:
    if sample_rate_hz not in (8_000, 12_000, 16_000, 24_000, 48_000):
        raise ValueError(f"Opus has no sample rate of {sample_rate_hz} Hz")
    if frame_ms not in (5, 10, 20, 40, 60, 80, 100, 120):
        raise ValueError(f"Opus has no packets of {frame_ms} ms")
