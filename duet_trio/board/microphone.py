"""The microphone: speech that a user has loaded, then silence, as packets."""

from __future__ import annotations

from duet_trio import opus

RATE_HZ = 16_000


class Microphone:
    """Makes the next packet on request; knows no time.

    Encodes as boards do: 16 kHz mono, complexity 0, VBR, DTX on. It is mute, and gives no
    packets at all, until something has been said for the first time.
    """

    def __init__(self, frame_ms: int = 60) -> None:
        self.frame_s = frame_ms / 1000
        self._encoder = opus.Encoder(RATE_HZ, frame_ms, complexity=0, bitrate=None, dtx=True)
        self._speech = memoryview(b"")
        self._mute = True

    def say(self, pcm: bytes) -> None:
        """Speak this next, in place of what is left of anything before."""
        self._mute = False
        self._speech = memoryview(pcm)

    def hush(self) -> None:
        """Say no more; silence follows."""
        self._speech = memoryview(b"")

    @property
    def speaking(self) -> bool:
        """Whether anything is left to be said."""
        return len(self._speech) > 0

    def packet(self) -> bytes | None:
        """Return the next packet; None while it is mute."""
        if self._mute:
            return None
        size = self._encoder.frame_bytes
        frame = bytes(self._speech[:size]).ljust(size, b"\0")
        self._speech = self._speech[size:]
        return self._encoder.encode(frame)

    def recording(self, pcm: bytes) -> list[bytes]:
        """Encode a finished recording, apart from what is being said."""
        encoder = opus.Encoder(
            RATE_HZ, self._encoder.frame_ms, complexity=0, bitrate=None, dtx=True
        )
        return list(encoder.packets(pcm))
