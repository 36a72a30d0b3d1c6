"""Rows of the field reports on endpoints and recognition, with real speech and real noise."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from duet_trio.bench.ears_corpus import (
    RATE_HZ,
    SENTENCES,
    at_level,
    babbler,
    clicks,
    coughs,
    fan,
    pcm_of,
)
from duet_trio.lab.lab import open_lab
from tests.ears.real import RealEars, mixed, said, still, words
from tests.protocol.peer import meeting, scripted

pytestmark = pytest.mark.models
RNG_SEED = 7


@pytest.mark.parametrize("text", ["Yes.", "No.", "Stop.", "Thank you.", "Okay."])
async def test_a_word_is_heard(autojump_clock: object, text: str) -> None:
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(np.concatenate([still(0.8), said(text), still(1.0)])))
        assert words((await peer.recognised())[0]) == words(text)


async def test_row_58_speech_from_the_first_sample_keeps_its_first_word(
    autojump_clock: object,
) -> None:
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(np.concatenate([said(SENTENCES[1]), still(1.0)])))
        assert words((await peer.recognised())[0]) == words(SENTENCES[1])


@pytest.mark.parametrize("pause_s", [0.2, 0.3, 0.4, 0.5])
async def test_a_pause_in_mid_sentence_cuts_nothing(autojump_clock: object, pause_s: float) -> None:
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        halves = said("I would like to know"), said("how many people live in Spain.")
        track = np.concatenate([still(0.5), halves[0], still(pause_s), halves[1], still(1.0)])
        await peer.speak(pcm_of(track))
        heard = words((await peer.recognised())[0])
        assert heard[:3] == ["i", "would", "like"]
        assert heard[-1] == "spain"
        await peer.stopped()
        assert len(peer.messages("stt")) == 1


async def test_a_longer_endpoint_for_one_board(autojump_clock: object) -> None:
    """A person who pauses for a second gets a board of their own setting."""
    ears = RealEars()
    config = scripted('boards."02:00:00:00:00:01".endpoint_ms=1300')
    async with open_lab(config, wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        halves = said("Tell me a story"), said("about a cat and a mouse.")
        track = np.concatenate([still(0.5), halves[0], still(1.0), halves[1], still(1.6)])
        await peer.speak(pcm_of(track))
        assert words((await peer.recognised())[0])[-1] == "mouse"


@pytest.mark.slow
async def test_row_56_a_minute_of_babble_is_cut_and_never_blocks(autojump_clock: object) -> None:
    ears = RealEars()
    babble = babbler([said(text) for text in SENTENCES])(60 * RATE_HZ, np.random.default_rng(1))
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(at_level(babble, -28)))
        assert all(len(item.pcm) / 32000 <= 20.6 for item in ears.asr.heard)
        await peer.say("abort")
        await trio.sleep(1)
        await peer.listen()
        before = len(peer.messages("stt"))
        await peer.speak(pcm_of(np.concatenate([still(0.5), said("What is your name?"), still(1)])))
        texts = await peer.recognised(before + 1)
        assert words(texts[-1]) == ["what", "is", "your", "name"]


@pytest.mark.parametrize("snr_db", [20, 10])
@pytest.mark.parametrize("noise", ["fan", "babble"])
async def test_speech_in_noise_ends_soon_and_is_understood(
    autojump_clock: object, noise: str, snr_db: int
) -> None:
    ears = RealEars()
    rng = np.random.default_rng(RNG_SEED)
    speech = np.concatenate([still(1.0), said(SENTENCES[3]), still(3.0)])
    make = fan if noise == "fan" else babbler([said(text) for text in SENTENCES])
    track = mixed(speech, at_level(make(speech.size, rng), -26 - snr_db))
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        begun = trio.current_time()
        await peer.speak(pcm_of(track))
        text = (await peer.recognised())[-1]
        assert "make" in words(text)
        end_s = 1.0 + said(SENTENCES[3]).size / RATE_HZ
        assert 0.3 < peer.times("stt")[0] - begun - end_s < 2.0


async def test_a_stream_that_stops_in_mid_speech_is_taken_as_it_is(autojump_clock: object) -> None:
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(np.concatenate([still(0.5), said("What is your name?")])))
        stopped_at = trio.current_time()
        assert words((await peer.recognised())[0]) == ["what", "is", "your", "name"]
        assert peer.times("stt")[0] - stopped_at == pytest.approx(2.0, abs=0.2)


async def test_the_hard_cap(autojump_clock: object) -> None:
    ears = RealEars()
    config = scripted("vad.max_utterance_s=5")
    async with open_lab(config, wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        endless = np.concatenate([said(text) for text in SENTENCES])
        await peer.speak(pcm_of(endless[: 10 * RATE_HZ]))
        assert (await peer.recognised())[0]
        assert 4.9 < len(ears.asr.heard[-1].pcm) / 32000 < 5.1


NOISES = ["silence", "fan", "hum", "breath", "clicks", "coughs"]


@pytest.mark.parametrize("name", NOISES)
async def test_row_62_noise_makes_no_turn(autojump_clock: object, name: str) -> None:
    rng = np.random.default_rng(RNG_SEED)
    count = 20 * RATE_HZ
    times = np.arange(count) / RATE_HZ
    track = {
        "silence": np.zeros(count),
        "fan": at_level(fan(count, rng), -30),
        "hum": at_level(np.sin(2 * np.pi * 50 * times) + np.sin(2 * np.pi * 150 * times) / 3, -30),
        "breath": at_level(fan(count, rng) * np.sin(2 * np.pi * 0.4 * times) ** 4, -35),
        "clicks": clicks(count, rng),
        "coughs": coughs(count, rng),
    }[name]
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(track))
        await trio.sleep(3)
        assert not peer.messages("tts")


@pytest.mark.parametrize("name", NOISES)
async def test_row_62_noise_while_the_key_is_held_makes_no_turn(
    autojump_clock: object, name: str
) -> None:
    """With the key down there is no VAD gate before the recogniser: the guards stand alone."""
    rng = np.random.default_rng(RNG_SEED)
    count = 3 * RATE_HZ
    track = {
        "silence": np.zeros(count),
        "fan": at_level(fan(count, rng), -30),
        "hum": at_level(np.sin(2 * np.pi * 50 * np.arange(count) / RATE_HZ), -30),
        "breath": at_level(fan(count, rng), -38),
        "clicks": clicks(count, rng),
        "coughs": coughs(count, rng),
    }[name]
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen("manual")
        await peer.speak(pcm_of(track))
        await peer.say("listen", state="stop")
        await trio.sleep(3)
        assert not peer.messages("tts", "start")


async def test_thank_you_said_by_a_person_counts(autojump_clock: object) -> None:
    ears = RealEars()
    async with open_lab(scripted(), wrap=ears.wrap) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(pcm_of(np.concatenate([still(0.6), said("Thank you."), still(1.0)])))
        assert words((await peer.recognised())[0]) == ["thank", "you"]


async def test_a_second_utterance_while_the_first_is_recognised_makes_one_turn(
    autojump_clock: object,
) -> None:
    """The person pauses longer than the endpoint and goes on before the text is there."""
    config = scripted("asr.delay_s=1.5", "vad.speculate_ms=0", 'asr.script=["one", "two", "three"]')
    async with open_lab(config) as lab, meeting(lab) as peer:
        from duet_trio.lab.lab import loud, quiet

        await peer.listen()
        await peer.speak(quiet(0.5) + loud(0.8) + quiet(0.8) + loud(0.8) + quiet(1.0))
        assert await peer.recognised() == ["one two"]
        await peer.stopped()
        assert len(peer.messages("tts", "start")) == 1


async def test_a_sentence_that_breaks_off_gets_more_time(autojump_clock: object) -> None:
    from duet_trio.lab.lab import loud, quiet

    config = scripted(
        'asr.script=["I would like a", "cup of tea"]', "vad.speculate_ms=0", "voice.language=en"
    )
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.speak(quiet(0.5) + loud(0.8) + quiet(0.9) + loud(0.8) + quiet(1.0))
        assert await peer.recognised() == ["I would like a cup of tea"]
        await peer.stopped()


async def test_and_is_answered_if_nothing_follows(autojump_clock: object) -> None:
    from duet_trio.lab.lab import loud, quiet

    config = scripted('asr.script=["I would like a"]', "voice.language=en")
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen()
        begun = trio.current_time()
        await peer.speak(loud(0.8) + quiet(2.0))
        assert await peer.recognised() == ["I would like a"]
        assert peer.times("stt")[0] - begun == pytest.approx(0.8 + 0.6 + 0.6, abs=0.15)


async def test_a_typed_question_while_the_answer_is_thought_out_replaces_it(
    autojump_clock: object,
) -> None:
    config = scripted("tts.first_audio_s=2")
    async with open_lab(config) as lab, meeting(lab) as peer:
        await peer.listen()
        await peer.say("listen", state="detect", text="First?")
        await trio.sleep(0.5)
        await peer.say("listen", state="detect", text="Second?")
        await peer.until(lambda: len(peer.packets()) > 100)
        await peer.stopped(2)
        outcomes = [event["outcome"] for event in lab.events("answer.end")]
        assert outcomes == ["aborted", "done"]


async def test_language_per_board(autojump_clock: object) -> None:
    ears = RealEars()
    config = scripted("voice.language=de", 'boards."02:00:00:00:00:02".language=en')
    async with open_lab(config, wrap=ears.wrap) as lab:
        for number, language in ((1, "de"), (2, "en")):
            headers = [("Device-Id", f"02:00:00:00:00:0{number}")]
            async with meeting(lab, headers=headers) as peer:
                await peer.listen()
                track = np.concatenate([still(0.5), said("What is your name?"), still(1.0)])
                await peer.speak(pcm_of(track))
                await peer.recognised()
                assert ears.asr.heard[-1].language == language
