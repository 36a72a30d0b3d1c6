"""Sorts what arrives at a board into turns. Sans-IO: the board's own times are passed in."""

from __future__ import annotations

from duet_trio.board.result import Turn
from duet_trio.wire.messages import (
    Alert,
    Emotion,
    SentenceStart,
    ServerMessage,
    Stt,
    TtsStart,
    TtsStop,
)


class Notebook:
    """The turns of one conversation so far.

    A turn is opened by a question, or by a server that speaks unasked. Audio belongs to the
    turn whose ``tts start`` came last, so that stale packets are found where they come from.
    """

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._audible: Turn | None = None

    def asked(self, question: str, now: float) -> Turn:
        """A question begins."""
        turn = Turn(question=question, asked_s=now)
        self.turns.append(turn)
        return turn

    def aborted(self, now: float) -> None:
        """The board has sent an abort: it is meant for what sounds, or for the latest turn."""
        turn = self._audible
        if turn is None or turn.over:
            turn = self.turns[-1] if self.turns else None
        if turn is not None and turn.abort_s is None:
            turn.abort_s = now

    def packet(self, now: float, *, played: bool) -> None:
        """A packet arrived; ``played``: the board queued it."""
        turn = self._audible
        if turn is None:
            return
        if turn.over:
            turn.frames_after_stop += 1
            return
        if turn.first_packet_s is None:
            turn.first_packet_s = now
        turn.arrivals_s.append(now)
        turn.packets_played += played
        turn.frames_after_abort += turn.abort_s is not None

    def message(self, message: ServerMessage, now: float) -> None:
        """A message arrived."""
        match message:
            case Stt():
                turn = self._open_turn(now)
                turn.stt_s, turn.transcript = now, message.text
            case TtsStart():
                turn = self._audible = self._open_turn(now)
                turn.starts += 1
                if turn.tts_start_s is None:
                    turn.tts_start_s = now
            case TtsStop():
                self._stop(now)
            case SentenceStart():
                (self._audible or self._latest(now)).sentences.append((now, message.text))
            case Alert():
                self._latest(now).alerts.append(message.message)
            case Emotion():
                self._latest(now).emotions.append(message.emotion)
            case _:
                pass

    def _stop(self, now: float) -> None:
        """Find whose answer it ends; one that ends nothing is a courtesy, and ignored."""
        latest = self.turns[-1] if self.turns else None
        for turn in (self._audible, latest):
            if turn is not None and not turn.over and (turn.starts or turn.abort_s is not None):
                turn.stops += 1
                turn.tts_stop_s = now
                return

    def _latest(self, now: float) -> Turn:
        return self.turns[-1] if self.turns else self.asked("", now)

    def _open_turn(self, now: float) -> Turn:
        turn = self._latest(now)
        return self.asked("", now) if turn.over else turn
