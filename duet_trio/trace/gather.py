"""From a stream of events to one `RawAnswer` per answer, in memory bounded by live answers.

An answer is handed out some seconds of trace time after its ``answer.end``, so that what is
still written for it (``tts.stop``, or packets that should not exist) belongs to it.
"""

from __future__ import annotations

from collections import deque

from duet_trio.trace.answers import RawAnswer, number, whole
from duet_trio.trace.records import Event

#: Trace time for which a finished answer still takes events.
GRACE_S = 5.0
#: A spoken question and the answer to it are at most this far apart (recognition's deadline
#: is 10 s, waiting for admission comes on top); an older end of speech belongs to something else.
QUESTION_S = 30.0


class Gatherer:
    """Sorts events into answers. ``board``: only this Device-Id (upper or lower case)."""

    def __init__(self, board: str | None = None) -> None:
        self._board = board.lower() if board else None
        self._open: dict[int, RawAnswer] = {}
        self._closing: deque[tuple[float, int]] = deque()
        self._over: set[int] = set()
        self._speech_end: dict[str, float] = {}
        self._speech_start: dict[str, float] = {}
        self.run = 0
        self.starts: list[Event] = []  # the ``trace.start`` events
        self.dropped = 0  # events that the recorder reports as lost
        self.peak_rss_mb: float | None = None
        self.late_stale = 0  # packets of answers that were over for longer than `GRACE_S`

    def add(self, event: Event) -> list[RawAnswer]:
        """Take one event; returns the answers that are complete now (mostly none)."""
        name, t = event["event"], event["t"]
        if name == "trace.start":
            complete = self.finish()
            self.starts.append(event)
            self.run += 1
            self._over.clear()
            self._speech_end.clear()
            self._speech_start.clear()
            return complete
        if name == "trace.dropped":
            self.dropped += whole(event, "count")
        elif name == "metrics":
            found = number(event, "rss_mb")
            if found is not None:
                self.peak_rss_mb = max(found, self.peak_rss_mb or 0.0)
        board, generation = event.get("board"), event.get("generation")
        if self._board is None or (board or "").lower() == self._board:
            if generation is not None:
                self._add_to_answer(event, generation)
            elif board is not None and name == "speech.start":
                self._speech_start[board] = t
            elif board is not None and name == "speech.end":
                self._speech_end[board] = t - (number(event, "endpoint_ms") or 0.0) / 1e3
        return self._due(t)

    def finish(self) -> list[RawAnswer]:
        """Return all answers that are still open: the run is over."""
        complete = list(self._open.values())
        self._open.clear()
        self._closing.clear()
        return complete

    def _add_to_answer(self, event: Event, generation: int) -> None:
        if generation in self._over:
            self.late_stale += event["event"] == "sent"
            return
        name, t, board = event["event"], event["t"], event.get("board")
        answer = self._open.get(generation)
        if answer is None:
            answer = RawAnswer(self.run, generation, first_seen=t)
            self._open[generation] = answer
        answer.take(event)
        if name == "answer.start" and board is not None:
            ended = self._speech_end.pop(board, None)
            if ended is not None and t - ended <= QUESTION_S:
                answer.user_end = ended
            # An answer whose end got lost must not stay open for ever.
            for other in self._open.values():
                if other.board == board and other is not answer:
                    self._closing.append((t + GRACE_S, other.generation))
        elif name == "answer.end":
            self._closing.append((t + GRACE_S, generation))
        elif name == "abort" and answer.packets and answer.voice_onset is None:
            onset = self._speech_start.get(board or "")
            if onset is not None and answer.packets[0].t < onset <= t:
                answer.voice_onset = onset

    def _due(self, now: float) -> list[RawAnswer]:
        complete: list[RawAnswer] = []
        while self._closing and self._closing[0][0] <= now:
            _, generation = self._closing.popleft()
            answer = self._open.pop(generation, None)
            if answer is not None:
                self._over.add(generation)
                complete.append(answer)
        return complete
