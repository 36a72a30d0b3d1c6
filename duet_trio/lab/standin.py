"""A stand-in for Opus: three bytes a packet that name whose sound it is.

The scripted voices speak each generation at a pitch of its own, and every packet of theirs begins
with a whole period of it. So the second sample tells the generation, and a packet that would carry
another answer's sound says so. Encoding and decoding cost nothing, which is what makes ten
thousand conversations affordable; what Opus itself does is tested elsewhere.
"""

from __future__ import annotations

from functools import cache

from duet_trio.engines.scripted_output import tone

FRAME_MS = 60
FRAME_BYTES = 2880  # at 24 kHz, s16le
TONES = 40
#: Instead of a generation: digital silence, and sound that is no packet of a scripted voice.
SILENT, UNKNOWN = 0xFF, 0xFE


@cache
def _tones() -> dict[bytes, int]:
    """The second sample of each generation's tone."""
    return {tone(300 + 50 * number)[2:4]: number for number in range(TONES)}


class StandInEncoder:
    """A `PacketEncoder`: generation (mod 40), then the number of the packet in this stream."""

    frame_ms = FRAME_MS
    frame_bytes = FRAME_BYTES

    def __init__(self) -> None:
        self._made = 0

    def encode(self, pcm: bytes) -> bytes:
        """Name the sound."""
        if len(pcm) != FRAME_BYTES:
            raise ValueError(f"a frame has {FRAME_BYTES} bytes, not {len(pcm)}")
        self._made += 1
        return bytes([generation_in(pcm)]) + (self._made - 1).to_bytes(2, "big")


def generation_in(pcm: bytes) -> int:
    """Whose sound begins here (mod 40); `SILENT` or `UNKNOWN` if nobody's."""
    if pcm[:2] == b"\0\0":
        number = _tones().get(pcm[2:4])
        if number is not None:
            return number
    return SILENT if not any(pcm) else UNKNOWN


def packet_generation(packet: bytes) -> int | None:
    """The generation (mod 40) that a stand-in packet names; None: silence."""
    return None if packet[0] == SILENT else packet[0]
