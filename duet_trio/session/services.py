"""What a session needs from the rest of the server, in one immutable bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from duet_trio.config import Config
from duet_trio.engines.admission import Admission
from duet_trio.engines.contracts import Asr, Llm, Tts, TurnGate
from duet_trio.events import Recorder
from duet_trio.session.loop_turns import LoopTurns
from duet_trio.session.once import Once
from duet_trio.session.speech_line import PacketEncoder
from duet_trio.speech.budget import Estimates

#: Uplink packets heard in one pass of the event loop: 0.6 ms, in which no due packet can leave.
EARS_AT_ONCE = 2


class VoiceActivity(Protocol):
    """One board's stream through the shared speech detector."""

    def probability(self, pcm: bytes) -> float:
        """Probability of speech in 512 samples of 16 kHz s16le PCM (1024 bytes)."""

    def reset(self) -> None:
        """Forget what was heard."""


class VoiceDetector(Protocol):
    """The shared speech detector."""

    def stream(self) -> VoiceActivity:
        """A fresh stream with its own state."""


@dataclass(frozen=True, slots=True)
class Services:
    """Shared by all sessions of one server. ``generations`` counts answers of the process;
    ``make_encoder`` gives each answer an encoder of its own.
    """

    config: Config
    recorder: Recorder
    asr: Asr
    llm: Llm
    tts: Tts
    gate: TurnGate
    admission: Admission
    estimates: Estimates
    generations: Iterator[int]
    detector: VoiceDetector
    make_encoder: Callable[[], PacketEncoder]
    encode_turns: LoopTurns = field(default_factory=LoopTurns)
    ear_turns: LoopTurns = field(default_factory=lambda: LoopTurns(EARS_AT_ONCE))
    told_of_barge_in: Once = field(default_factory=Once)
