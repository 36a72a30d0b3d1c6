"""A board that presses, speaks, asks and aborts in any order for a minute, in any mode."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import trio

from duet_trio.lab.lab import Lab, loud, open_lab, quiet
from tests.protocol.peer import Ears, Peer, meeting, scripted

MODES: Sequence[str] = ("auto", "manual", "realtime")


async def monkey(peer: Peer, rng: random.Random, until_s: float) -> None:
    """Whatever comes to its mind; audio in between, as a board sends it or without any sense."""
    while trio.current_time() < until_s:
        match rng.randrange(8):
            case 0 | 1:
                await peer.listen(rng.choice(MODES))
            case 2:
                await peer.say("listen", state="stop")
            case 3:
                text = rng.choice(["what is it", "", "hello board"])
                await peer.say("listen", state="detect", text=text)
            case 4:
                await peer.say("abort", reason=rng.choice(["", "wake_word_detected", "?"]))
            case 5:
                await peer.speak(loud(rng.uniform(0.1, 1.5)))
            case 6:
                await peer.speak(quiet(rng.uniform(0.1, 1.0)), speed=rng.choice([1, 4]))
            case _:
                await trio.sleep(rng.choice([0, 0.03, 0.3, 2.0]))


def assert_lawful(lab: Lab, peer: Peer) -> None:
    """Each start has one stop; nothing of an answer stands outside of its pair."""
    speaking = False
    for at, data in peer.log:
        if isinstance(data, bytes):
            assert speaking, f"a packet outside of an answer at {at}"
        elif data["type"] == "tts":
            if data["state"] == "start":
                assert not speaking, f"a start within an answer at {at}"
                speaking = True
            elif data["state"] == "stop":
                speaking = False
            else:
                assert speaking, f"{data} outside of an answer at {at}"
    assert not speaking
    ends = lab.recorder.select("answer.end")
    assert len(lab.recorder.select("answer.start")) == len(ends)
    assert all(event["outcome"] != "failed" for event in ends)
    for service in lab.engines.services.values():
        assert not any(service.statistics().values())


@pytest.mark.parametrize("seed", range(8))
async def test_a_monkey_at_the_buttons_breaks_nothing(autojump_clock: object, seed: int) -> None:
    rng = random.Random(seed)
    ears = Ears()
    barge_in = "true" if seed % 2 else "false"
    config = scripted(
        f"voice.barge_in={barge_in}",
        'voice.wake_words=["hello board"]',
        f"llm.gpu={'true' if seed % 3 else 'false'}",
        f"tts.gpu={'true' if seed % 3 else 'false'}",
    )
    async with open_lab(config, wrap=ears.wrap) as lab, meeting(lab) as peer:
        await monkey(peer, rng, trio.current_time() + 60)
        assert peer.closed is None
        # Then somebody sensible comes: silence, a press, a sentence.
        await peer.say("abort")
        await trio.sleep(3)
        for mode in rng.sample(MODES, 3):
            stops, heard = len(peer.messages("tts", "stop")), len(ears.ear.heard)
            await peer.listen(mode)
            await peer.speak(quiet(0.3) + loud(1.2) + quiet(1.0))
            if mode == "manual":
                await peer.say("listen", state="stop")
            await peer.stopped(stops + 1)
            assert 1.2 <= len(ears.ear.heard[heard].pcm) / 32000 <= 2.6
            await trio.sleep(1)
        assert_lawful(lab, peer)
