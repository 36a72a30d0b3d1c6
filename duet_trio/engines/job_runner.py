"""Runs one job on an adapter, inside the worker: callbacks, cap, faults, the final message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from duet_trio.engines.adapter import SequenceLostError
from duet_trio.engines.cap import AudioCap
from duet_trio.engines.contracts import SPEECH_RATE_HZ, Spoken, Transcript, Written
from duet_trio.engines.injected import (
    ENDLESS_REPEATS,
    ENDLESS_TEXT,
    Committer,
    flood_message,
    short_block,
)
from duet_trio.engines.output import Output
from duet_trio.engines.pipe import (
    Block,
    Cancelled,
    DoneSpeak,
    DoneTranscribe,
    DoneWrite,
    Failed,
    FromWorker,
    Injected,
    Job,
    SpeakJob,
    Text,
    TranscribeJob,
    WriteJob,
)
from duet_trio.errors import EngineFailedError

POLL_S = 0.02


class RunningJob:
    """One job and its flags. ``cancel`` and ``pause`` are the command thread's."""

    def __init__(self, job: Job, output: Output) -> None:
        self.job = job
        self._output = output
        self._cancelled_at: float | None = None
        self._switch: Callable[[], None] | None = None  # set while the adapter's call runs
        self._switch_lock = threading.Lock()
        self._paused = threading.Event()
        self._cap = AudioCap(job.cap_s) if isinstance(job, SpeakJob) else None
        self._tokens = 0
        self._slow_since = 0.0
        self._slow_audio_s = 0.0
        self._fault = Committer(
            job.inject,
            seed=job.id,
            announce=lambda effect: output.send(Injected(job.id, effect)),
            write_raw=output.write_raw,
            flood=flood_message(job),
        )

    def cancel(self) -> None:
        """Ask it to stop."""
        if self._cancelled_at is None:
            self._cancelled_at = time.monotonic()
        with self._switch_lock:  # so that it is never thrown for the job after this one
            if self._switch is not None and self._obeys_cancel():
                self._switch()

    def pause(self) -> None:
        """Ask a writing step to end."""
        self._paused.set()

    def run(self, adapter: Any) -> None:
        """Do the job and send everything, the final message included. Never raises."""
        if self._obeys_cancel():
            self._output.send(Cancelled(self.job.id))
            return
        final = self._final(adapter)
        self._wait_out_lateness()
        self._output.send(Cancelled(self.job.id) if self._obeys_cancel() else final)

    def _final(self, adapter: Any) -> FromWorker:
        try:
            self._fault.before()
            result = None if self._fault.ending else self._in_engine(adapter)
            return self._ending() if self._fault.ending else self._done(result)
        except SequenceLostError:
            return Failed(self.job.id, "the sequence was lost", lost=True)
        except EngineFailedError as error:
            told = "" if error.reason == str(error) else error.reason
            return Failed(self.job.id, str(error), reason=told)
        except Exception as error:  # noqa: BLE001 - supervision border: the worker's job loop
            return Failed(self.job.id, f"{type(error).__name__}: {error}")

    def _in_engine(self, adapter: Any) -> Transcript | Written | Spoken:
        with self._switch_lock:
            self._switch = adapter.cancel_now
        try:
            return self._call(adapter)
        finally:
            with self._switch_lock:
                self._switch = None

    def _call(self, adapter: Any) -> Transcript | Written | Spoken:
        began = time.monotonic()
        job = self.job
        if isinstance(job, TranscribeJob):
            transcript: Transcript = adapter.transcribe(job, self._stop)
            if not self._stop():
                self._fault.count()
            self._slow_down(time.monotonic() - began)
            return transcript
        if isinstance(job, WriteJob):
            self._slow_since = began
            written: Written = adapter.write(job, self._emit_text, self._paused.is_set, self._stop)
            return written
        spoken: Spoken = adapter.speak(job, self._emit_block, self._stop)
        return spoken

    def _done(self, result: Transcript | Written | Spoken | None) -> FromWorker:
        match result:
            case Transcript():
                return DoneTranscribe(self.job.id, result)
            case Written():
                return DoneWrite(self.job.id, result)
            case Spoken() if self._cap is not None:
                capped = self._cap.capped or result.capped
                return DoneSpeak(self.job.id, Spoken(self._cap.audio_s, capped, result.incomplete))
            case _:
                return Failed(self.job.id, f"the adapter returned {result!r}")

    # --- what adapters call

    def _stop(self) -> bool:
        capped = self._cap is not None and self._cap.capped
        return self._obeys_cancel() or capped or bool(self._fault.ending)

    def _obeys_cancel(self) -> bool:
        at = self._cancelled_at
        return at is not None and not self._fault.ignores_cancel(time.monotonic() - at)

    def _emit_text(self, text: str) -> None:
        if not text or self._stop():
            return
        now = time.monotonic()
        self._slow_down(now - self._slow_since)
        self._output.send(Text(self.job.id, text))
        self._tokens += 1
        self._slow_since = time.monotonic()
        self._fault.count()

    def _emit_block(self, pcm: bytes) -> None:
        if self._cap is None or self._stop():
            return
        pcm = self._cap.take(pcm)
        if not pcm:
            return
        self._pace(len(pcm) / (2 * SPEECH_RATE_HZ))
        self._output.send(Block(self.job.id, pcm))
        self._fault.count()

    # --- slowness and lateness

    def _slow_down(self, natural_s: float) -> None:
        if self._fault.slow_factor > 1:
            self._sleep_until(time.monotonic() + natural_s * (self._fault.slow_factor - 1))

    def _pace(self, audio_s: float) -> None:
        if not self._fault.slow_factor:
            return
        if not self._slow_since:
            self._slow_since = time.monotonic()
        self._slow_audio_s += audio_s
        self._sleep_until(self._slow_since + self._slow_audio_s * self._fault.slow_factor)

    def _sleep_until(self, when: float) -> None:
        while not self._stop() and (left := when - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))

    def _wait_out_lateness(self) -> None:
        at = self._cancelled_at
        while at is not None and self._fault.late_s and not self._obeys_cancel():
            time.sleep(POLL_S)

    # --- injected endings

    def _ending(self) -> FromWorker:
        ending = self._fault.ending
        if ending == "error":
            raise EngineFailedError("injected error")
        self._fault.ending = ""  # output flows again, for what the ending itself puts out
        job = self.job
        if isinstance(job, SpeakJob):
            return self._spoken_ending(ending)
        if isinstance(job, WriteJob):
            return self._written_ending(ending, job.max_tokens)
        texts = {"empty": "", "short": "a", "endless": ENDLESS_TEXT.strip()}
        text, ratio = texts[ending], 1.0
        if ending == "endless":  # how a recogniser that loops looks
            text, ratio = " ".join([text] * ENDLESS_REPEATS), 20.0
        return DoneTranscribe(job.id, Transcript(text, compression_ratio=ratio))

    def _spoken_ending(self, ending: str) -> FromWorker:
        if ending == "short":
            self._emit_block(short_block())
        while ending == "endless" and not self._stop():
            self._emit_block(bytes(2 * SPEECH_RATE_HZ // 5))
            self._sleep_until(time.monotonic() + 0.1)
        return self._done(Spoken(0.0))

    def _written_ending(self, ending: str, max_tokens: int) -> FromWorker:
        if ending == "short":
            self._emit_text("a")
        while ending == "endless" and not (self._stop() or self._paused.is_set()):
            if self._tokens >= max_tokens:
                break
            self._emit_text(ENDLESS_TEXT)
            self._sleep_until(time.monotonic() + POLL_S)
        finished = ending != "endless"
        return DoneWrite(self.job.id, Written(self._tokens, finished))
