"""Engines elsewhere: any server with the OpenAI-compatible HTTP API (three adapters).

They run in a worker like all others, so that deadlines, cancels and restarts are the same. Each
job runs on a thread of its own, `SLOTS` of them at once.

An answer keeps its HTTP response open between two steps: not reading is the pause, and TCP tells
the server. A response that was cut meanwhile counts as a lost sequence: the prompt goes again,
with the text so far as the assistant's last message (llama.cpp's server goes on from it, and so
do others that know prefilling).
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

from duet_trio.engines.adapter import Flag, Loaded, SequenceLostError
from duet_trio.engines.adapters.openai_http import Api, Exchange
from duet_trio.engines.contracts import LISTEN_RATE_HZ, Spoken, Transcript, Written
from duet_trio.engines.pipe import SpeakJob, TranscribeJob, WriteJob
from duet_trio.errors import EngineFailedError

SLOTS = 8
BLOCK_BYTES = 4800  # 100 ms of speech


class RemoteAdapter:
    """What the three have in common."""

    kind = ""

    def load(self, settings: dict[str, Any]) -> Loaded:
        """Nothing is loaded, and nobody asked: the server may come later.

        Raises `ConfigError` or `MissingFileError` for an unusable address or key.
        """
        self._settings = settings
        self._api = Api.from_settings(self.kind, settings)
        return Loaded(
            slots=SLOTS,
            longest_step_ms=50.0,  # a shut socket wakes its reader at once
            info={"engine": "openai", "model": settings.get("model", ""), "at": self._api.where},
        )

    def cancel_now(self) -> None:
        """Shut the sockets of all jobs that are cancelled."""
        self._api.shut_cancelled()


class OpenAiAsrAdapter(RemoteAdapter):
    """``POST /audio/transcriptions``."""

    kind = "asr"

    def transcribe(self, job: TranscribeJob, cancelled: Flag) -> Transcript:
        """Send the utterance as a WAV file."""
        fields = {"model": self._settings.get("model", ""), "response_format": "json"}
        if job.language:
            fields["language"] = job.language
        boundary = uuid.uuid4().hex
        body = multipart(boundary, fields, wav(job.pcm, LISTEN_RATE_HZ))
        with self._api.post(
            "/audio/transcriptions", body, f"multipart/form-data; boundary={boundary}", cancelled
        ) as exchange:
            answer = exchange.read_json()
        text = answer.get("text")
        if not isinstance(text, str):
            raise EngineFailedError("the transcription service sent no text")
        return Transcript(text.strip(), job.language)


class OpenAiTtsAdapter(RemoteAdapter):
    """``POST /audio/speech`` with 24 kHz PCM as the response."""

    kind = "tts"

    def speak(self, job: SpeakJob, emit_block: Callable[[bytes], None], cancelled: Flag) -> Spoken:
        """Give the PCM as it comes, in whole samples."""
        body = {
            "model": self._settings.get("model", ""),
            "input": job.text,
            "voice": job.voice or self._settings.get("voice", ""),
            "response_format": "pcm",
        }
        rest = b""
        first = True
        with self._api.post_json("/audio/speech", body, cancelled) as exchange:
            while not cancelled() and (chunk := exchange.read_some(BLOCK_BYTES)):
                if first and chunk.startswith(b"RIFF"):
                    raise EngineFailedError("the speech service sent WAV where PCM was asked for")
                first = False
                pcm = rest + chunk
                whole = len(pcm) & ~1  # half a sample would shift all that follows
                rest = pcm[whole:]
                emit_block(pcm[:whole])
        return Spoken(0.0)  # the worker counts


class OpenAiLlmAdapter(RemoteAdapter):
    """``POST /chat/completions``, streamed; an answer is one response, read step by step."""

    kind = "llm"

    def load(self, settings: dict[str, Any]) -> Loaded:
        """See `RemoteAdapter`."""
        self._lock = threading.Lock()
        self._answers: dict[int, Exchange] = {}
        return super().load(settings)

    def write(
        self,
        job: WriteJob,
        emit_text: Callable[[str], None],
        should_pause: Flag,
        cancelled: Flag,
    ) -> Written:
        """Read on; each event counts as a token."""
        if job.messages is not None:
            self.close_stream(job.stream)
            exchange = self._ask(job, cancelled)
        else:
            with self._lock:
                known = self._answers.pop(job.stream, None)
            if known is None:
                raise SequenceLostError
            exchange = known
            exchange.attend(cancelled)
        tokens = 0
        keep = False
        try:
            while tokens < job.max_tokens and not (should_pause() or cancelled()):
                text = self._next_text(exchange, fresh=tokens > 0 or job.messages is not None)
                if text is None:
                    return Written(tokens, finished=True)
                emit_text(text)
                tokens += 1
            keep = not cancelled()
        finally:
            if keep:
                exchange.rest()
                with self._lock:
                    self._answers[job.stream] = exchange
            else:
                exchange.close()
        return Written(tokens, finished=False)

    def close_stream(self, stream: int) -> None:
        """Hang up; the server stops when it notices."""
        with self._lock:
            exchange = self._answers.pop(stream, None)
        if exchange is not None:
            exchange.close()

    def _ask(self, job: WriteJob, cancelled: Flag) -> Exchange:
        messages = [{"role": m.role, "content": m.content} for m in job.messages or ()]
        if job.written:
            messages.append({"role": "assistant", "content": job.written})
        body = {
            "model": self._settings.get("model", ""),
            "messages": messages,
            "stream": True,
            "max_tokens": int(self._settings.get("max_tokens", 400)),
            "temperature": float(self._settings.get("temperature", 0.7)),
        }
        return self._api.post_json("/chat/completions", body, cancelled)

    def _next_text(self, exchange: Exchange, *, fresh: bool) -> str | None:
        """The next bit of text; None at the end of the answer.

        A response that was cut while it rested is a lost sequence, later it is an error.
        """
        while True:
            try:
                line = exchange.read_line()
            except EngineFailedError:
                if fresh:
                    raise
                raise SequenceLostError from None
            if not line and not fresh:
                raise SequenceLostError
            if not line:
                raise EngineFailedError("the answer's stream ended too early")
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return None
            text, finished = _delta(data)
            if text:
                return text
            if finished:
                return None


def _delta(data: bytes) -> tuple[str, bool]:
    """One event's text, and whether it ends the answer."""
    try:
        event = json.loads(data)
        choice = event["choices"][0] if event.get("choices") else {}
        text = (choice.get("delta") or {}).get("content") or ""
        return str(text), bool(choice.get("finish_reason"))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise EngineFailedError(f"an event that cannot be read: {data[:100]!r}") from None


def wav(pcm: bytes, rate_hz: int) -> bytes:
    """A WAV file around s16le mono PCM."""
    header = b"RIFF" + (36 + len(pcm)).to_bytes(4, "little") + b"WAVEfmt \x10\0\0\0\1\0\1\0"
    rates = rate_hz.to_bytes(4, "little") + (2 * rate_hz).to_bytes(4, "little") + b"\2\0\x10\0"
    return header + rates + b"data" + len(pcm).to_bytes(4, "little") + pcm


def multipart(boundary: str, fields: dict[str, str], audio: bytes) -> bytes:
    """A form with text fields and one file named ``file``."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="file"; filename="utterance.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    )
    return b"".join(parts) + head.encode() + audio + f"\r\n--{boundary}--\r\n".encode()
