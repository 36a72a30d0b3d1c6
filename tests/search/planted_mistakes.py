"""Mistakes that were made elsewhere, as patches to our own source.

Each is planted in a copy of the package; the search must find every one of them. A patch that
does not fit any more fails its test too: the mistake has to be planted anew.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """``edits``: (file, old text, new text); each old text stands exactly once in its file."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    seeds: int = 150  # it must be found within so many scenarios


MISTAKES = (
    Mistake(
        "the pacer sends on the socket itself",
        (
            (
                "session/outbox.py",
                "        self._items.append(frame)\n        self._frames += 1\n",
                "        await self.send_now(frame.opus)\n"
                "        frame.on_sent(frame.sequence, trio.current_time())\n",
            ),
            (
                "session/connection.py",
                "        self.outbox = Outbox(services.recorder, self.board)\n",
                "        self.outbox = Outbox(services.recorder, self.board)\n"
                "        self.outbox.send_now = transport.send\n",
            ),
        ),
    ),
    Mistake(
        "the stop is put inside the cancelled scope",
        (
            (
                "session/conversation.py",
                "        self._outbox.control(TtsStop(), answer.generation, lasting=True)\n"
                "        self._said",
                "        self._said",
            ),
            (
                "session/conversation.py",
                "                await answer.run()\n",
                "                try:\n"
                "                    await answer.run()\n"
                "                finally:\n"
                "                    await trio.lowlevel.checkpoint()\n"
                "                    if not answer.is_live:\n"
                "                        self._outbox.control(\n"
                "                            TtsStop(), answer.generation, lasting=True\n"
                "                        )\n",
            ),
        ),
    ),
    Mistake(
        "the generation is retired after its stop",
        (
            (
                "session/conversation.py",
                "        self._outbox.retire(answer.generation)\n"
                "        self._outbox.control(TtsStop(), answer.generation, lasting=True)\n"
                "        self._said",
                "        self._outbox.control(TtsStop(), answer.generation, lasting=True)\n"
                "        self._said",
            ),
            (
                "session/outbox.py",
                "            if frame.generation <= self._retired or self._closed:\n",
                "            if self._closed:\n",
            ),
            (
                "session/conversation.py",
                "        answer.cancel(cause)\n        self._on_quiet",
                "        self._late = answer\n        self._on_quiet",
            ),
            (
                "session/conversation.py",
                "        self._pending = question\n",
                "        if getattr(self, '_late', None):\n"
                "            self._outbox.retire(self._late.generation)\n"
                "            self._late.cancel('replaced')\n"
                "        self._pending = question\n",
            ),
        ),
    ),
    Mistake(
        "the turn is not returned when its owner is cancelled",
        (
            (
                "engines/gpu_turn.py",
                "        self._inside = False\n        self._pass_on_if_over()\n",
                "        self._inside = False\n"
                "        if not exc or exc[0] is None:\n"
                "            self._pass_on_if_over()\n",
            ),
            (
                "engines/gpu_turn.py",
                "        self._attached -= 1\n        self._pass_on_if_over()\n",
                "        self._attached -= 1\n",
            ),
        ),
    ),
    Mistake(
        "the turn is returned on a cancel, before the engine is idle",
        (
            (
                "engines/gpu_turn.py",
                "        if not self._inside and self._attached == 0:\n",
                "        if not self._inside and self is self._gate._holder:\n",
            ),
            (
                "engines/gpu_turn.py",
                "        assert stay is self._holder\n",
                "        if stay is not self._holder:\n            return\n",
            ),
            (
                "engines/gpu_turn.py",
                "        self._holder: Stay | None = None\n",
                "        self._holder: Stay | None = None\n        self._open = False\n",
            ),
            (
                "engines/gpu_turn.py",
                "        self._inside = 0\n        self._turns = 0\n",
                "        self._inside = 0\n        self._turns = 0\n        self._holder = None\n",
            ),
        ),
    ),
    Mistake(
        "an abort before the first sound is forgotten",
        (
            (
                "session/conversation.py",
                "        if answer is None or not answer.is_live:\n            return False\n",
                "        if (answer is None or not answer.is_live\n"
                "                or not answer.pacer.progress.sent):\n"
                "            return False\n",
            ),
        ),
    ),
    Mistake(
        "a piece is tried again although some of it was heard",
        (
            (
                "session/speaker.py",
                "            if seed == 0 and self._sink.drop():\n                return False\n",
                "            if seed == 0:\n"
                "                if not self._sink.drop():\n"
                "                    self._sink.end()\n"
                "                return False\n",
            ),
        ),
    ),
    Mistake(
        "answers share one queue of packets",
        (
            (
                "session/speech_line.py",
                "        self._packets: deque[Packet] = deque()\n        self._packet_made",
                "        self._packets: deque[Packet] = _SHARED\n        self._packet_made",
            ),
            (
                "session/speech_line.py",
                "class SpeechLine:\n",
                "_SHARED: deque[Packet] = deque()\n\n\nclass SpeechLine:\n",
            ),
        ),
    ),
    Mistake(
        "the end marker of an answer is lost",
        (("session/speaker.py", "        self._sink.finish()\n", ""),),
    ),
    Mistake(
        "the voice has a deadline for its first block only",
        (
            (
                "engines/client.py",
                "                section.first_s,\n"
                "                stall_s=section.stall_s,\n"
                "                total_s=section.piece_s "
                "+ section.piece_per_audio * request.cap_s,\n",
                "                section.first_s,\n",
            ),
            (
                "engines/deadline.py",
                "        if self._end == math.inf:\n            self._end = now + self._first_s\n",
                "",
            ),
        ),
    ),
    Mistake(
        "the history is what was written",
        (
            (
                "session/answer.py",
                "        played = self.pacer.progress.played(trio.current_time())\n",
                "        return ''.join(piece.text for piece in self.line.pieces)\n"
                "        played = self.pacer.progress.played(trio.current_time())\n",
            ),
        ),
    ),
    Mistake(
        "the schedule is re-based on every late packet",
        (
            (
                "speech/pace.py",
                "            if late > _TINY_S:\n",
                "            if now > self._next_due + _TINY_S:\n",
            ),
        ),
        seeds=300,
    ),
    Mistake(
        "callers write to the engine's pipe themselves",
        (
            (
                "engines/link.py",
                "            while True:\n                await self._to_send.wait()\n",
                "            while True:\n                await trio.sleep(0.3)\n",
            ),
            (
                "engines/supervisor.py",
                "        self._start_jobs()\n        try:\n",
                "        self._start_jobs()\n        try:\n"
                "            link = self._link\n"
                "            while link is not None and link._outgoing:\n"
                "                message = link._outgoing.popleft()\n"
                "                await trio.sleep(0.02)  # as a pipe that is nearly full takes it\n"
                "                await link._connection.send.send_all(message)\n",
            ),
        ),
    ),
    Mistake(
        "an answer is over while its last packet is still on its way out",
        (
            (
                "session/pacer.py",
                "            await self.progress.all_sent(self.schedule.sent_packets)\n",
                "",
            ),
        ),
    ),
    Mistake(
        "the next answer begins beside the old one",
        (
            (
                "session/conversation.py",
                "                await self._run_answer(await self._next())\n",
                "                question = await self._next()\n"
                "                trio.lowlevel.spawn_system_task(self._run_answer, question)\n"
                "                await trio.lowlevel.checkpoint()\n",
            ),
        ),
    ),
)
