"""Barge-in: does a person talk over the answer, or is it a cough, or the answer's own echo?

It takes ``voice.barge_in_ms`` of speech (a cough is shorter), of which most is not explained by
what the loudspeaker plays. Only boards in realtime mode send their microphone while they speak;
on others `voice.barge_in` has no effect, and the log says so once per board and server run.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from duet_trio.config import Config
from duet_trio.engines.contracts import LISTEN_RATE_HZ
from duet_trio.errors import PeerError
from duet_trio.opus import Decoder
from duet_trio.session.once import Once
from duet_trio.speech.echo_reference import ECHO_SHARE, JUDGED_MS, EchoReference
from duet_trio.speech.endpoint import CHUNK_MS, Endpointer
from duet_trio.wire.messages import ListenMode

log = logging.getLogger(__name__)

#: Chunks between two judgements of the same speech (2 ms of computing each).
JUDGE_EVERY = 3
#: Speech that was kept back as a possible echo and then belongs to the question after all.
KEPT_BACK_MS = 1000.0


class Interruption:
    """One board's ears during its own answer. All methods are synchronous.

    ``is_answering``: an answer is on its way; ``on_interruption``: the person talks over it.
    """

    def __init__(
        self,
        config: Config,
        *,
        board: str,
        endpoint_ms: int,
        told: Once,
        is_answering: Callable[[], bool],
        on_interruption: Callable[[], None],
    ) -> None:
        self._wanted = config.voice.barge_in
        self._usual = config.vad
        self._patient = msgspec.structs.replace(config.vad, min_speech_ms=config.voice.barge_in_ms)
        self._board = board
        self._is_answering = is_answering
        self._on_interruption = on_interruption
        self._endpointer = Endpointer(self._patient, endpoint_ms=endpoint_ms)
        self._heard: deque[bytes] = deque(maxlen=round(JUDGED_MS / CHUNK_MS))
        self._since_judged = 0
        self._realtime = False
        self._told = told
        self._own: EchoReference | None = None
        self._decoder: Decoder | None = None

    @property
    def possible(self) -> bool:
        """Can the person interrupt now?"""
        return self._wanted and self._realtime and self._is_answering()

    def mode_is(self, mode: ListenMode) -> None:
        """The board has said how it listens."""
        self._realtime = mode == "realtime"
        if self._wanted and not self._realtime and self._told.is_first(self._board):
            log.warning(
                "board %s listens in %s mode and sends no sound while it speaks:"
                " voice.barge_in has no effect on it",
                self._board,
                mode,
            )
        if self._wanted and self._realtime and self._own is None:
            self._own = EchoReference()
            self._decoder = Decoder(LISTEN_RATE_HZ)

    def sent(self, opus: bytes) -> None:
        """A packet of ours has left for the board."""
        if self._own is None or self._decoder is None:
            return
        try:
            self._own.played(self._decoder.decode(opus), trio.current_time())
        except PeerError:  # an encoder of a test; no sound, no echo
            return

    def reset(self) -> None:
        """Forget what was heard."""
        self._endpointer.reset()
        self._heard.clear()
        self._since_judged = 0

    def hear(self, chunk: bytes, probability: float, arrived_at: float) -> bool:
        """Take one chunk; True: the person interrupts, and the answer has been ended."""
        self._heard.append(chunk)
        self._endpointer.feed(chunk, probability)
        if not self._endpointer.in_speech:
            self._since_judged = 0
            return False
        self._since_judged -= 1
        if self._since_judged > 0:
            return False
        if self._is_echo(arrived_at):
            self._since_judged = JUDGE_EVERY
            return False
        self._on_interruption()
        return True

    def take(self, spare: Endpointer) -> Endpointer:
        """The endpointer in which the interrupting speech is under way, in exchange for another."""
        taken, self._endpointer = self._endpointer, spare
        taken.keep_last(KEPT_BACK_MS)
        taken.retune(self._usual)
        spare.retune(self._patient)
        self.reset()
        return taken

    def _is_echo(self, arrived_at: float) -> bool:
        if self._own is None:
            return False
        return self._own.share(b"".join(self._heard), arrived_at) >= ECHO_SHARE
