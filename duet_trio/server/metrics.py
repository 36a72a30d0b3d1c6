"""``/metrics`` for Prometheus, and the recorder that counts events as they are emitted.

Counting is a few dictionary look-ups per event, so it stands beside the trace at the same seam:
what the trace tells and what the metrics tell cannot differ. Label values are bounded: causes
beyond `MAX_CAUSES` different ones count as ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import trio
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from quart import Response
from quart_trio import QuartTrio

from duet_trio.events import Field

Value = TypeVar("Value")

MAX_CAUSES = 50
#: Answers that are being counted at once; beyond this the oldest is forgotten.
MAX_OPEN = 2000
_FIRST_AUDIO_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
_STOP_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_TURN_S = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0)


class Metrics:
    """A `Recorder` that counts. ``numbers`` gives what is read when somebody asks (queues …)."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self.numbers: Callable[[], Mapping[tuple[str, str], float]] = dict
        self.engines: Callable[[], Mapping[str, tuple[str, int]]] = dict
        self._clock = clock
        self._causes: set[str] = set()
        self._asked: dict[int, tuple[str, float]] = {}  # generation → (client, asked at)
        self._aborted: dict[int, float] = {}
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._answers = Counter(
            "duet_answers", "Answers by how they ended.", ("client", "outcome", "cause"),
            registry=registry,
        )  # fmt: skip
        self._first_audio = Histogram(
            "duet_first_audio_seconds", "Question accepted to first packet or block written.",
            ("client",), registry=registry, buckets=_FIRST_AUDIO_S,
        )  # fmt: skip
        self._abort_stop = Histogram(
            "duet_abort_to_stop_seconds", "Abort to `tts stop` written.",
            registry=registry, buckets=_STOP_S,
        )  # fmt: skip
        self._turn_wait = Histogram(
            "duet_turn_wait_seconds", "Waits for the turn on the GPU.", ("engine",),
            registry=registry, buckets=_TURN_S,
        )  # fmt: skip
        self._turn_held = Histogram(
            "duet_turn_held_seconds", "Stays on the GPU.", ("engine",),
            registry=registry, buckets=_TURN_S,
        )  # fmt: skip
        self._underruns = Counter(
            "duet_underruns", "Times a board ran dry inside an answer.", registry=registry
        )
        self._audio = Counter("duet_speech_seconds", "Speech made.", registry=registry)
        self._tokens = Counter("duet_llm_tokens", "Tokens written.", registry=registry)
        self._refused = Counter(
            "duet_http_refused", "HTTP requests turned away at the door.", ("status",),
            registry=registry,
        )  # fmt: skip
        self._restarts = Gauge(
            "duet_engine_restarts", "Restarts of an engine's worker.", ("engine",),
            registry=registry,
        )  # fmt: skip
        self._states = Gauge(
            "duet_engine_state", "1 for the state that an engine is in.", ("engine", "state"),
            registry=registry,
        )  # fmt: skip
        self._numbers = Gauge(
            "duet_queue", "Boards, connections and queues, now.", ("of", "what"),
            registry=registry,
        )  # fmt: skip

    def refused(self, status: int) -> None:
        """A request was turned away."""
        self._refused.labels(str(status)).inc()

    def emit(
        self,
        event: str,
        *,
        board: str | None = None,
        generation: int | None = None,
        **fields: Field,
    ) -> None:
        """Count (see `Recorder.emit`)."""
        if event == "pcm":
            self._audio.inc(_number(fields, "audio_ms") / 1000)
        elif event == "sent" and generation is not None:
            self._on_sent(generation, str(fields.get("what", "")))
        elif event == "turn":
            who = str(fields.get("who", ""))
            self._turn_wait.labels(who).observe(_number(fields, "waited_ms") / 1000)
            self._turn_held.labels(who).observe(_number(fields, "held_ms") / 1000)
        elif event == "underrun":
            self._underruns.inc()
        elif event == "llm.end":
            self._tokens.inc(_number(fields, "tokens"))
        elif generation is not None:
            self._on_answer(event, board, generation, fields)

    def _on_answer(
        self, event: str, board: str | None, generation: int, fields: Mapping[str, Field]
    ) -> None:
        if event == "answer.start":
            _bounded(self._asked, generation, ("board" if board else "http", self._clock()))
        elif event == "abort":
            _bounded(self._aborted, generation, self._clock())
        elif event == "answer.end":
            self._asked.pop(generation, None)
            cause = str(fields.get("cause", ""))
            if cause not in self._causes and len(self._causes) >= MAX_CAUSES:
                cause = "other"
            self._causes.add(cause)
            client = "board" if board else "http"
            self._answers.labels(client, str(fields.get("outcome", "")), cause).inc()

    def _on_sent(self, generation: int, what: str) -> None:
        if what in ("frame", "audio") and generation in self._asked:
            client, at = self._asked.pop(generation)
            self._first_audio.labels(client).observe(self._clock() - at)
        elif what == "tts.stop" and generation in self._aborted:
            self._abort_stop.observe(self._clock() - self._aborted.pop(generation))

    def render(self) -> bytes:
        """What Prometheus reads."""
        for (of, what), number in self.numbers().items():
            self._numbers.labels(of, what).set(number)
        for engine, (state, restarts) in self.engines().items():
            self._restarts.labels(engine).set(restarts)
            for name in ("loading", "ready", "busy", "restarting", "failed"):
                self._states.labels(engine, name).set(name == state)
        return generate_latest(self._registry)


def _bounded(table: dict[int, Value], key: int, value: Value) -> None:
    table[key] = value
    if len(table) > MAX_OPEN:
        del table[next(iter(table))]


def _number(fields: Mapping[str, Field], name: str) -> float:
    value = fields.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def add_routes(app: QuartTrio, metrics: Metrics) -> None:
    """``GET /metrics``."""

    @app.get("/metrics")
    async def show_metrics() -> Response:
        return Response(metrics.render(), content_type=CONTENT_TYPE_LATEST)
