"""The OpenAI-compatible API: models, speech, transcriptions, chat.

Programs that know that API need only another address. What it has and we do not is refused with a
plain word, never ignored in silence where it would change the result.
"""

from __future__ import annotations

from pathlib import PurePath

from quart import Response, jsonify
from quart_trio import QuartTrio

from duet_trio.config import Config
from duet_trio.server import openai_audio, openai_chat
from duet_trio.server.site import RefusalError, Site

OWNER = "duet-trio"
#: What many programs ask for without letting anybody choose.
COMMON = ("tts-1", "whisper-1")


def model_ids(config: Config) -> list[str]:
    """All ids that are listed; each is accepted everywhere, since there is one of each engine."""
    own = [
        PurePath(name.replace("\\", "/")).name
        for name in (config.llm.model, config.tts.model, config.asr.model)
    ]
    return list(dict.fromkeys(["duet", *filter(None, own), *COMMON]))


def add_routes(app: QuartTrio, site: Site) -> None:
    """Everything below ``/v1``."""
    ids = model_ids(site.config)

    def entry(name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}

    def check(name: str) -> None:
        if name not in ids:
            raise RefusalError(
                404, f"no model named {name[:80]!r} here; see /v1/models",
                code="model_not_found", param="model",
            )  # fmt: skip

    @app.get("/v1/models")
    async def models() -> Response:
        return jsonify({"object": "list", "data": [entry(name) for name in ids]})

    @app.get("/v1/models/<path:name>")
    async def model(name: str) -> Response:
        check(name)
        return jsonify(entry(name))

    openai_audio.add_routes(app, site, check)
    openai_chat.add_routes(app, site, check)
