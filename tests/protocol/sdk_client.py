"""Run by ``test_public_sdk.py`` in a process of its own: one conversation of a public client.

Usage: sdk_client.py OTA_URL MODE WAV; prints one JSON object. The client is `xiaozhi-sdk`, as it
comes from the package index; it runs on asyncio, which this project keeps out of its own process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any


async def converse(ota_url: str, mode: str, recording: str) -> dict[str, Any]:
    from xiaozhi_sdk import XiaoZhiWebsocket  # type: ignore[import-untyped]

    messages: list[dict[str, Any]] = []
    changed = asyncio.Event()

    async def on_message(message: dict[str, Any]) -> None:
        messages.append(message)
        changed.set()

    def count(kind: str, state: str | None = None) -> int:
        return sum(
            m.get("type") == kind and (state is None or m.get("state") == state) for m in messages
        )

    async def until(kind: str, state: str | None, number: int) -> None:
        while count(kind, state) < number:
            changed.clear()
            await asyncio.wait_for(changed.wait(), 20)

    client = XiaoZhiWebsocket(
        message_handler_callback=on_message, ota_url=ota_url, audio_sample_rate=16000
    )
    client.mode = mode
    await client.set_mcp_tool(
        [
            {
                "name": "self.lamp.turn_on",
                "description": "Turn the lamp on",
                "inputSchema": {"type": "object", "properties": {}, "required": []},
                "tool_func": lambda _arguments: ("on", False),
            }
        ]
    )
    await client.init_connection("02:00:00:00:00:42")

    await client.send_text("A typed question?")
    await until("tts", "stop", 1)
    typed_audio = len(client.output_audio_queue)

    with wave.open(recording, "rb") as wav:
        pcm = wav.readframes(wav.getnframes())
    for start in range(0, len(pcm) - 1919, 1920):
        await client.send_audio(pcm[start : start + 1920])
        await asyncio.sleep(0.06)
    await until("stt", None, 2)
    await until("tts", "start", 2)
    await until("tts", "sentence_start", 2)
    await client.send_abort()
    await until("tts", "stop", 2)
    await asyncio.sleep(0.3)
    after = len(client.output_audio_queue)
    await asyncio.sleep(0.5)
    late = len(client.output_audio_queue) - after
    await client.close()
    return {
        "session_id": client.session_id,
        "texts": [m["text"] for m in messages if m.get("type") == "stt"],
        "starts": count("tts", "start"),
        "stops": count("tts", "stop"),
        "typed_audio": typed_audio,
        "late_frames": late,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(converse(*sys.argv[1:4]))))
