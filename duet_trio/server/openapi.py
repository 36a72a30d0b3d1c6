"""The OpenAPI description, served at ``/openapi.json``. A test compares it with the routes."""

from __future__ import annotations

from typing import Any

from quart import Response, jsonify
from quart_trio import QuartTrio

from duet_trio import __version__
from duet_trio.server.containers import FORMATS

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 10_000}
_NAME: Json = {"type": "string", "maxLength": 100}
_FORMAT: Json = {"type": "string", "enum": list(FORMATS)}
_ANY: Json = {"type": "object"}


def description() -> Json:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "duet-trio",
            "version": __version__,
            "description": "A voice and a language model that take turns, for boards and programs."
            " From loopback no token is needed.",
        },
        "security": [{"bearer": []}],
        "paths": _board_paths() | _speak_paths() | _openai_paths() | _other_paths(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Error": _error_schema()},
        },
    }


def _error_schema() -> Json:
    fields = {name: {"type": ["string", "null"]} for name in ("type", "param", "code")}
    error = {
        "type": "object",
        "required": ["message"],
        "properties": {"message": {"type": "string"}, **fields},
    }
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


def _error(text: str) -> Json:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _answers(good: Json, *more: str) -> Json:
    known = {
        "400": _error("something in the request cannot be used"),
        "401": _error("a token is needed"),
        "403": _error("a page of another site"),
        "404": _error("no such thing"),
        "409": _error("the board is still connecting"),
        "413": _error("too long"),
        "421": _error("not our host name"),
        "429": _error("too much waits already"),
        "501": _error("a package for this format is not installed"),
        "503": _error("an engine failed or is busy; the reason is for people"),
    }
    return {"200": good, **{code: known[code] for code in ("401", "403", "421", *more)}}


def _json(schema: Json, text: str = "it worked") -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _audio() -> Json:
    kinds: Json = {one.mimetype: {} for one in FORMATS.values()}
    return {"description": "audio, streamed as it is made", "content": kinds}


def _body(schema: Json, kind: str = "application/json") -> Json:
    return {"required": True, "content": {kind: {"schema": schema}}}


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "schema": schema}


def _speak_paths() -> Json:
    fields: Json = {
        "text": {**_TEXT, "description": "is spoken as it is"},
        "prompt": {**_TEXT, "description": "is answered by the language model"},
        "voice": _NAME,
        "format": _FORMAT,
        "device": {**_NAME, "description": "a connected board; the response tells the outcome"},
        "interrupt": {"type": "boolean", "description": "end what the board says now"},
    }
    either = [{"required": ["text"]}, {"required": ["prompt"]}]
    body = {
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "oneOf": either,
    }
    outcome = {
        "type": "object",
        "required": ["device", "outcome", "heard", "why"],
        "properties": {
            "device": {"type": "string"},
            "outcome": {"enum": ["done", "aborted", "failed"]},
            "heard": {"type": "string"},
            "why": {"type": "string"},
        },
    }
    good = _audio()
    good["content"]["application/json"] = {"schema": outcome}
    queries = [_query(name, fields[name]) for name in ("text", "prompt", "voice", "format")]
    return {
        "/speak": {
            "get": {
                "summary": "Speak, from a browser's address bar",
                "parameters": queries,
                "responses": _answers(_audio(), "400", "413", "501", "503"),
            },
            "post": {
                "summary": "Speak a text or the answer to a prompt, here or on a board",
                "requestBody": _body(body),
                "responses": _answers(good, "400", "404", "409", "413", "429", "501", "503"),
            },
        }
    }


def _openai_paths() -> Json:
    speech = {
        "type": "object",
        "required": ["model", "input"],
        "properties": {
            "model": _NAME,
            "input": _TEXT,
            "voice": _NAME,
            "response_format": _FORMAT,
            "speed": {"type": "number"},
        },
    }
    line = {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant"]},
            "content": {"type": "string"},
        },
    }
    chat = {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {
            "model": _NAME,
            "messages": {"type": "array", "items": line, "minItems": 1},
            "stream": {"type": "boolean"},
            "max_tokens": {"type": "integer", "minimum": 1},
        },
    }
    recording = {
        "type": "object",
        "required": ["file", "model"],
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "model": _NAME,
            "language": {"type": "string"},
            "response_format": {"enum": ["json", "text", "verbose_json"]},
        },
    }
    completion = _json(_ANY)
    completion["content"]["text/event-stream"] = {}
    text = _json(_ANY)
    text["content"]["text/plain"] = {}
    one = {"name": "name", "in": "path", "required": True, "schema": {**_NAME, "minLength": 1}}
    return {
        "/v1/models": {
            "get": {
                "summary": "All models; each id is good everywhere",
                "responses": _answers(_json(_ANY)),
            }
        },
        "/v1/models/{name}": {
            "get": {
                "summary": "One model",
                "parameters": [one],
                "responses": _answers(_json(_ANY), "404"),
            }
        },
        "/v1/audio/speech": {
            "post": {
                "summary": "Speak (OpenAI)",
                "requestBody": _body(speech),
                "responses": _answers(_audio(), "400", "404", "413", "501", "503"),
            }
        },
        "/v1/audio/transcriptions": {
            "post": {
                "summary": "Recognise a recording (OpenAI)",
                "requestBody": _body(recording, "multipart/form-data"),
                "responses": _answers(text, "400", "404", "413", "501", "503"),
            }
        },
        "/v1/chat/completions": {
            "post": {
                "summary": "Let the language model answer (OpenAI)",
                "requestBody": _body(chat),
                "responses": _answers(completion, "400", "404", "413", "503"),
            }
        },
    }


def _board_paths() -> Json:
    plain: Json = {"description": "a line for people", "content": {"text/plain": {}}}
    return {
        "/xiaozhi/ota/": {
            "get": {
                "summary": "Is it here?",
                "security": [],
                "responses": {"200": plain, "421": _error("not our host name")},
            },
            "post": {
                "summary": "A board at boot: where to connect, and with which token",
                "security": [],
                "requestBody": {"content": {"application/json": {"schema": _ANY}}},
                "responses": {"200": _json(_ANY), "403": _error("a page of another site"),
                              "413": _error("too long"), "421": _error("not our host name")},
            },
        }
    }  # fmt: skip


def _other_paths() -> Json:
    plain: Json = {"description": "for Prometheus", "content": {"text/plain": {}}}
    page: Json = {"description": "the start page", "content": {"text/html": {}}}
    health = {
        "200": _json(_ANY, "ready"),
        "503": _json(_ANY, "loading or failed"),
        "421": _error("not our host name"),
        "403": _error("a page of another site"),
    }
    return {
        "/health": {"get": {"summary": "Is it ready?", "security": [], "responses": health}},
        "/metrics": {"get": {"summary": "Figures", "responses": _answers(plain)}},
        "/status": {"get": {"summary": "Boards and engines", "responses": _answers(_json(_ANY))}},
        "/openapi.json": {"get": {"summary": "This", "responses": _answers(_json(_ANY))}},
        "/": {"get": {"summary": "Start page", "responses": _answers(page)}},
    }


def add_routes(app: QuartTrio) -> None:
    """``GET /openapi.json``."""
    document = description()

    @app.get("/openapi.json")
    async def show_description() -> Response:
        return jsonify(document)
