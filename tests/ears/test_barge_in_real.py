"""Barge-in with real speech: interrupting, coughing, and the answer's own echo."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import soxr
import trio

from duet_trio.bench.ears_corpus import RATE_HZ, Samples, coughs, pcm_of
from duet_trio.lab.lab import Lab, open_lab
from duet_trio.opus import Decoder, Encoder
from tests.ears.real import RealEars, said, still, words
from tests.protocol.peer import Peer, meeting, scripted

pytestmark = [pytest.mark.models, pytest.mark.slow]
STORY = (
    "Once upon a time there was a little robot who lived in a big house by the sea. "
    "Every morning it went out to look for shells, and every evening it came back with a new one."
)
SETTINGS = ("voice.barge_in=true", f"llm.script=[{STORY!r}]", "llm.tokens_per_s=500")
FRAME = 960


def person(text: str) -> Samples:
    """Somebody else: the demo voice, higher and faster."""
    return np.asarray(soxr.resample(said(text), RATE_HZ, RATE_HZ / 1.25))


def _room(seconds: float = 0.25) -> Samples:
    """A small room: the direct sound and a tail that dies away."""
    rng = np.random.default_rng(3)
    count = round(seconds * RATE_HZ)
    response = 0.06 * rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    response[0] = 1.0
    return np.asarray(response)


ROOM = _room()


class Microphone:
    """Hears the person and, from the board's own loudspeaker, an echo ``gain`` of the answer.

    Every packet sounds when those before it have, 120 ms after it came (queues and DMA).
    """

    def __init__(self, peer: Peer, gain: float) -> None:
        self.peer = peer
        self.gain = gain
        self._decoder = Decoder(16_000)
        self._taken = 0
        self._sound = np.zeros(0)
        self._begins = 0.0

    def echo(self, start: float, seconds: float) -> Samples:
        packets = self.peer.packets()
        for at, opus in packets[self._taken :]:
            if not self._sound.size:
                self._begins = at + 0.12
            gap = round((at + 0.12 - self._begins) * RATE_HZ) - self._sound.size
            pcm = np.frombuffer(self._decoder.decode(opus), dtype="<i2") / 32768
            self._sound = np.concatenate([self._sound, np.zeros(max(0, gap)), pcm])
        self._taken = len(packets)
        count = round(seconds * RATE_HZ)
        track = np.zeros(count)
        offset = round((start - self._begins) * RATE_HZ)
        if offset + count > 0 and max(0, offset) < self._sound.size:
            first = max(0, offset - ROOM.size)
            tail = np.convolve(self._sound[first : offset + count], ROOM)[max(0, offset) - first :]
            at = max(0, -offset)
            tail = tail[: min(count - at, max(0, self._sound.size - max(0, offset)))]
            track[at : at + tail.size] = tail
        return track * self.gain

    async def run(self, voice: Samples, noise: float = 0.0005) -> None:
        """Stream: the person's sound plus the echo, packet by packet, in real time."""
        encoder = Encoder(16_000, 60, complexity=0, bitrate=None)
        rng = np.random.default_rng(4)
        start = trio.current_time()
        for number in range(voice.size // FRAME):
            await trio.sleep_until(start + (number + 1) * 0.06)
            frame = voice[number * FRAME : (number + 1) * FRAME]
            now = start + number * 0.06
            frame = frame + self.echo(now, 0.06) + noise * rng.standard_normal(FRAME)
            await self.peer.raw(encoder.encode(pcm_of(frame)))


async def answering(peer: Peer) -> None:
    await peer.listen("realtime")
    await peer.say("listen", state="detect", text="A story, please.")
    await peer.until(peer.packets)


def aborts(lab: Lab) -> list[object]:
    return [event["cause"] for event in lab.events("abort")]


@pytest.mark.parametrize("gain", [0.0, 0.316])
async def test_a_person_interrupts_and_is_understood(autojump_clock: object, gain: float) -> None:
    ears = RealEars(speaking=True)
    async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        begun = trio.current_time()
        question = person("Stop it please, and tell me about the moon.")
        voice = np.concatenate([still(2.0), question, still(1.5)])
        await Microphone(peer, gain).run(voice)
        assert aborts(lab) == ["barge_in"]
        stop = peer.times("tts", "stop")[0] - begun
        assert 2.0 < stop < 3.2
        heard = words((await peer.recognised(2))[-1])
        assert {"tell", "me", "about", "the", "moon"} <= set(heard)


@pytest.mark.parametrize("gain", [0.1, 0.316, 1.0])
async def test_row_60_the_answers_own_echo_makes_no_turn(
    autojump_clock: object, gain: float
) -> None:
    ears = RealEars(speaking=True)
    async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Microphone(peer, gain).run, still(16.0))
            await peer.stopped()
        await trio.sleep(3)
        assert aborts(lab) == []
        assert len(peer.messages("tts", "start")) == 1
        (outcome,) = [event["outcome"] for event in lab.events("answer.end")]
        assert outcome == "done"


