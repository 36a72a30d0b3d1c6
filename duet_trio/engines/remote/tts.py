"""A voice elsewhere: ``POST /audio/speech`` with 24 kHz PCM as the response."""

from __future__ import annotations

import json
from collections.abc import Callable

import trio

from duet_trio.config import TtsSection
from duet_trio.engines.cap import AudioCap
from duet_trio.engines.contracts import SPEECH_RATE_HZ, Hold, SpeechRequest, Spoken
from duet_trio.engines.remote.exchange import BrokenOffError, Exchange
from duet_trio.engines.remote.service import RemoteService, Watch
from duet_trio.errors import EngineFailedError

#: Some servers send a WAV file whatever was asked for; its head fits into this.
_HEAD_BYTES = 44


class RemoteTts:
    """`contracts.Tts`."""

    def __init__(self, service: RemoteService, section: TtsSection) -> None:
        self._service = service
        self._section = section

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    async def speak(
        self,
        request: SpeechRequest,
        on_block: Callable[[bytes], None],
        hold: Hold | None = None,
    ) -> Spoken:
        """Speak one piece (see the contract). At the cap the connection is closed."""
        return await self._service.call(lambda: self._speak(request, on_block))

    async def _speak(self, request: SpeechRequest, on_block: Callable[[bytes], None]) -> Spoken:
        section = self._section
        total_s = section.piece_s + section.piece_per_audio * request.cap_s
        watch = Watch(self._service, section.first_s, trio.current_time() + total_s)
        cap = AudioCap(request.cap_s)
        exchange: Exchange | None = None

        async def listen() -> None:
            nonlocal exchange
            exchange = await self._service.open(
                "/audio/speech", "application/json", self._body(request)
            )
            self._check_type(exchange)
            rest = await self._beginning(exchange)
            while not cap.capped:
                whole = len(rest) & ~1  # half a sample would shift all that follows
                if whole:
                    block = cap.take(rest[:whole])
                    if block:
                        on_block(block)
                    watch.progress(section.stall_s)
                chunk = await exchange.read()
                if not chunk:
                    return
                rest = rest[whole:] + chunk

        try:
            await watch.over(listen)
        except BrokenOffError as error:
            raise self._service.failed(error) from None
        finally:
            if exchange is not None:
                exchange.close()
        return Spoken(cap.audio_s, cap.capped)

    def _body(self, request: SpeechRequest) -> bytes:
        body = {
            "model": self._section.model,
            "input": request.text,
            "voice": request.voice or self._section.voice or "alloy",  # the API requires one
            "response_format": "pcm",
        }
        return json.dumps(body).encode()

    def _check_type(self, exchange: Exchange) -> None:
        kind = exchange.content_type
        if kind.startswith("text/") or kind in ("application/json", "application/xml"):
            raise self._service.unusable(f"{kind} instead of audio")

    async def _beginning(self, exchange: Exchange) -> bytes:
        """The first PCM; the head of a WAV file is read and left out."""
        data = b""
        while len(data) < _HEAD_BYTES:
            chunk = await exchange.read()
            if not chunk:
                break
            data += chunk
            if not (data.startswith(b"RIFF") or b"RIFF".startswith(data[:4])):
                return data
        return _without_head(data, self._service.unusable) if data.startswith(b"RIFF") else data


def _without_head(data: bytes, unusable: Callable[[str], EngineFailedError]) -> bytes:
    rate = int.from_bytes(data[24:28], "little")
    shape = (int.from_bytes(data[22:24], "little"), int.from_bytes(data[34:36], "little"))
    if data[36:40] != b"data" or shape != (1, 16) or rate != SPEECH_RATE_HZ:
        raise unusable(f"WAV with {rate} Hz, {shape[0]} channels, {shape[1]} bits")
    return data[_HEAD_BYTES:]
