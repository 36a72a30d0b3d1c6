"""``/speak``: a text, or a model's answer to one, as audio or on a board."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import trio
from quart import Response, jsonify, request
from quart_trio import QuartTrio

from duet_trio.engines.contracts import Message
from duet_trio.server.audio_response import audio_response, known_format
from duet_trio.server.containers import Workshop
from duet_trio.server.site import RefusalError, Site, request_body
from duet_trio.server.speak_answer import Order
from duet_trio.session.announcement import Announcement
from duet_trio.session.answer import Question
from duet_trio.session.connection import BoardSession
from duet_trio.wire.handshake import clean_id

#: Announcements that wait for one board; more is a program that runs wild.
MAX_WAITING = 8


class SpeakRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of ``POST /speak``: ``text`` or ``prompt``, and how."""

    text: str = ""
    prompt: str = ""
    voice: str = ""
    format: str = "wav"
    device: str = ""
    interrupt: bool = False


def read_json(data: bytes, kind: type[Any]) -> Any:
    """A body as a value of ``kind``. Raises `RefusalError` with what is wrong where."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$.")
        raise RefusalError(400, f"{where}: {text}" if where else text, param=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusalError(400, "the body is not valid JSON") from None


def checked_text(site: Site, text: str, param: str) -> str:
    """The text, if it is one to speak. Raises `RefusalError`."""
    most = site.config.server.max_text
    if len(text) > most:
        raise RefusalError(413, f"longer than {most} characters (server.max_text)", param=param)
    if not text.strip():
        raise RefusalError(400, "there is nothing to say", param=param)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RefusalError(400, "not valid Unicode", param=param) from None
    return text


def add_routes(app: QuartTrio, site: Site) -> None:
    """``GET`` and ``POST /speak``."""
    workshop = Workshop()
    clients = count(1)

    @app.get("/speak")
    async def speak_from_address() -> Response:
        arguments = request.args
        wanted = SpeakRequest(
            text=arguments.get("text", ""),
            prompt=arguments.get("prompt", ""),
            voice=arguments.get("voice", ""),
            format=arguments.get("format", "wav"),
        )
        if "device" in arguments:
            raise RefusalError(400, "a board is spoken to by POST", param="device")
        if request.method == "HEAD":
            return Response(b"", mimetype=known_format(wanted.format, "format").mimetype)
        return await as_audio(wanted)

    @app.post("/speak")
    async def speak() -> Response:
        wanted: SpeakRequest = read_json(await request_body(), SpeakRequest)
        return await (on_board(wanted) if wanted.device else as_audio(wanted))

    async def as_audio(wanted: SpeakRequest) -> Response:
        form = known_format(wanted.format, "format")
        client = f"speak-{next(clients)}"
        if _is_prompt(wanted):
            prompt = checked_text(site, wanted.prompt, "prompt")
            lines = [
                Message("system", site.config.llm.system_prompt),
                Message("user", prompt),
            ]
            messages = [line for line in lines if line.content.strip()]
            order = Order(client, messages=messages, voice=_voice(site, wanted.voice))
        else:
            text = checked_text(site, wanted.text, "text")
            order = Order(client, say=text, voice=_voice(site, wanted.voice))
        return await audio_response(site, workshop, order, form)

    async def on_board(wanted: SpeakRequest) -> Response:
        if wanted.voice:
            raise RefusalError(400, "a board speaks with its own voice", param="voice")
        session = _session(site, clean_id(wanted.device))
        if _is_prompt(wanted):
            text, say = checked_text(site, wanted.prompt, "prompt"), None
        else:
            text = say = checked_text(site, wanted.text, "text")
        question = Question(text, trio.current_time(), "announcement", say=say)
        announcement = Announcement(question)
        conversation = session.conversation
        if len(conversation.announcements) >= MAX_WAITING:
            raise RefusalError(429, "too much waits for this board", code="busy")
        conversation.announce(announcement, interrupt=wanted.interrupt)
        try:
            await announcement.over.wait()
        finally:
            conversation.withdraw(announcement, "client_gone")
        return jsonify(
            {
                "device": session.board,
                "outcome": announcement.outcome,
                "heard": announcement.heard,
                "why": announcement.cause,
            }
        )


def _is_prompt(wanted: SpeakRequest) -> bool:
    if bool(wanted.text) == bool(wanted.prompt):
        raise RefusalError(400, "give either 'text' or 'prompt'", param="text")
    return bool(wanted.prompt)


def _voice(site: Site, name: str) -> str:
    return (name or site.config.voice.name)[:100]


def _session(site: Site, device: str) -> BoardSession:
    session = site.boards.sessions.get(device)
    if session is None:
        raise RefusalError(404, "no such board is connected", code="unknown_board", param="device")
    if not session.protocol.may_speak:
        raise RefusalError(
            409,
            "the board is still connecting: it would drop the audio until somebody has used it",
            code="board_not_ready",
            param="device",
        )
    return session
