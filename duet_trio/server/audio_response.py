"""A streamed audio response: the answer runs in the request's nursery, its bytes leave as made."""

from __future__ import annotations

from typing import cast

from quart import Response, request

from duet_trio.errors import EngineError
from duet_trio.server.containers import (
    FORMATS,
    AudioFormat,
    Encoded,
    NoConverterError,
    Workshop,
    wav_header,
)
from duet_trio.server.site import DuetRequest, RefusalError, Site, Turnstile
from duet_trio.server.speak_answer import HttpAnswer, Order
from duet_trio.server.streamed import StreamedBody
from duet_trio.session.conversation import BusyError

RETRY_AFTER_S = "5"


def known_format(name: str, param: str) -> AudioFormat:
    """The format of that name. Raises `RefusalError`."""
    found = FORMATS.get(name)
    if found is None:
        raise RefusalError(
            400, f"unknown format; known are {', '.join(FORMATS)}", code="bad_format", param=param
        )
    return found


def refusal_of(error: EngineError) -> RefusalError:
    """An engine's failure, as a response that is no success: its plain reason, and to try again."""
    code = "busy" if isinstance(error, BusyError) else "engine_failed"
    return RefusalError(503, error.reason, code=code, headers={"Retry-After": RETRY_AFTER_S})


async def audio_response(
    site: Site, workshop: Workshop, order: Order, form: AudioFormat
) -> Response:
    """Begin an answer and the response that carries it. Raises `RefusalError` if it fails at once.

    To be called from within a request; what is started ends with it.
    """
    if form.encoder:
        try:
            workshop.check()
        except NoConverterError as error:
            raise RefusalError(501, str(error), code="no_converter") from None
    nursery = cast(DuetRequest, request).nursery
    answer = HttpAnswer(site.services, site.gate, order)
    nursery.start_soon(answer.run)
    try:
        await answer.first()
    except EngineError as error:
        raise refusal_of(error) from None
    encoded: Encoded | None = None
    if form.encoder:
        encoded = await nursery.start(workshop.encode, form.encoder, answer.next_block)
    response = Response(b"", mimetype=form.mimetype)
    header = wav_header() if form is FORMATS["wav"] else b""
    response.response = AudioBody(answer, encoded, header, site.turnstile)
    response.headers.pop("Content-Length", None)
    response.headers["X-Generation"] = str(answer.generation)
    return response


class AudioBody(StreamedBody):
    """The answer's audio in one format.

    Iterating raises `CutOffError` when the answer fails under way; the response then breaks off.
    """

    def __init__(
        self, answer: HttpAnswer, encoded: Encoded | None, header: bytes, turnstile: Turnstile
    ) -> None:
        self._answer = answer
        self._encoded = encoded
        self._header = header
        self._turnstile = turnstile

    async def __anext__(self) -> bytes:
        chunk = await self._next()
        await self._turnstile.through()
        if not chunk:
            raise StopAsyncIteration
        self._answer.left(len(chunk))
        return chunk

    async def _next(self) -> bytes:
        if self._encoded is not None:
            return await self._encoded.read()
        block = await self._answer.next_block() or b""
        # The header goes with the first audio; of an answer without any it is all there is.
        header, self._header = self._header, b""
        return header + block
