"""Our own voice is told from another's by how much of it a linear path explains."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from duet_trio.speech.echo_reference import ECHO_SHARE, JUDGED_MS, RATE_HZ, EchoReference

Sound = NDArray[np.float64]
JUDGED = RATE_HZ * JUDGED_MS // 1000


def voice(seed: int, seconds: float = 4.0) -> Sound:
    """A made-up voice: harmonics of a wandering pitch under wandering resonances."""
    rng = np.random.default_rng(seed)
    count = round(seconds * RATE_HZ)
    times = np.arange(count) / RATE_HZ
    pitch = 100 + 40 * seed + 25 * np.interp(times, np.arange(0, 5, 0.2), rng.standard_normal(25))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    sound = np.zeros(count)
    for harmonic in range(1, 24):
        strength = np.interp(times, np.arange(0, 5, 0.1), rng.random(50) ** 2) / harmonic
        sound += strength * np.sin(harmonic * phase)
    return 0.1 * sound / float(np.std(sound)) + 0.002 * rng.standard_normal(count)


def pcm(sound: Sound) -> bytes:
    return np.clip(sound * 32768, -32768, 32767).astype("<i2").tobytes()


def playing(own: Sound, until_s: float) -> EchoReference:
    """A board that has been given ``own``, packet by packet, from second 0 on."""
    reference = EchoReference()
    for start in range(0, round(until_s * RATE_HZ), 960):
        reference.played(pcm(own[start : start + 960]), start / RATE_HZ)
    return reference


def room(sound: Sound, delay_s: float) -> Sound:
    rng = np.random.default_rng(9)
    count = RATE_HZ // 5
    response = 0.05 * rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    response[0] = 1.0
    echo = np.convolve(sound, response)[: sound.size]
    return np.concatenate([np.zeros(round(delay_s * RATE_HZ)), echo])


def share_at(reference: EchoReference, microphone: Sound, ended_s: float) -> float:
    end = round(ended_s * RATE_HZ)
    return reference.share(pcm(microphone[end - JUDGED : end]), ended_s)


@pytest.mark.parametrize("delay_s", [0.0, 0.06, 0.2, 0.5])
@pytest.mark.parametrize("gain", [0.03, 0.316, 1.0, 3.0])
def test_an_echo_at_any_level_and_delay(delay_s: float, gain: float) -> None:
    own = voice(1)
    assert share_at(playing(own, 3.0), gain * room(own, delay_s), 3.0) > ECHO_SHARE + 0.2


@pytest.mark.parametrize("seed", range(2, 8))
def test_another_voice_is_no_echo(seed: int) -> None:
    assert share_at(playing(voice(1), 3.0), voice(seed), 3.0) < ECHO_SHARE


@pytest.mark.parametrize("seed", range(2, 6))
def test_a_person_over_the_echo_is_a_person(seed: int) -> None:
    microphone = voice(seed)
    microphone += 0.316 * room(voice(1), 0.1)[: microphone.size]
    assert share_at(playing(voice(1), 3.0), microphone, 3.0) < ECHO_SHARE


def test_with_nothing_to_compare_nothing_is_an_echo() -> None:
    own = voice(1)
    assert EchoReference().share(pcm(own[:JUDGED]), 1.0) == 0.0
    assert share_at(playing(np.zeros(own.size), 3.0), own, 3.0) == 0.0
    assert playing(own, 3.0).share(pcm(own[:1000]), 3.0) == 0.0
    assert playing(own, 3.0).share(bytes(2 * JUDGED), 3.0) == 0.0


def test_a_pause_between_two_answers() -> None:
    own = voice(1)
    reference = playing(own, 1.0)
    for start in range(0, RATE_HZ * 2, 960):  # the next answer, ten seconds later
        reference.played(pcm(own[start : start + 960]), 11.0 + start / RATE_HZ)
    assert share_at(reference, np.concatenate([np.zeros(11 * RATE_HZ), own]), 13.0) > ECHO_SHARE