async def test_row_60_half_duplex_boards_hear_nothing_of_themselves(
    autojump_clock: object,
) -> None:
    ears = RealEars(speaking=True)
    config = scripted(*SETTINGS, "voice.barge_in=false")
    async with open_lab(config, wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        await Microphone(peer, 0.5).run(still(16.0))
        await trio.sleep(3)
        assert len(peer.messages("tts", "start")) == 1


async def test_a_cough_does_not_stop_it(autojump_clock: object) -> None:
    ears = RealEars(speaking=True)
    async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        await Microphone(peer, 0.0).run(coughs(8 * RATE_HZ, np.random.default_rng(5)))
        assert aborts(lab) == []


async def test_after_a_false_alarm_the_conversation_goes_on_listening(
    autojump_clock: object,
) -> None:
    """The answer is stopped by sounds that are no words; the next real question is heard."""
    ears = RealEars(speaking=True)
    babble = person("La la la la la la.")
    async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        real = ears.asr.transcribe

        async def nothing(request: object) -> object:
            from duet_trio.engines.contracts import Transcript

            return Transcript("", no_speech_probability=0.95)

        ears.asr.transcribe = nothing  # type: ignore[method-assign, assignment]
        await Microphone(peer, 0.0).run(np.concatenate([still(1.0), babble, still(1.5)]))
        assert aborts(lab) == ["barge_in"]
        assert len(peer.messages("tts", "start")) == 1
        ears.asr.transcribe = real  # type: ignore[method-assign]
        await Microphone(peer, 0.0).run(
            np.concatenate([still(0.5), said("What is your name?"), still(1.0)])
        )
        assert words((await peer.recognised(2))[-1]) == ["what", "is", "your", "name"]


async def test_the_second_barge_in_takes_as_long_as_the_first(autojump_clock: object) -> None:
    ears = RealEars(speaking=True)
    async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await answering(peer)
        for count in (1, 2, 3):
            voice = np.concatenate([still(1.0), person("What is your name, robot?"), still(1.5)])
            await Microphone(peer, 0.0).run(voice)
            assert aborts(lab) == ["barge_in"] * count
            await peer.until(lambda count=count: len(peer.messages("tts", "start")) == count + 1)  # type: ignore[misc]
        cough = coughs(4 * RATE_HZ, np.random.default_rng(5))
        await Microphone(peer, 0.0).run(cough)
        assert aborts(lab) == ["barge_in"] * 3


async def test_on_an_auto_board_it_has_no_effect_and_says_so_once(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    ears = RealEars(speaking=True)
    with caplog.at_level(logging.WARNING):
        async with open_lab(scripted(*SETTINGS), wrap=ears.wrap) as lab, meeting(lab) as peer:
            for _ in range(3):
                await peer.listen("auto")
            await peer.say("listen", state="detect", text="A story, please.")
            await peer.until(peer.packets)
            await Microphone(peer, 0.0).run(person("Stop it please, stop it now."))
            assert aborts(lab) == []
    told = [record for record in caplog.records if "no effect" in record.getMessage()]
    assert len(told) == 1
