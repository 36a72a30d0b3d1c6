"""The decoder of a board: bound to what the server's hello announced."""

from __future__ import annotations

from duet_trio import opus

#: The output rate of nearly all boards' codecs. Opus decodes any stream at this rate, so a
#: hello with another one needs no resampling here.
SPEAKER_RATE_HZ = 24_000


class OpusSpeaker:
    """A `PacketDecoder` for real packets.

    A packet longer than announced does not fit the firmware's buffer and is lost; a shorter
    one plays. Raises `MissingLibraryError` without libopus.
    """

    def __init__(self) -> None:
        self._decoder = opus.Decoder(SPEAKER_RATE_HZ)

    def announced(self, frame_ms: int) -> None:
        """Take the frame duration from a hello; starts a fresh decoder."""
        self._decoder = opus.Decoder(SPEAKER_RATE_HZ, frame_ms, longest_ms=frame_ms)

    def decode(self, packet: bytes) -> bytes:
        """Return s16le mono PCM at `SPEAKER_RATE_HZ`; raises `PeerError`."""
        return self._decoder.decode(packet)

    def reset(self) -> None:
        """Forget all that was decoded."""
        self._decoder.reset()
