"""The pacer: sends an answer's packets on an absolute schedule, a little ahead of the board.

The arithmetic is `PaceSchedule`'s, which knows no clock; here are only the waits. The pacer puts
packets into the outbox and never touches the connection (see ``outbox``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from duet_trio.events import Recorder
from duet_trio.session.outbox import Frame, Outbox, RetiredError
from duet_trio.session.speech_line import Packet, SpeechLine, SpokenPiece
from duet_trio.speech.pace import PaceSchedule
from duet_trio.wire.messages import SentenceStart

FRAME_S = 0.06
#: A board is told to stop only this many packets after the estimated end of playback: firmware
#: up to 2.1 cuts off what it has not played yet.
MARGIN_FRAMES = 2


@dataclass(slots=True)
class Progress:
    """What has left for the board: the ground truth for "what was heard".

    ``player`` is fed with the times at which packets were *written*. On a slow connection these
    lag behind the pacer's own schedule, whose time is that of the outbox (if the schedule waited
    for each write, a connection of 50 ms a send would never regain its lead).
    """

    player: PaceSchedule
    sent: int = 0
    first_sent_at: float | None = None
    written: trio.Event = field(default_factory=trio.Event)

    def on_sent(self, sequence: int, at: float) -> None:
        """One packet has been written to the connection: from here on the board has it."""
        self.sent = sequence + 1
        if self.first_sent_at is None:
            self.first_sent_at = at
        self.player.sent(at)
        self.written.set()

    def played(self, now: float) -> int:
        """Packets that the board has played by ``now``."""
        return self.player.played_packets(now)

    async def all_sent(self, count: int) -> None:
        """Wait until so many packets have been written."""
        while self.sent < count:
            self.written = trio.Event()
            await self.written.wait()


class Pacer:
    """Paces one answer. ``run`` returns when its last packet has been played."""

    def __init__(
        self,
        line: SpeechLine,
        outbox: Outbox,
        recorder: Recorder,
        *,
        board: str,
        generation: int,
        lead: int,
        earliest: float,
        start_hold_s: Callable[[str], float],
    ) -> None:
        self._line = line
        self._outbox = outbox
        self._recorder = recorder
        self._board = board
        self._generation = generation
        self._earliest = earliest
        self._start_hold_s = start_hold_s
        self.schedule = PaceSchedule(FRAME_S, lead=lead)
        self.progress = Progress(PaceSchedule(FRAME_S, lead=lead))
        self.is_done = False

    def playback_end(self) -> float:
        """When the board will have played all that it was sent (trio time; now if nothing)."""
        return self.progress.player.playback_end(trio.current_time())

    async def run(self) -> None:
        """Send all packets of the line, then wait for the end of playback plus a margin.

        Returns early when the answer has been retired. A cancel leaves nothing behind.
        """
        spoken: SpokenPiece | None = None
        while (packet := await self._line.next_packet()) is not None:
            try:
                await self._send(packet, starts_piece=packet.piece is not spoken)
            except RetiredError:
                return
            spoken = packet.piece
        if self.schedule.sent_packets:
            # The last one may still be on its way out: it would vanish with its generation.
            await self.progress.all_sent(self.schedule.sent_packets)
            await trio.sleep_until(self.playback_end() + MARGIN_FRAMES * FRAME_S)
        self.is_done = True

    async def _send(self, packet: Packet, *, starts_piece: bool) -> None:
        ready_at = trio.current_time()
        if packet.sequence == 0:
            ready_at = max(ready_at, self._earliest) + self._start_hold(packet)
        due = self.schedule.due(ready_at)
        await trio.sleep_until(due)
        await self._lead_allows(packet.sequence)
        if starts_piece:
            text = " ".join(packet.piece.text.split())  # one line: a board shows it as it comes
            self._outbox.control(SentenceStart(text), self._generation)
        await self._outbox.frame(
            Frame(
                self._generation,
                packet.sequence,
                packet.opus,
                due,
                packet.piece.index,
                self.progress.on_sent,
            )
        )
        late_s = self.schedule.sent(trio.current_time())
        if late_s > 0:
            self._emit("underrun", sequence=packet.sequence, late_ms=round(late_s * 1000, 1))

    async def _lead_allows(self, sequence: int) -> None:
        """Wait until the board itself has room in its lead.

        On a slow connection it plays later than the schedule says, as its packets were written
        later; by the schedule alone it would come to hold up to two packets more than the lead.
        """
        room_at = self.progress.player.room_at(sequence)
        if room_at > trio.current_time():
            await trio.sleep_until(room_at)

    def _start_hold(self, packet: Packet) -> float:
        held_s = self._start_hold_s(packet.piece.text)
        if held_s > 0:
            self._emit("start.hold", held_ms=round(held_s * 1000, 1))
        return held_s

    def _emit(self, event: str, **fields: int | float) -> None:
        self._recorder.emit(event, board=self._board, generation=self._generation, **fields)
