"""What must hold after any scenario, read off the trace and off what the boards got."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from duet_trio.engines.contracts import Message
from duet_trio.lab.answers import Answer
from duet_trio.lab.puppet import FRAME_S, TONES, Part, Puppet

#: Faults after which an answer's sound does not tell how much of its text was spoken.
UNSPOKEN = frozenset({"short", "empty", "endless", "late", "deaf"})
#: What a session adds to an answer that was interrupted, when it is told to the writer.
INTERRUPTED = " …"
LONGEST_WORD = 14
#: A packet that was there so long before it was needed has no reason to be late.
REASON_S = 0.4


def judge_trace(answers: Mapping[int, Answer]) -> Iterator[str]:
    """One start/stop pair per answer, nothing after the stop, packets whole and in order."""
    for answer in answers.values():
        name = f"answer {answer.generation}"
        if len(answer.ends) != 1:
            yield f"{name}: {len(answer.ends)} ends"
        whats = [event["what"] for event in answer.sent]
        starts, stops = whats.count("tts.start"), whats.count("tts.stop")
        if starts > 1 or stops > 1:
            yield f"{name}: {starts} starts, {stops} stops"
        if not answer.connection_lost and answer.aborted_at is None and (starts, stops) != (1, 1):
            yield f"{name}: {starts} starts, {stops} stops"
        if not answer.connection_lost and stops != 1:
            yield f"{name}: {stops} stops"
        if "tts.stop" in whats and whats[-1] != "tts.stop":
            yield f"{name}: {whats[-1]} after its stop"
        sequences = [event["sequence"] for event in answer.sent if event["what"] == "frame"]
        if sequences != list(range(len(sequences))):
            yield f"{name}: packets {sequences[:5]}… are not whole and in order"


def judge_pace(
    answers: Mapping[int, Answer], lead: int, slow_s: Mapping[str, float]
) -> Iterator[str]:
    """Never more than the lead ahead of the board.

    ``slow_s``: how long each board's sends take; a packet may be that much later than planned,
    and the one after it on time.
    """
    for answer in answers.values():
        slack = 0.01 + 2 * slow_s.get(answer.board, 0.0) / FRAME_S
        times = [event["t"] for event in answer.sent if event["what"] == "frame"]
        plays_until = -math.inf
        for index, at in enumerate(times):
            plays_until = max(at, plays_until) + FRAME_S
            ahead = round((plays_until - at) / FRAME_S - 1e-6, 6)
            if ahead > lead + slack:
                yield f"answer {answer.generation}: packet {index} is {ahead:.2f} ahead"
                break


def judge_lateness(answers: Mapping[int, Answer], puppet: Puppet, slow_s: float) -> Iterator[str]:
    """A board never runs dry while the server has its sound.

    Not judged: answers with injected faults, and connections too slow for speech.
    """
    if slow_s > FRAME_S - 0.005:
        return
    mine = {a.generation % TONES: a for a in answers.values() if a.board == puppet.device_id}
    for part in puppet.parts:
        answer = mine.get(part.generation) if part.generation is not None else None
        if answer is None or answer.effects:
            continue
        for index in range(1, min(len(part.packets), len(answer.ready))):
            dry_at = part.played_at[index - 1]
            late_s = part.packets[index][0] - dry_at
            if late_s > 0.001 and answer.ready[index] < dry_at - REASON_S:
                yield (
                    f"answer {answer.generation}: packet {index} was {late_s:.3f} s late, though"
                    f" its sound had been there for {dry_at - answer.ready[index]:.1f} s"
                )
                break


def judge_prompts(
    answers: Mapping[int, Answer], prompts: Mapping[int, Sequence[Message]]
) -> Iterator[str]:
    """What the writer is told is what was heard."""
    last: dict[tuple[str, int], str] = {}  # what was heard last, by session
    for generation in sorted(answers):
        answer = answers[generation]
        key = answer.board, answer.session
        prompt = prompts.get(generation)
        if prompt is not None:
            yield from _judge_prompt(generation, prompt, last.get(key, ""))
        if answer.heard:
            mark = "" if answer.outcome == "done" else INTERRUPTED
            last[key] = answer.heard + mark


def _judge_prompt(generation: int, prompt: Sequence[Message], heard: str) -> Iterator[str]:
    roles = [message.role for message in prompt if message.role != "system"]
    if any(a == b for a, b in pairwise(roles)) or roles[-1:] != ["user"]:
        yield f"answer {generation}: the prompt's roles are {roles}"
    if any(not message.content.strip() for message in prompt):
        yield f"answer {generation}: an empty line in the prompt"
    told = [message.content for message in prompt if message.role == "assistant"]
    if (told[-1] if told else "") != heard:
        yield f"answer {generation}: told {told[-1:]}, heard was {heard!r}"


def judge_heard(
    answers: Mapping[int, Answer], puppet: Puppet, characters_per_packet: float, *, exact: bool
) -> Iterator[str]:
    """The history says what the board played, no more and (to a word or two) no less.

    ``exact`` false: the wire was slow, so that times at both ends differ; only signs are judged.
    """
    parts = {part.generation: part for part in puppet.parts if part.generation is not None}
    for answer in answers.values():
        if answer.board != puppet.device_id or not answer.ends or answer.effects & UNSPOKEN:
            continue
        heard, text = _plain(answer.heard), _plain(answer.text)
        name = f"answer {answer.generation}"
        if not text.startswith(heard):
            yield f"{name}: heard {heard!r} is no beginning of {text!r}"
        if answer.outcome == "done" and heard != text:
            yield f"{name}: done, yet heard was {heard!r} of {text!r}"
        part = parts.get(answer.generation % TONES)
        if answer.outcome == "done" or answer.connection_lost:
            continue
        if part is None:
            if heard and exact:
                yield f"{name}: heard {heard!r}, but nothing reached the board"
            continue
        if exact:
            yield from _judge_share(name, answer, part, heard, characters_per_packet)


def _judge_share(
    name: str, answer: Answer, part: Part, heard: str, characters_per_packet: float
) -> Iterator[str]:
    at = answer.aborted_at if answer.aborted_at is not None else float(answer.ends[0]["t"])
    most = part.played(at) * characters_per_packet
    if len(heard) > most + 4:
        yield f"{name}: {len(heard)} characters heard, played were {most:.0f}"
    # A piece that is still being made is measured by a running estimate, which begins at three
    # times the length of this voice's speech.
    if len(heard) < most / 3.5 - LONGEST_WORD:
        yield f"{name}: only {len(heard)} characters heard, played were {most:.0f}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def judge_whole(
    answer: Answer, part: Part, stories: Sequence[str], characters_per_packet: float
) -> Iterator[str]:
    """An answer that nothing disturbed: all its text, all its sound, nobody else's."""
    name = f"the next answer ({answer.generation})"
    if part.alerts:
        yield f"{name} failed: {part.alerts}"
        return
    if _plain(answer.text) not in stories:
        yield f"{name} has the text {answer.text!r}"
    wanted = sum(math.ceil(len(piece.strip()) / characters_per_packet) for piece in answer.pieces)
    if len(part.packets) != wanted:
        yield f"{name} has {len(part.packets)} packets instead of {wanted}"
    foreign = {whose for _at, whose in part.packets} - {answer.generation % TONES}
    if foreign:
        yield f"{name} carries the sound of {foreign}"
    if _plain(" ".join(part.sentences)) != _plain(" ".join(p.strip() for p in answer.pieces)):
        yield f"{name} shows {part.sentences}"
