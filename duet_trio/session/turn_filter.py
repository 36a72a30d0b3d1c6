"""Is what was recognised something that somebody said to us?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duet_trio.events import Recorder
from duet_trio.session.recognition import Heard
from duet_trio.speech.guards import is_echo, why_no_turn
from duet_trio.speech.pcm import level_dbfs
from duet_trio.wire.board_state import MAX_BURST_MS, BoardProtocol


class TurnFilter:
    """One board's judge of transcripts; each judgement is a ``stt`` event. Synchronous.

    ``packets``: how many the board has sent so far; ``said``: what its last answer said.
    """

    def __init__(
        self,
        recorder: Recorder,
        protocol: BoardProtocol,
        *,
        board: str,
        packets: Callable[[], int],
        said: Callable[[], str],
    ) -> None:
        self._recorder = recorder
        self._protocol = protocol
        self._board = board
        self._packets = packets
        self._said = said

    def question(self, heard: Sequence[Heard]) -> str:
        """The texts of a whole turn that are speech to us, as one; empty: none is."""
        return " ".join(part.transcript.text.strip() for part in heard if self._is_turn(part))

    def _is_turn(self, heard: Heard) -> bool:
        transcript, speech = heard.transcript, heard.speech
        refusal = self._too_early() or why_no_turn(
            transcript.text,
            speech_ms=speech.speech_ms,
            level_dbfs=level_dbfs(speech.pcm),
            no_speech_probability=transcript.no_speech_probability,
            compression_ratio=transcript.compression_ratio,
            mean_log_probability=transcript.mean_log_probability,
        )
        if refusal is None and speech.over_answer and is_echo(transcript.text, self._said()):
            refusal = "the answer's own words"
        self._recorder.emit(
            "stt",
            board=self._board,
            text=transcript.text,
            asr_ms=heard.asr_ms,
            refused=refusal or "",
        )
        return refusal is None

    def _too_early(self) -> str | None:
        """A board that is still connecting ignores an answer: its wake word is on its way.

        Clients that never say that they listen, and just stream, are heard after some seconds.
        """
        if self._protocol.may_speak:
            return None
        streamed_ms = self._packets() * self._protocol.uplink_frame_ms
        early = not self._protocol.greeted or streamed_ms <= MAX_BURST_MS
        return "before the board listens" if early else None
