"""From PCM to packets: the part of an answer between its voice and its pacer.

Encoding happens as PCM arrives, not when a packet is due: at its due time a packet is only a
send. What is further ahead than `STORE` packets waits as PCM: a voice that is far ahead would
otherwise make the encoders' work of ten seconds fall into one. The engine's callback puts PCM in
synchronously, so that the engine never waits; the queue is bounded by the answer, which asks for
the next piece only while little audio waits.

Pieces and packets coincide: the last packet of a piece is filled with silence. The alternative,
letting the next piece's first samples fill it, would hold voiced audio back until they come, and
would blur which words were heard.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import trio

from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.session.loop_turns import LoopTurns
from duet_trio.speech.pcm import TailHolder

BYTES_PER_S = 2 * SPEECH_RATE_HZ
#: Packets encoded in advance of the pacer: 1 s, many times longer than any wait for the encoder.
STORE = 16


class PacketEncoder(Protocol):
    """Makes packets; `duet_trio.opus.Encoder` is one. A fresh one for each answer."""

    @property
    def frame_ms(self) -> int:
        """Audio in one packet."""

    @property
    def frame_bytes(self) -> int:
        """PCM of one packet."""

    def encode(self, pcm: bytes) -> bytes:
        """One packet from exactly ``frame_bytes``."""


@dataclass(slots=True)
class SpokenPiece:
    """What became of one piece so far. ``packets`` are encoded; ``total`` is known once it ended.

    ``taken`` counts the packets that the pacer has fetched: from the first one on the piece can
    no longer be dropped.
    """

    index: int
    text: str
    first_sequence: int = 0
    packets: int = 0
    taken: int = 0
    audio_s: float = 0.0
    ended: bool = False  # all of it is encoded
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Packet:
    """One encoded packet and when the PCM that completed it had been encoded."""

    sequence: int
    opus: bytes
    piece: SpokenPiece


@dataclass(slots=True)
class _Work:
    piece: SpokenPiece
    blocks: deque[bytes] = field(default_factory=deque)
    received: int = 0  # bytes in all
    waiting: int = 0  # bytes that are not yet encoded
    ended: bool = False
    dropped: bool = False


class SpeechLine:
    """PCM in (synchronously), packets out; one per answer."""

    def __init__(
        self, encoder: PacketEncoder, turns: LoopTurns | None = None, *, tail_ms: int = 200
    ) -> None:
        """``turns`` are those of all answers together; without any the line is alone."""
        self._encoder = encoder
        self._turns = turns if turns is not None else LoopTurns()
        self._tail_ms = tail_ms
        self._works: deque[_Work] = deque()
        self._finished = False
        self._changed = trio.Event()
        self._packets: deque[Packet] = deque()
        self._packet_made = trio.Event()
        self._encoded_all = False
        self._room = trio.Event()
        self._fetched = trio.Event()
        self._next_sequence = 0
        self._queued_bytes = 0
        self.pieces: list[SpokenPiece] = []
        self.audible_or_over = trio.Event()

    def begin(self, index: int, text: str) -> SpokenPiece:
        """Start the next piece; its PCM follows in `block`."""
        piece = SpokenPiece(index, text, first_sequence=self._next_sequence)
        self.pieces.append(piece)
        self._works.append(_Work(piece))
        self._wake()
        return piece

    def block(self, pcm: bytes) -> None:
        """Take PCM of the piece begun last (any length; s16le at `SPEECH_RATE_HZ`)."""
        work = self._works[-1]
        work.blocks.append(pcm)
        work.received += len(pcm)
        work.waiting += len(pcm)
        work.piece.audio_s += len(pcm) / BYTES_PER_S
        self._queued_bytes += len(pcm)
        self._wake()

    def end(self) -> None:
        """The piece begun last has all its PCM."""
        work = self._works[-1]
        work.ended = True
        work.piece.total = -(-work.received // self._encoder.frame_bytes)
        self._wake()

    def drop(self) -> bool:
        """Forget the piece begun last, unless a packet of it has been taken (then: False)."""
        work = self._works[-1] if self._works else None
        if work is None or work.piece is not self.pieces[-1] or work.piece.taken:
            return False
        self._count_encoded(work, work.waiting)
        work.blocks.clear()
        work.ended = work.dropped = True
        kept = [packet for packet in self._packets if packet.piece is not work.piece]
        self._next_sequence -= len(self._packets) - len(kept)
        self._packets = deque(kept)
        self.pieces.pop()
        self._fetched.set()
        self._wake()
        return True

    def finish(self) -> None:
        """No further piece will come."""
        self._finished = True
        self._wake()

    @property
    def ahead_s(self) -> float:
        """Audio that waits here, encoded or not."""
        return self._queued_bytes / BYTES_PER_S + len(self._packets) * self._encoder.frame_ms / 1e3

    async def room(self, limit_s: float) -> None:
        """Wait until at most ``limit_s`` of audio wait here. A cancel leaves nothing behind."""
        while self.ahead_s > limit_s:
            self._room = trio.Event()
            await self._room.wait()

    async def next_packet(self) -> Packet | None:
        """Wait for the next packet; None after the last. For the pacer alone."""
        while not self._packets:
            if self._encoded_all:
                return None
            self._packet_made = trio.Event()
            await self._packet_made.wait()
        packet = self._packets.popleft()
        packet.piece.taken += 1
        self._room.set()
        self._fetched.set()
        return packet

    async def encode(self) -> None:
        """Turn PCM into packets until `finish`; a checkpoint before every packet."""
        while True:
            while not self._works:
                if self._finished:
                    self._encoded_all = True
                    self._packet_made.set()
                    self.audible_or_over.set()
                    return
                await self._wait()
            await self._encode_piece(self._works[0])
            self._works.popleft()

    async def _encode_piece(self, work: _Work) -> None:
        holder = TailHolder(self._tail_ms)
        rest = bytearray()
        size = self._encoder.frame_bytes
        while not work.dropped:
            last = work.ended and not work.blocks
            if last:
                rest += holder.finish()
                rest += bytes(-len(rest) % size)
            elif work.blocks:
                rest += holder.feed(work.blocks.popleft())
            else:
                await self._wait()
                continue
            while len(rest) >= size and not work.dropped:
                if len(self._packets) >= STORE:
                    self._fetched = trio.Event()
                    await self._fetched.wait()
                    continue
                async with self._turns.turn(self._stored):
                    if not work.dropped:  # meanwhile
                        self._put(self._encoder.encode(bytes(rest[:size])), work.piece)
                        self._count_encoded(work, size)
                        del rest[:size]
            if last:
                # A quiet tail is dropped, not encoded: it must not count as audio ahead for ever,
                # or `room` would never come again and the answer would hang.
                self._count_encoded(work, work.waiting)
                work.piece.ended = True
                return

    def _count_encoded(self, work: _Work, size: int) -> None:
        size = min(size, work.waiting)  # the last packet is filled up
        work.waiting -= size
        self._queued_bytes -= size
        self._room.set()  # whatever the reason: who waits for room looks again

    def _stored(self) -> int:
        return len(self._packets)

    def _put(self, opus: bytes, piece: SpokenPiece) -> None:
        if not piece.packets:
            piece.first_sequence = self._next_sequence
        piece.packets += 1
        self._packets.append(Packet(self._next_sequence, opus, piece))
        self._next_sequence += 1
        self._packet_made.set()
        self.audible_or_over.set()

    async def _wait(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
