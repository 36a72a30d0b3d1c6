"""A recogniser elsewhere: ``POST /audio/transcriptions`` with a WAV file in a form."""

from __future__ import annotations

import json
import secrets

from duet_trio.config import AsrSection
from duet_trio.engines.contracts import LISTEN_RATE_HZ, ListenRequest, Transcript
from duet_trio.engines.remote.exchange import BrokenOffError, Exchange
from duet_trio.engines.remote.service import RemoteService, Watch


class RemoteAsr:
    """`contracts.Asr`."""

    def __init__(self, service: RemoteService, section: AsrSection) -> None:
        self._service = service
        self._section = section

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""
        return self._service.slots

    async def transcribe(self, request: ListenRequest) -> Transcript:
        """Recognise one utterance (see the contract)."""
        return await self._service.call(lambda: self._transcribe(request))

    async def _transcribe(self, request: ListenRequest) -> Transcript:
        fields = {"model": self._section.model, "response_format": "json"}
        if request.language:
            fields["language"] = request.language
        boundary = secrets.token_hex(16)
        body = multipart(boundary, fields, wav(request.pcm, LISTEN_RATE_HZ))
        exchange: Exchange | None = None

        async def ask() -> bytes:
            nonlocal exchange
            exchange = await self._service.open(
                "/audio/transcriptions", f"multipart/form-data; boundary={boundary}", body
            )
            return await exchange.read_all()

        try:
            answer = await Watch(self._service, self._section.deadline_s).over(ask)
        except BrokenOffError as error:
            raise self._service.failed(error) from None
        finally:
            if exchange is not None:
                exchange.close()
        try:
            text = json.loads(answer)["text"]
        except (ValueError, LookupError, TypeError):
            raise self._service.unusable("no transcript") from None
        if not isinstance(text, str):
            raise self._service.unusable("a transcript that is no text")
        return Transcript(text.strip(), request.language)


def wav(pcm: bytes, rate_hz: int) -> bytes:
    """A WAV file around s16le mono PCM."""
    shape = b"\1\0\1\0" + rate_hz.to_bytes(4, "little") + (2 * rate_hz).to_bytes(4, "little")
    parts = b"WAVEfmt " + (16).to_bytes(4, "little") + shape + b"\2\0\x10\0"
    parts += b"data" + len(pcm).to_bytes(4, "little") + pcm
    return b"RIFF" + len(parts).to_bytes(4, "little") + parts


def multipart(boundary: str, fields: dict[str, str], audio: bytes) -> bytes:
    """A form of text fields and one WAV file named ``file``."""
    form = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    )
    form += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file";'
        ' filename="utterance.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    ).encode()
    return form + audio + f"\r\n--{boundary}--\r\n".encode()
