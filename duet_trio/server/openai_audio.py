"""``/v1/audio/speech`` and ``/v1/audio/transcriptions``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import msgspec
from quart import Response, jsonify, request
from quart_trio import QuartTrio

from duet_trio.engines.contracts import LISTEN_RATE_HZ, ListenRequest
from duet_trio.errors import EngineError
from duet_trio.server.audio_response import audio_response, known_format, refusal_of
from duet_trio.server.audio_split import split_speech
from duet_trio.server.containers import NoConverterError, UnreadableAudioError, Workshop
from duet_trio.server.site import RefusalError, Site, request_body
from duet_trio.server.speak import checked_text, read_json
from duet_trio.server.speak_answer import Order

#: The voices of that API; all mean our own one.
THEIR_VOICES = frozenset(
    {"alloy", "ash", "ballad", "cedar", "coral", "default", "echo", "fable", "marin", "nova"}
    | {"onyx", "sage", "shimmer", "verse"}
)
MAX_UPLOAD_BYTES = 25 << 20  # as there
MAX_RECORDING_S = 600.0


class SpeechBody(msgspec.Struct, frozen=True):
    """``POST /v1/audio/speech``. Fields that we do not know are left alone, as clients expect."""

    model: str
    input: str
    voice: str | dict[str, Any] = "default"
    response_format: str = "mp3"
    speed: float = 1.0
    stream_format: Literal["audio", "sse"] = "audio"


def add_routes(app: QuartTrio, site: Site, check: Callable[[str], None]) -> None:
    """Both routes. ``check`` refuses unknown models."""
    workshop = Workshop()
    clients = count(1)

    @app.post("/v1/audio/speech")
    async def speech() -> Response:
        wanted: SpeechBody = read_json(await request_body(), SpeechBody)
        check(wanted.model)
        if wanted.speed != 1.0:
            raise RefusalError(400, "only speed 1 can be spoken", param="speed")
        if wanted.stream_format != "audio":
            raise RefusalError(400, "only the audio itself is streamed", param="stream_format")
        form = known_format(wanted.response_format, "response_format")
        text = checked_text(site, wanted.input, "input")
        order = Order(f"v1-speech-{next(clients)}", say=text, voice=_voice(site, wanted.voice))
        return await audio_response(site, workshop, order, form)

    @app.post("/v1/audio/transcriptions")
    async def transcriptions() -> Response:
        request.max_content_length = MAX_UPLOAD_BYTES
        request.body._max_content_length = MAX_UPLOAD_BYTES  # its limit was set on arrival
        form = await request.form
        files = await request.files
        upload = files.get("file")
        if upload is None:
            raise RefusalError(400, "a form with the field 'file' is needed", param="file")
        model = form.get("model", "")
        if not model:
            raise RefusalError(400, "the field 'model' is missing", param="model")
        check(model)
        shape = form.get("response_format", "json")
        if shape not in ("json", "text", "verbose_json"):
            raise RefusalError(400, "json, text or verbose_json", param="response_format")
        if form.get("stream", "false").lower() == "true":
            raise RefusalError(400, "transcriptions are not streamed", param="stream")
        language = form.get("language", "")[:10]
        pcm = await _decoded(workshop, upload.stream.read())
        text = await _transcribe(site, pcm, language)
        if shape == "text":
            return Response(f"{text}\n", mimetype="text/plain")
        body: dict[str, Any] = {"text": text}
        if shape == "verbose_json":
            body |= {
                "task": "transcribe",
                "language": language,
                "duration": round(len(pcm) / 2 / LISTEN_RATE_HZ, 2),
                "segments": [],
            }
        return jsonify(body)


async def _decoded(workshop: Workshop, data: bytes) -> bytes:
    try:
        workshop.check()
        return await workshop.decode(data, MAX_RECORDING_S)
    except NoConverterError as error:
        raise RefusalError(501, str(error), code="no_converter") from None
    except UnreadableAudioError as error:
        raise RefusalError(400, str(error), param="file", code="bad_audio") from None


async def _transcribe(site: Site, pcm: bytes, language: str) -> str:
    """Utterance by utterance: that is what a recogniser's deadline is made for."""
    texts = []
    try:
        for part in split_speech(pcm):
            heard = await site.services.asr.transcribe(
                # Speculative ones yield in its queue: people at boards go first.
                ListenRequest(part, None, language, speculative=True)
            )
            texts.append(heard.text.strip())
    except EngineError as error:
        raise refusal_of(error) from None
    return " ".join(filter(None, texts))


def _voice(site: Site, voice: str | dict[str, Any]) -> str:
    name = voice if isinstance(voice, str) else str(voice.get("id", ""))
    return site.config.voice.name if name in THEIR_VOICES or not name else name[:100]
