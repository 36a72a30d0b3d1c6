"""The audio path of a stock board, from the arriving packet to what a listener hears.

::

    network → decode queue (40 packets) → decoder → PCM queue (2) → codec write (1) → DMA (60 ms)

Nothing is buffered ahead: the first packet sounds when it arrives. A queue that runs dry is
heard as silence (a *stall*); a full decode queue drops the newest packet. A flush empties both
queues and resets the decoder; what the codec write already holds and what lies in the DMA
buffer stays audible, up to 120 ms.

Sans-IO: every method takes the time (seconds, any origin, never backwards: an earlier time
counts as the latest one seen). Decoding is taken to need no time. The figures are those of
the firmware since v1.6.6, see `DECODE_QUEUE_PACKETS` and its neighbours.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from duet_trio.errors import PeerError

#: The firmware's limit: 2400 ms of 60 ms packets, but counted in packets of any length.
DECODE_QUEUE_PACKETS = 40
#: Decoded frames that wait for the codec.
PCM_QUEUE_FRAMES = 2
#: 6 I2S descriptors of 240 frames at 24 kHz.
DMA_S = 0.060


class PacketDecoder(Protocol):
    """What `duet_trio.opus.Decoder` offers; tests put a simpler one in its place."""

    def decode(self, packet: bytes) -> bytes:
        """Return s16le mono PCM; raises `PeerError` for a damaged packet."""

    def reset(self) -> None:
        """Forget all that was decoded."""


class SilentDecoder:
    """Takes every packet for one frame of silence: many boards without the decoding."""

    def __init__(self, sample_rate_hz: int = 24_000, frame_ms: int = 60) -> None:
        self._frame = bytes(2 * sample_rate_hz * frame_ms // 1000)

    def decode(self, packet: bytes) -> bytes:
        """Return the same silent frame, whatever the packet holds."""
        return self._frame

    def reset(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One packet's sound: it began at ``start_s``; ``sequence`` counts the accepted packets."""

    start_s: float
    duration_s: float
    sequence: int
    pcm: bytes

    @property
    def end_s(self) -> float:
        """When the next packet's sound must begin to leave no hole."""
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Stall:
    """The board ran dry in mid-speech: silence of ``duration_s`` from ``start_s`` on."""

    start_s: float
    duration_s: float


class Playback:
    """One board's speaker and all that leads to it."""

    def __init__(self, decoder: PacketDecoder, *, sample_rate_hz: int = 24_000) -> None:
        self.sample_rate_hz = sample_rate_hz
        self.heard: list[Heard] = []
        self.stalls: list[Stall] = []
        self.accepted = 0
        self.dropped_full = 0  # the decode queue had 40 packets
        self.damaged = 0  # the decoder refused them
        self.flushed = 0  # packets that a flush threw away
        self._decoder = decoder
        self._now = -math.inf
        self._packets: deque[tuple[int, bytes]] = deque()
        self._frames: deque[tuple[int, bytes, float]] = deque()  # number, PCM, decoded at
        self._writer_free_at = -math.inf
        self._sound_end = -math.inf
        self._fresh = True  # nothing has sounded since the last flush: no stall before it

    def push(self, packet: bytes, now: float) -> bool:
        """Queue a packet; False if the decode queue was full, and the packet is lost."""
        self.advance(now)
        if len(self._packets) >= DECODE_QUEUE_PACKETS:
            self.dropped_full += 1
            return False
        self._packets.append((self.accepted, packet))
        self.accepted += 1
        self._decode(self._now)
        self.advance(now)
        return True

    def flush(self, now: float) -> None:
        """Empty both queues and reset the decoder; what has reached the codec still sounds."""
        self.advance(now)
        self.flushed += self.queued
        self._packets.clear()
        self._frames.clear()
        self._decoder.reset()
        self._fresh = True

    def advance(self, now: float) -> None:
        """Let time pass: move frames along, up to and including ``now``."""
        self._now = max(self._now, now)
        while self._frames:
            number, pcm, ready = self._frames[0]
            at = max(ready, self._writer_free_at)
            if at > self._now:
                return
            self._frames.popleft()
            self._write(number, pcm, at)
            self._decode(at)

    @property
    def queued(self) -> int:
        """Packets and frames that a flush would throw away."""
        return len(self._packets) + len(self._frames)

    @property
    def sound_end_s(self) -> float:
        """When the last sound that nothing can take back any more ends (-inf: none yet)."""
        return self._sound_end

    def queues_empty_at(self) -> float:
        """When both queues will be empty if nothing more arrives; ``-inf`` if they are."""
        return self._drain()[0]

    def written_at(self) -> float:
        """When the codec will have taken the last frame as well; its DMA tail still sounds."""
        return self._drain()[1]

    def heard_pcm(self, start_s: float, end_s: float | None = None) -> bytes:
        """Return what a microphone beside the board records from ``start_s`` on.

        s16le mono at ``sample_rate_hz``, silence where nothing sounded, up to ``end_s`` or the
        end of the last sound.
        """
        return render(self.heard, self.sample_rate_hz, start_s, end_s)

    def _decode(self, at: float) -> None:
        while self._packets and len(self._frames) < PCM_QUEUE_FRAMES:
            number, packet = self._packets.popleft()
            try:
                pcm = self._decoder.decode(packet)
            except PeerError:
                self.damaged += 1
                continue
            self._frames.append((number, pcm, at))

    def _write(self, number: int, pcm: bytes, at: float) -> None:
        start = max(at, self._sound_end)
        if not self._fresh and at > self._sound_end:
            self.stalls.append(Stall(self._sound_end, at - self._sound_end))
        self._fresh = False
        sound = Heard(start, self._duration_s(pcm), number, pcm)
        self.heard.append(sound)
        self._sound_end = sound.end_s
        self._writer_free_at = _written(at, self._sound_end)

    def _drain(self) -> tuple[float, float]:
        """When the queues are empty, and when the last frame is written, if nothing arrives.

        Packets not decoded yet are taken to be as long as the latest known frame.
        """
        lengths = [self._duration_s(pcm) for _number, pcm, _ready in self._frames]
        if not lengths:
            return -math.inf, self._writer_free_at
        lengths += [lengths[-1]] * len(self._packets)
        free_at, sound_end = self._writer_free_at, self._sound_end
        at = -math.inf
        for length in lengths:
            at = max(self._now, free_at)
            sound_end = max(at, sound_end) + length
            free_at = _written(at, sound_end)
        return at, free_at

    def _duration_s(self, pcm: bytes) -> float:
        return len(pcm) / 2 / self.sample_rate_hz


def _written(begun: float, sound_end: float) -> float:
    """When a codec write ends: as soon as all but one DMA buffer of it has sounded."""
    return max(begun, sound_end - DMA_S)


def render(
    heard: Sequence[Heard], sample_rate_hz: int, start_s: float, end_s: float | None = None
) -> bytes:
    """Lay sounds on a time axis that begins at ``start_s``; s16le mono PCM.

    Sounds that follow each other without a hole stay seamless, whatever rounding says.
    """
    if end_s is None:
        end_s = heard[-1].end_s if heard else start_s
    total = max(0, round((end_s - start_s) * sample_rate_hz)) * 2
    track = bytearray(total)
    filled = 0
    for sound in heard:
        at = round((sound.start_s - start_s) * sample_rate_hz) * 2
        pcm = sound.pcm[max(0, -at) :]  # what sounded before the axis begins is cut off
        at = max(filled, at)
        piece = pcm[: max(0, total - at)]
        track[at : at + len(piece)] = piece
        filled = at + len(piece)
    return bytes(track)
