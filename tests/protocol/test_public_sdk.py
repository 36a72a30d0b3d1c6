"""A client that others wrote, against a real server: OTA, WebSocket, typed and spoken questions,
abort; in auto and in realtime mode.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import wave
from pathlib import Path

import pytest
import trio

from duet_trio.bench.processes import CONFIG_FOLDER, serving
from duet_trio.lab.lab import quiet

CLIENT = Path(__file__).with_name("sdk_client.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("xiaozhi_sdk") is None,
        reason="xiaozhi-sdk is not installed (it is in the extra 'test')",
    ),
]


def speech() -> bytes:
    """Something that the speech detector takes for speech: a hum with the rhythm of syllables."""
    import numpy as np

    times = np.arange(16_000 * 2) / 16_000
    voice = sum(np.sin(2 * np.pi * 130 * k * times) / k for k in range(1, 25))
    syllables = np.clip(np.sin(2 * np.pi * 4 * times), 0, 1)
    return bytes((3000 * voice * syllables).astype("<i2").tobytes())


@pytest.mark.parametrize("mode", ["auto", "realtime"])
async def test_a_conversation_with_the_public_client(tmp_path: Path, mode: str) -> None:
    recording = tmp_path / "question.wav"
    with wave.open(str(recording), "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16_000)
        wav.writeframes(quiet(0.5) + speech() + quiet(1.5))
    async with serving(CONFIG_FOLDER / "scripted.toml", [], tmp_path) as server:
        ota_url = f"http://127.0.0.1:{server.http_port}/xiaozhi/ota/"
        with trio.fail_after(60):
            done = await trio.run_process(
                [sys.executable, str(CLIENT), ota_url, mode, str(recording)],
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
    assert done.returncode == 0, done.stdout.decode()
    heard = json.loads(done.stdout.decode().strip().splitlines()[-1])
    assert heard["session_id"]
    assert heard["texts"][0] == "A typed question?"
    assert len(heard["texts"]) == 2
    assert heard["starts"] == heard["stops"] == 2
    assert heard["typed_audio"] > 10
    assert heard["late_frames"] == 0
