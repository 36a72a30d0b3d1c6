"""A user in front of a simulated board, on a real connection and in real time.

::

    run ─┬─ clockwork     lets the board's own due things happen
         ├─ listen        the microphone: one packet per frame, on an absolute schedule
         ├─ session       one per connection: upgrade, hello, reader
         │   └─ writer    the only task that sends
         └─ (main)        puts the questions, one after the other
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import trio

from duet_trio.board.device import Device
from duet_trio.board.link import Connect, connect_tcp
from duet_trio.board.result import BoardResult, Turn
from duet_trio.board.script import Action, BoardOptions, Question, Watcher
from duet_trio.wire.messages import Abort, Detect

__all__ = ["BoardClient", "BoardOptions", "Watcher", "converse"]

#: How long what the board still wants to say may take before it drops the connection.
HANG_UP_S = 1.0


async def converse(
    options: BoardOptions,
    questions: Sequence[Question],
    *,
    connect: Connect = connect_tcp,
    watcher: Watcher | None = None,
) -> BoardResult:
    """Run one board through ``questions``; see `BoardClient`."""
    return await BoardClient(options, connect=connect, watcher=watcher).run(questions)


class BoardClient:
    """Runs one board. ``result`` fills while it runs and is complete when `run` returns.

    Raises `UsageError` for an address or firmware that does not exist, `MissingLibraryError`
    without libopus; what the server does wrong is told in the result, never raised.
    """

    def __init__(
        self,
        options: BoardOptions,
        *,
        connect: Connect = connect_tcp,
        watcher: Watcher | None = None,
    ) -> None:
        self._options = options
        self._device = Device(options, connect, watcher)

    @property
    def result(self) -> BoardResult:
        """What has happened so far."""
        self._device.account()
        return self._device.result

    async def run(self, questions: Sequence[Question]) -> BoardResult:
        """Connect, put the questions one after the other, hear each answer out, hang up.

        Connects anew before a question if the connection is gone. A cancel drops the
        connection; ``result`` then holds what has happened so far.
        """
        device = self._device
        device.result.origin_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(device.clockwork)
            nursery.start_soon(device.listen)
            for question in questions:
                if device.link is None and not await device.dial(nursery):
                    break
                await self._converse(question)
            if device.link is not None:
                with trio.move_on_after(HANG_UP_S):
                    await device.link.flushed()
            nursery.cancel_scope.cancel()
        return self.result

    async def _converse(self, question: Question) -> None:
        device = self._device
        first = len(device.notebook.turns)
        turn = device.notebook.asked(question.text or question.label or "(spoken)", device.time())
        async with trio.open_nursery() as deeds:
            for action in question.actions:
                deeds.start_soon(self._perform, action, turn)
            if await self._put(question):
                turn.question_end_s = device.time()
                device.notify()
                await self._hear_out(first)
            deeds.cancel_scope.cancel()

    async def _put(self, question: Question) -> bool:
        """Say or type the question once the board listens; False: the connection went away."""
        device = self._device
        if device.board.state == "idle":
            manual = self._options.mode == "manual"
            wakes = device.board.press if manual else device.board.toggle_button
            device.send(wakes(trio.current_time()))
        device.last_message_s = trio.current_time()
        if not await device.until(lambda: device.board.listens, self._options.patience_s):
            return False
        if question.pcm:
            return await self._speak(question.pcm)
        device.send([Detect(text=question.text)])
        return True

    async def _speak(self, pcm: bytes) -> bool:
        """Say ``pcm``, then release the key if one is held.

        Ends early if the board closes its microphone, which it does when it is spoken to in auto
        or manual mode. False: the connection went away.
        """
        device = self._device
        device.microphone.say(pcm)
        try:
            said = await device.until(
                lambda: not device.microphone.speaking or not device.board.capturing
            )
        finally:
            device.microphone.hush()  # nothing of it may slip into what is said next
        if said and device.board.mode == "manual":
            device.send(device.board.release(trio.current_time()))
        return said

    async def _hear_out(self, first: int) -> None:
        """Wait until all turns from number ``first`` on are over and their sound has ended."""
        device = self._device
        turns = device.notebook.turns
        device.last_message_s = trio.current_time()
        over = await device.until(
            lambda: all(turn.over for turn in turns[first:]), self._options.patience_s
        )
        if over and await device.until(
            lambda: device.board.state != "speaking" and math.isinf(device.board.deadline()),
            self._options.patience_s,
        ):
            await trio.sleep_until(device.playback.sound_end_s)

    async def _perform(self, action: Action, turn: Turn) -> None:
        """Do one deed when its moment has come."""
        device = self._device
        while (moment := _moment(action, turn)) is None:
            await device.change()
        await trio.sleep_until(device.result.origin_s + moment + action.after_s)
        now = trio.current_time()
        match action.kind:
            case "button":
                device.send(device.board.toggle_button(now))
            case "press":
                device.send(device.board.press(now))
            case "wake_word":
                device.send(device.board.wake_word(now))
            case "abort":
                device.send([Abort()])
            case "disconnect":
                device.drop()
            case "stop_reading":
                device.stop_reading()
                await trio.sleep(action.hold_s)
                device.drop()
            case "say":
                pass
        if action.pcm:
            spoken = device.notebook.asked("(interrupting)", device.time())
            if await self._speak(action.pcm):
                spoken.question_end_s = device.time()


def _moment(action: Action, turn: Turn) -> float | None:
    match action.after:
        case "asked":
            return turn.asked_s
        case "question":
            return turn.question_end_s
        case "stt":
            return turn.stt_s
        case "start":
            return turn.tts_start_s
        case "audio":
            return turn.first_packet_s
