"""A process that opens an engine once, makes a voice or speaks a line, and goes.

``python -m duet_trio.engines.native.maker``: one JSON `Task` on standard input, one JSON
`Outcome` on standard output. The command line starts it, because no engine's library is ever
loaded into the main process: it may abort.
"""

from __future__ import annotations

import os
import sys
import time
import wave
from pathlib import Path

import msgspec

from duet_trio.engines.adapters.qwen import QwenAdapter
from duet_trio.engines.contracts import SPEECH_RATE_HZ
from duet_trio.engines.native.loading import open_engine
from duet_trio.engines.native.maker_task import Outcome, Task
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.engines.pipe import SpeakJob
from duet_trio.engines.worker import claim_pipes
from duet_trio.errors import DuetError, UsageError


def run(task: Task) -> Outcome:
    """Do it in this process."""
    return _make(task) if task.do == "make" else _say(task)


def _make(task: Task) -> Outcome:
    began = time.monotonic()
    engine = open_engine(task.settings)
    loaded = time.monotonic()
    with engine.native as native:
        store = VoiceStore(Path(task.settings["voices"]))
        draft = Path(task.draft) if task.draft else None
        record = store.read_draft(draft).record if draft else store.read(task.voice)
        reused = store.load(record, engine.model.identity) is not None
        if not reused:
            store.make(record, engine.model.identity, native, draft)
        return Outcome(
            engine=native.info.engine,
            identity=engine.model.identity,
            load_s=loaded - began,
            work_s=time.monotonic() - loaded,
            reused=reused,
        )


def _say(task: Task) -> Outcome:
    adapter = QwenAdapter()
    began = time.monotonic()
    loaded = adapter.load({**task.settings, "voice": task.voice})
    ready = time.monotonic()
    pcm: list[bytes] = []
    job = SpeakJob(id=1, text=task.text, generation=1, piece=0, cap_s=task.cap_s, seed=task.seed)
    adapter.speak(job, pcm.append, lambda: False)
    done = time.monotonic()
    adapter.close()
    audio = b"".join(pcm)
    with wave.open(task.out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SPEECH_RATE_HZ)
        file.writeframes(audio)
    return Outcome(
        engine=loaded.info["engine"],
        load_s=ready - began,
        work_s=done - ready,
        audio_s=len(audio) / 2 / SPEECH_RATE_HZ,
    )


def main() -> None:
    """Read the task, do it, write the outcome."""
    commands, messages = claim_pipes()  # engines print to stdout
    with os.fdopen(commands, "rb") as source:
        task = msgspec.json.decode(source.read(), type=Task)
    try:
        outcome = run(task)
    except DuetError as error:
        outcome = Outcome(error=str(error), usage=isinstance(error, UsageError))
    except OSError as error:
        outcome = Outcome(error=f"{task.out or task.settings['voices']}: {error.strerror}")
    with os.fdopen(messages, "wb") as sink:
        sink.write(msgspec.json.encode(outcome))
    # An engine's destructors have nothing left to do here, and some crash while unloading.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
