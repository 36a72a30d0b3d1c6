"""A client that sends whatever it is told to, over a real WebSocket, and notes what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from duet_trio.board.link import parse_address
from duet_trio.config import Config, load
from duet_trio.engines.contracts import Asr, ListenRequest, Transcript
from duet_trio.lab.lab import URL, Lab
from duet_trio.opus import Encoder
from duet_trio.session.services import Services
from duet_trio.wire.framing import pack, unpack

HELLO: dict[str, Any] = {
    "type": "hello",
    "version": 1,
    "features": {},
    "transport": "websocket",
    "audio_params": {"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 60},
}
LONG = (
    "This is a scripted answer whose first sentence is long enough to be a piece. "
    "And here comes its second sentence, which is a piece of its own as well."
)


def scripted(*assignments: str) -> Config:
    """Scripted engines; the answer takes about nine seconds to say."""
    return load(
        None,
        [
            "asr.engine=scripted",
            "llm.engine=scripted",
            "tts.engine=scripted",
            f"llm.script=[{LONG!r}]",
            *assignments,
        ],
    )


@dataclass
class Peer:
    """One connection. ``log`` holds arrivals: seconds, and a message or a packet."""

    socket: WebSocketConnection
    version: int = 1
    log: list[tuple[float, dict[str, Any] | bytes]] = field(default_factory=list)
    closed: Any = None  # the reason, once the server has closed
    closed_at: float = 0.0
    _news: trio.Event = field(default_factory=trio.Event)

    async def say(self, kind: str, session_id: str | None = "", **body: Any) -> None:
        """Send a JSON message; ``session_id`` None: without one."""
        owner = {} if session_id is None else {"session_id": session_id}
        await self.raw(json.dumps({**owner, "type": kind, **body}))

    async def raw(self, data: str | bytes) -> None:
        """Send anything; nothing happens if the server is gone."""
        try:
            await self.socket.send_message(data)
        except ConnectionClosed:
            return

    async def listen(self, mode: str = "auto") -> None:
        await self.say("listen", state="start", mode=mode)

    async def speak(self, pcm: bytes, *, frame_ms: int = 60, speed: float = 1.0) -> None:
        """Say 16 kHz s16le PCM, packet by packet in real time (times ``speed``)."""
        encoder = Encoder(16_000, frame_ms, complexity=0, bitrate=None)
        start = trio.current_time()
        for number, packet in enumerate(encoder.packets(pcm), start=1):
            await self.raw(pack(self.version, packet))
            await trio.sleep_until(start + number * frame_ms / 1000 / speed)

    async def read(self) -> None:
        while True:
            try:
                data = await self.socket.get_message()
            except ConnectionClosed as error:
                self.closed, self.closed_at = error.reason, trio.current_time()
                self._wake()
                return
            self.log.append(
                (trio.current_time(), json.loads(data) if isinstance(data, str) else data)
            )
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def until(self, reached: Callable[[], object], limit_s: float = 60.0) -> None:
        """Wait for something to be true; looks again whenever a message has come."""
        with trio.fail_after(limit_s):
            while not reached():
                await self._news.wait()

    def messages(self, kind: str, state: str | None = None) -> list[dict[str, Any]]:
        return [message for _at, message in self._texts(kind, state)]

    def times(self, kind: str, state: str | None = None) -> list[float]:
        return [at for at, _message in self._texts(kind, state)]

    def packets(self) -> list[tuple[float, bytes]]:
        """Arrivals of audio, unframed."""
        return [
            (at, unpack(self.version, data).opus)
            for at, data in self.log
            if isinstance(data, bytes)
        ]

    def _texts(self, kind: str, state: str | None) -> list[tuple[float, dict[str, Any]]]:
        return [
            (at, data)
            for at, data in self.log
            if isinstance(data, dict)
            and data.get("type") == kind
            and (state is None or data.get("state") == state)
        ]

    async def stopped(self, count: int = 1) -> None:
        """Wait for so many ``tts stop``."""
        await self.until(lambda: len(self.messages("tts", "stop")) >= count)

    async def recognised(self, count: int = 1) -> list[str]:
        """Wait for so many ``stt``; returns the texts."""
        await self.until(lambda: len(self.messages("stt")) >= count)
        return [str(message["text"]) for message in self.messages("stt")]


@asynccontextmanager
async def meeting(
    lab: Lab,
    *,
    path: str = "/xiaozhi/v1/",
    headers: Sequence[tuple[str, str]] = (("Device-Id", "02:00:00:00:00:01"),),
    hello: dict[str, Any] | None = HELLO,
    version: int = 1,
    reads: bool = True,
) -> AsyncIterator[Peer]:
    """A connection to the lab's server. ``hello`` None: it says none (and waits for none)."""
    stream = await lab.connect(parse_address(URL))
    async with trio.open_nursery() as nursery:
        socket = await wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]
            "127.0.0.1",
            path,
            extra_headers=[(name.encode(), value.encode()) for name, value in headers],
        )
        peer = Peer(socket, version)
        if reads:
            nursery.start_soon(peer.read)
        if hello is not None:
            await peer.raw(json.dumps(hello))
            if reads:
                await peer.until(lambda: peer.messages("hello"), 5)
        yield peer
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


@dataclass
class Ear:
    """A recogniser that keeps what it was given."""

    inner: Asr
    heard: list[ListenRequest] = field(default_factory=list)

    @property
    def slots(self) -> int:
        return self.inner.slots

    async def transcribe(self, request: ListenRequest) -> Transcript:
        self.heard.append(request)
        return await self.inner.transcribe(request)


class Ears:
    """Put between the sessions and the recogniser of a lab: ``wrap`` for `open_lab`."""

    ear: Ear

    def wrap(self, services: Services) -> Services:
        self.ear = Ear(services.asr)
        return replace(services, asr=self.ear)

    def seconds(self) -> list[float]:
        """Lengths of the utterances that were recognised for real."""
        return [len(item.pcm) / 32000 for item in self.ear.heard if not item.speculative]
