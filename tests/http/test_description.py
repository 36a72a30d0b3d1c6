"""The OpenAPI description: complete, and nothing that fits it brings a 500."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
import trio
from hypothesis import HealthCheck, Phase
from schemathesis.core.result import Ok

from duet_trio.server import openapi
from tests.http.house import House, open_house

EXAMPLES = 12


async def test_every_route_is_described_and_every_description_is_a_route(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        reply = await house.ask("GET", "/openapi.json")
        described = {
            (path.rstrip("/") or "/", method.upper())
            for path, methods in reply.json()["paths"].items()
            for method in methods
        }
        assert described == routes(house)


def routes(house: House) -> set[tuple[str, str]]:
    found = set()
    for rule in house.http._app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            found.add((path.rstrip("/") or "/", method))
    found.discard(("/favicon.ico", "GET"))
    return found


def test_references_resolve() -> None:
    document = openapi.description()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                target: Any = document
                for part in node["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
async def test_nothing_that_fits_the_description_brings_a_500(tmp_path: Path) -> None:
    """schemathesis makes requests, good ones and bad ones; a 503 has a plain reason."""
    async with open_house(tmp_path, "tts.rtf=0.001", "tts.first_audio_s=0.001") as house:
        seen: list[int] = []

        def fuzz() -> None:
            schema = schemathesis.openapi.from_dict(openapi.description())
            for result in schema.get_all_operations():
                assert isinstance(result, Ok)
                operation = result.ok()

                @hypothesis.settings(
                    max_examples=EXAMPLES,
                    deadline=None,
                    database=None,
                    phases=[Phase.explicit, Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                @hypothesis.given(case=operation.as_strategy())
                def one(case: Any) -> None:
                    response = case.call(base_url=house.url, timeout=10)
                    seen.append(response.status_code)
                    assert response.status_code not in (500, 502), (case, response.content[:300])
                    assert b"Traceback" not in response.content[:2000]

                one()

        with trio.fail_after(120):
            await trio.to_thread.run_sync(fuzz)
        assert len(seen) > 60
        assert {200, 400} <= set(seen)
        assert (await house.ask("GET", "/health")).status == 200
