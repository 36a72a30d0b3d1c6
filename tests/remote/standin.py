"""A stand-in for a server with the OpenAI API, on loopback, that misbehaves as told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11
import trio

PCM = b"\1\0\2\0" * 6000  # half a second at 24 kHz


@dataclass
class StandIn:
    """``mode`` is how it answers from now on; ``open`` counts connections, ``asked`` requests."""

    mode: str = "good"
    port: int = 0
    open: int = 0
    most_open: int = 0
    asked: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)
    words: list[str] = field(default_factory=lambda: ["One ", "two ", "three. ", "Four."])
    changed: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def until_closed(self) -> None:
        while self.open:
            await self.changed.wait()

    async def serve(self, stream: trio.SocketStream) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with trio.open_nursery() as nursery:
                await self._serve(stream, nursery)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.open -= 1
            self.changed.set()
            self.changed = trio.Event()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        target, headers, body = "", {}, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await stream.receive_some()
                if not data:
                    return
                http.receive_data(bytes(data))
            elif isinstance(event, h11.Request):
                target = event.target.decode()
                headers = {name.decode().lower(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                break
        self.asked.append((target, body, headers))

        async def watch() -> None:  # a client that hangs up ends us
            while await stream.receive_some():
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await self._answer(http, stream, target, body)
        nursery.cancel_scope.cancel()

    async def _answer(
        self, http: h11.Connection, stream: trio.SocketStream, target: str, body: bytes
    ) -> None:
        mode = self.mode
        if mode == "busy once":
            self.mode = "good"
            mode = "429 soon"
        if mode == "silent":
            await trio.sleep_forever()
        if mode == "garbage":
            await stream.send_all(b"\x16\x03\x01 this is not HTTP at all\r\n\r\n")
            return
        if mode.split()[0].isdecimal():
            await self._refuse(http, stream, mode)
            return
        if mode == "html":
            await self._send(http, stream, "text/html", [b"<html>Welcome to nginx!</html>"])
            return
        kind, parts = self._good(target, body)
        await self._send(http, stream, kind, parts)

    async def _refuse(self, http: h11.Connection, stream: trio.SocketStream, mode: str) -> None:
        status, _, rest = mode.partition(" ")
        headers = [("Content-Type", "application/json"), ("Connection", "close")]
        if status == "429":
            headers.append(("Retry-After", "0" if rest == "soon" else "30"))
        text = json.dumps({"error": {"message": "so it is"}}).encode()
        headers.append(("Content-Length", str(len(text))))
        reply = h11.Response(status_code=int(status), headers=headers)
        await stream.send_all(http.send(reply) or b"")
        await stream.send_all(http.send(h11.Data(data=text)) or b"")

    def _good(self, target: str, body: bytes) -> tuple[str, list[bytes]]:
        if target.endswith("/audio/speech"):
            head = b""
            if self.mode == "wav":
                rates = (24_000).to_bytes(4, "little") + (48_000).to_bytes(4, "little")
                head = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0" + rates
                head += b"\2\0\x10\0data\xff\xff\xff\xff"
            audio = head + PCM
            parts = [audio[at : at + 4801] for at in range(0, len(audio), 4801)]
            return "audio/pcm", parts * (1000 if self.mode == "endless" else 1)
        if target.endswith("/audio/transcriptions"):
            return "application/json", [json.dumps({"text": " heard it "}).encode()]
        events = [
            {"choices": [{"delta": {"content": word}, "finish_reason": None}]}
            for word in self.words
        ]
        lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
        return "text/event-stream", [b": hello\n\n", *lines, b"data: [DONE]\n\n"]

    async def _send(
        self, http: h11.Connection, stream: trio.SocketStream, kind: str, parts: list[bytes]
    ) -> None:
        headers = [("Content-Type", kind), ("Transfer-Encoding", "chunked")]
        await stream.send_all(http.send(h11.Response(status_code=200, headers=headers)) or b"")
        for number, part in enumerate(parts):
            if self.mode == "breaks off" and number == len(parts) // 2:
                return
            if self.mode == "stalls" and number == len(parts) - 1:
                await trio.sleep_forever()
            await stream.send_all(http.send(h11.Data(data=part)) or b"")
            if self.mode == "slow":
                await trio.sleep(0.05)
        await stream.send_all(http.send(h11.EndOfMessage()) or b"")


@asynccontextmanager
async def standing_in(mode: str = "good") -> AsyncIterator[StandIn]:
    """A running stand-in."""
    it = StandIn(mode)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    it.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, it.serve, listeners)
        yield it
        nursery.cancel_scope.cancel()
