"""What an engine is to the rest of the system: three calls, and the rules they all keep.

Rules for every call here (``transcribe``, ``write``, ``speak``):

* It is a checkpoint, and returns only when the engine is *idle* again for that job.
* Cancelling it returns at once. The engine is asked to stop; a job that cannot be
  interrupted is disowned, and keeps its slot and its GPU hold until the engine says idle or
  its process has been reaped. Nothing of a cancelled job reaches its callback afterwards.
* It has a deadline of its own, kept by the engine's client, which runs only while the engine
  has been asked (not while waiting for a slot). A passed deadline kills the worker and raises
  `EngineHungError`; a died worker raises `EngineCrashedError`; an error that the engine
  reports raises `EngineFailedError`; an engine that is not ready `EngineUnavailableError`.
* Callbacks are synchronous and must not raise: no engine ever waits for a consumer, and no
  half-delivered item can be lost to a cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

#: Every voice delivers 16-bit little-endian mono PCM at this rate (adapters resample).
SPEECH_RATE_HZ = 24_000
#: Recognition takes 16-bit little-endian mono PCM at this rate.
LISTEN_RATE_HZ = 16_000

EngineKind = Literal["asr", "llm", "tts"]
EngineState = Literal["loading", "ready", "busy", "restarting", "failed"]
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Inject:
    """A fault that the worker commits during this job; engines see it, they never choose it.

    ``effect`` is one of the effects of ``faults.plan``; ``at`` counts what the engine puts
    out (tokens, blocks): 0 = before anything, n = after the n-th; ``value`` is the effect's
    own number (the factor of ``slow``, the seconds of ``late``).
    """

    effect: str
    at: int = 0
    value: float = 0.0


class Hold(Protocol):
    """One stay on the GPU. It ends when its owner has left *and* no job is attached."""

    def attach(self) -> None:
        """A job that uses the GPU under this hold has been sent to an engine."""

    def detach(self) -> None:
        """That job is over: its engine said idle, or its process has been reaped."""


@dataclass(frozen=True, slots=True)
class Message:
    """One line of a chat prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was recognised in one utterance."""

    text: str
    language: str = ""
    no_speech_probability: float = 0.0
    compression_ratio: float = 1.0
    mean_log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """One utterance: 16 kHz s16le mono PCM. Speculative ones yield to real ones in the queue."""

    pcm: bytes
    board: str | None = None
    language: str = ""
    speculative: bool = False
    inject: Inject | None = None


class Asr(Protocol):
    """Speech recognition."""

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""

    async def transcribe(self, request: ListenRequest) -> Transcript:
        """Recognise one utterance (see the module's rules)."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Go on writing, at most ``max_tokens`` tokens."""

    max_tokens: int
    inject: Inject | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What one `LlmStream.write` did.

    ``finished``: the model ended its text (or the context is full); ``reevaluated_tokens``:
    prompt tokens that had to be computed again although they had been before.
    """

    tokens: int
    finished: bool
    prompt_tokens: int = 0
    reevaluated_tokens: int = 0


class LlmStream(Protocol):
    """One answer's text, pulled: not asking is the pause."""

    async def write(
        self,
        request: WriteRequest,
        on_text: Callable[[str], bool],
        hold: Hold | None = None,
    ) -> Written:
        """Write on. ``on_text`` gets each bit of text as it comes and returns whether to go
        on; after ``False`` the engine stops as soon as it can, and the few tokens that it wrote
        meanwhile are still given to ``on_text`` (whose value no longer counts): no text is lost.
        ``on_text`` must be quick: it may run in the task that reads from the engine. What it
        raises is raised here, and stops the engine.
        """

    def close(self) -> None:
        """Forget this answer; synchronous, may be called at any time, more than once."""


class Llm(Protocol):
    """A language model."""

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""

    def start(self, messages: Sequence[Message], *, generation: int) -> LlmStream:
        """Begin an answer to this prompt; nothing is computed before the first ``write``."""

    async def control_tokens(self) -> Sequence[str]:
        """The texts of the template's control tokens; they must never be spoken."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One piece of an answer to be spoken. ``cap_s`` bounds its audio (required)."""

    text: str
    generation: int
    piece: int
    cap_s: float
    voice: str = ""
    seed: int = 0
    inject: Inject | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """How a piece ended: seconds of audio delivered; whether the cap cut it; whether the voice
    left words out because it cannot read them (nothing at all: it raises `UnreadableError`).
    """

    audio_s: float
    capped: bool = False
    incomplete: bool = False


class Tts(Protocol):
    """A voice."""

    @property
    def slots(self) -> int:
        """Jobs that may run at once."""

    async def speak(
        self,
        request: SpeechRequest,
        on_block: Callable[[bytes], None],
        hold: Hold | None = None,
    ) -> Spoken:
        """Speak one piece; ``on_block`` gets PCM as it is made (`SPEECH_RATE_HZ`, s16le).

        ``on_block`` must be quick: it may run in the task that reads from the engine. What it
        raises is raised here, and stops the engine.
        """


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """For ``/health`` and the trace."""

    kind: EngineKind
    state: EngineState
    restarts: int = 0
    detail: str = ""
    pid: int | None = None
    info: dict[str, str] = field(default_factory=dict)


class TurnGate(Protocol):
    """The one gate to the GPU; ``engines.gpu_turn`` holds the real one and one that is always open.

    Used as ``async with gate.turn("llm", board=…, generation=…, urgency=…) as hold:``.
    """

    def turn(
        self,
        who: Literal["llm", "tts", "asr"],
        *,
        board: str | None,
        generation: int,
        urgency: Callable[[], float],
    ) -> Turn:
        """Ask for the turn. ``urgency`` gives seconds until that answer runs dry (less goes
        first); it is asked again at each hand-over. HTTP answers give ``math.inf``.
        """


class Turn(Protocol):
    """An async context manager around one stay on the GPU."""

    async def __aenter__(self) -> Hold:
        """Wait for the turn (a checkpoint)."""

    async def __aexit__(self, *exc: object) -> None:
        """Leave; the turn passes on once no attached job is left. Never waits."""
