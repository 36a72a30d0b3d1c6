"""A bare WebSocket client for measurements: as little as possible between the wire and the clock.

The simulated board models a real one and takes its time for that; here only arrival times count.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, open_websocket_url

HELLO = json.dumps(
    {
        "type": "hello",
        "version": 1,
        "transport": "websocket",
        "audio_params": {
            "format": "opus",
            "sample_rate": 16000,
            "channels": 1,
            "frame_duration": 60,
        },
    }
)
LISTEN = json.dumps({"type": "listen", "state": "start", "mode": "auto"})
ABORT = json.dumps({"type": "abort"})


@dataclass
class Talker:
    """One connection. ``arrivals`` are the packets' times, ``stops`` those of ``tts stop``."""

    socket: WebSocketConnection
    hello_s: float = 0.0
    arrivals: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    changed: trio.Event = field(default_factory=trio.Event)

    async def say(self, text: str) -> None:
        """Send one text message."""
        await self.socket.send_message(text)

    async def ask(self, question: str) -> None:
        """Type a question."""
        await self.say(json.dumps({"type": "listen", "state": "detect", "text": question}))

    async def read(self) -> None:
        """Note what arrives until the connection is gone."""
        while True:
            try:
                message = await self.socket.get_message()
            except ConnectionClosed:
                return
            now = trio.current_time()
            if isinstance(message, bytes):
                self.arrivals.append(now)
            elif '"tts"' in message:
                if '"stop"' in message:
                    self.stops.append(now)
                elif '"start"' in message and "sentence" not in message:
                    self.starts.append(now)
            self.changed.set()
            self.changed = trio.Event()

    async def until_packets(self, count: int) -> None:
        """Wait for so many packets in all."""
        while len(self.arrivals) < count:
            await self.changed.wait()

    async def until_stops(self, count: int) -> None:
        """Wait for so many stops in all."""
        while len(self.stops) < count:
            await self.changed.wait()


@asynccontextmanager
async def talking(url: str, number: int) -> AsyncIterator[Talker]:
    """An open connection that has said hello, is listening and reads."""
    headers = [
        (b"Device-Id", f"02:00:00:00:{number // 256:02x}:{number % 256:02x}".encode()),
        (b"Protocol-Version", b"1"),
    ]
    async with open_websocket_url(url, extra_headers=headers, disconnect_timeout=0.3) as socket:
        asked = trio.current_time()
        await socket.send_message(HELLO)
        await socket.get_message()
        talker = Talker(socket, hello_s=trio.current_time() - asked)
        await talker.say(LISTEN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talker.read)
            yield talker
            nursery.cancel_scope.cancel()
