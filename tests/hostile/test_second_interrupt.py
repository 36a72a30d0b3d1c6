"""Ctrl-C again and again: the server's own end is not broken into."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio
import trio.testing

from duet_trio.events import NullRecorder
from duet_trio.server.app import Server
from tests.protocol.peer import scripted


async def test_signals_are_received_until_the_last_worker_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = scripted(
        "server.host=127.0.0.1",
        "server.websocket_port=0",
        "server.http_port=0",
        f"server.state_dir='{tmp_path}'",
    )
    server = Server(config, NullRecorder(), last_words=lambda: None)
    usual = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    async def die_slowly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            seen.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setattr(server.engines, "run", die_slowly)
    codes: list[int] = []
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            codes.append(await server.run())

        nursery.start_soon(serve)
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)
    server.stop.done()
    assert codes == [130]
    assert seen != [usual]
    assert signal.getsignal(signal.SIGINT) == usual
