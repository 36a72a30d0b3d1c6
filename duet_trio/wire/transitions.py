"""The states of a board, and what moves it from one to another: the whole table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class State(Enum):
    """Microphone and loudspeaker of the board, as far as messages tell."""

    IDLE = "idle"  # microphone closed, nothing playing
    LISTENING = "listening"  # microphone open, auto or manual: an answer closes it
    STREAMING = "streaming"  # microphone open, realtime: an answer does not close it
    SPEAKING = "speaking"  # an answer, microphone closed
    OVERLAP = "overlap"  # auto or manual microphone opened during an answer not yet stopped
    DUPLEX = "duplex"  # an answer beside an open realtime microphone


class Signal(Enum):
    """What moves the state. The first three come from the board, the others from us."""

    OPEN = "listen start, auto or manual"
    OPEN_REALTIME = "listen start, realtime"
    CLOSE = "listen stop"
    ANSWER = "tts start"
    ANSWER_OVER = "tts stop"


#: Every state under every signal. After an answer an auto board opens its microphone with a
#: new ``listen start``; a realtime board listens again without a word (DUPLEX → STREAMING).
TRANSITIONS: Mapping[tuple[State, Signal], State] = MappingProxyType(
    {
        (State.IDLE, Signal.OPEN): State.LISTENING,
        (State.IDLE, Signal.OPEN_REALTIME): State.STREAMING,
        (State.IDLE, Signal.CLOSE): State.IDLE,
        (State.IDLE, Signal.ANSWER): State.SPEAKING,
        (State.IDLE, Signal.ANSWER_OVER): State.IDLE,
        (State.LISTENING, Signal.OPEN): State.LISTENING,
        (State.LISTENING, Signal.OPEN_REALTIME): State.STREAMING,
        (State.LISTENING, Signal.CLOSE): State.IDLE,
        (State.LISTENING, Signal.ANSWER): State.SPEAKING,
        (State.LISTENING, Signal.ANSWER_OVER): State.LISTENING,
        (State.STREAMING, Signal.OPEN): State.LISTENING,
        (State.STREAMING, Signal.OPEN_REALTIME): State.STREAMING,
        (State.STREAMING, Signal.CLOSE): State.IDLE,
        (State.STREAMING, Signal.ANSWER): State.DUPLEX,
        (State.STREAMING, Signal.ANSWER_OVER): State.STREAMING,
        (State.SPEAKING, Signal.OPEN): State.OVERLAP,
        (State.SPEAKING, Signal.OPEN_REALTIME): State.DUPLEX,
        (State.SPEAKING, Signal.CLOSE): State.SPEAKING,
        (State.SPEAKING, Signal.ANSWER): State.SPEAKING,
        (State.SPEAKING, Signal.ANSWER_OVER): State.IDLE,
        (State.OVERLAP, Signal.OPEN): State.OVERLAP,
        (State.OVERLAP, Signal.OPEN_REALTIME): State.DUPLEX,
        (State.OVERLAP, Signal.CLOSE): State.SPEAKING,
        (State.OVERLAP, Signal.ANSWER): State.SPEAKING,
        (State.OVERLAP, Signal.ANSWER_OVER): State.LISTENING,
        (State.DUPLEX, Signal.OPEN): State.OVERLAP,
        (State.DUPLEX, Signal.OPEN_REALTIME): State.DUPLEX,
        (State.DUPLEX, Signal.CLOSE): State.SPEAKING,
        (State.DUPLEX, Signal.ANSWER): State.DUPLEX,
        (State.DUPLEX, Signal.ANSWER_OVER): State.STREAMING,
    }
)
