"""The audio path alone: timing, a full queue, flushes, stalls, damaged packets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.board.playback import (
    DECODE_QUEUE_PACKETS,
    PCM_QUEUE_FRAMES,
    Heard,
    Playback,
    SilentDecoder,
    render,
)
from duet_trio.errors import PeerError

RATE_HZ = 1000  # small numbers to look at: one frame of 60 ms has 60 samples


class Numbered:
    """A packet is one byte; its frame is that number, 60 ms long. 0xFF is damaged."""

    def __init__(self) -> None:
        self.resets = 0

    def decode(self, packet: bytes) -> bytes:
        if packet == b"\xff":
            raise PeerError("damaged")
        return np.full(60, packet[0], dtype="<i2").tobytes()

    def reset(self) -> None:
        self.resets += 1


def make() -> Playback:
    return Playback(Numbered(), sample_rate_hz=RATE_HZ)


def starts(playback: Playback) -> list[float]:
    return [round(sound.start_s, 6) for sound in playback.heard]


def test_the_first_packet_sounds_when_it_arrives_and_the_rest_follow_seamlessly() -> None:
    playback = make()
    for number in range(3):
        assert playback.push(bytes([number]), 1.0)
    playback.advance(2.0)
    assert starts(playback) == [1.0, 1.06, 1.12]
    assert playback.stalls == []
    pcm = np.frombuffer(playback.heard_pcm(1.0), dtype="<i2")
    assert pcm.tolist() == [0] * 60 + [1] * 60 + [2] * 60


def test_a_queue_that_runs_dry_is_a_stall_and_silence() -> None:
    playback = make()
    playback.push(b"\x01", 0.0)
    playback.push(b"\x02", 0.1)
    assert [(s.start_s, round(s.duration_s, 6)) for s in playback.stalls] == [(0.06, 0.04)]
    pcm = np.frombuffer(playback.heard_pcm(0.0, 0.2), dtype="<i2")
    assert pcm.tolist() == [1] * 60 + [0] * 40 + [2] * 60 + [0] * 40


def test_silence_between_two_flushes_is_no_stall() -> None:
    playback = make()
    playback.push(b"\x01", 0.0)
    playback.flush(1.0)
    playback.push(b"\x02", 1.0)
    assert playback.stalls == []
    assert starts(playback) == [0.0, 1.0]


def test_a_full_queue_drops_the_newest_packet() -> None:
    playback = make()
    # One frame sounds, one is being written, two are decoded, forty wait as packets.
    room = 2 + PCM_QUEUE_FRAMES + DECODE_QUEUE_PACKETS
    assert [playback.push(bytes([n]), 0.0) for n in range(room + 2)] == [True] * room + [False] * 2
    assert playback.dropped_full == 2
    assert playback.queued == PCM_QUEUE_FRAMES + DECODE_QUEUE_PACKETS
    assert playback.push(bytes([99]), 0.06)  # one frame moved on: there is room for one
    assert not playback.push(bytes([98]), 0.06)
    playback.advance(60.0)
    assert [sound.pcm[0] for sound in playback.heard] == [*range(room), 99]
    assert playback.stalls == []


def test_a_flush_leaves_what_has_reached_the_codec() -> None:
    playback = make()
    for number in range(10):
        playback.push(bytes([number]), 0.0)
    playback.flush(0.03)
    playback.advance(5.0)
    assert [sound.pcm[0] for sound in playback.heard] == [0, 1]
    assert playback.sound_end_s - 0.03 <= 0.120
    assert playback.flushed == 8
    assert playback.queued == 0


def test_a_flush_resets_the_decoder() -> None:
    decoder = Numbered()
    playback = Playback(decoder, sample_rate_hz=RATE_HZ)
    playback.flush(0.0)
    assert decoder.resets == 1


def test_damaged_packets_are_counted_and_leave_no_hole_of_their_own() -> None:
    playback = make()
    for packet in (b"\x01", b"\xff", b"\x02"):
        playback.push(packet, 0.0)
    playback.advance(1.0)
    assert playback.damaged == 1
    assert starts(playback) == [0.0, 0.06]


def test_when_it_has_drained() -> None:
    playback = make()
    assert playback.queues_empty_at() == -np.inf
    for number in range(5):
        playback.push(bytes([number]), 10.0)
    # The last frame is handed to the codec when the one before it begins to sound, and is
    # written when all but the DMA buffer's 60 ms of it are out.
    assert playback.queues_empty_at() == pytest.approx(10.18)
    assert playback.written_at() == pytest.approx(10.24)
    playback.advance(10.17)
    assert playback.queued == 1
    playback.advance(10.19)
    assert playback.queued == 0
    assert playback.written_at() == pytest.approx(10.24)
    assert playback.sound_end_s == pytest.approx(10.30)


def test_short_packets_fill_the_dma_buffer() -> None:
    playback = Playback(SilentDecoder(RATE_HZ, 20), sample_rate_hz=RATE_HZ)
    for _ in range(10):
        playback.push(b"x", 0.0)
    assert len(playback.heard) == 4  # three in the DMA buffer, one being written
    playback.advance(1.0)
    assert starts(playback) == [round(n * 0.02, 6) for n in range(10)]


def test_an_axis_may_begin_and_end_within_sounds() -> None:
    heard = [Heard(0.0, 0.06, 0, np.full(60, 7, dtype="<i2").tobytes())]
    assert np.frombuffer(render(heard, RATE_HZ, 0.02, 0.05), "<i2").tolist() == [7] * 30
    assert np.frombuffer(render(heard, RATE_HZ, -0.01), "<i2").tolist() == [0] * 10 + [7] * 60
    assert render([], RATE_HZ, 5.0) == b""


def test_time_never_runs_backwards() -> None:
    playback = make()
    playback.push(b"\x01", 5.0)
    playback.push(b"\x02", 4.0)
    assert starts(playback) == [5.0, 5.06]


steps = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "push", "flush", "advance"]),
        st.floats(0, 0.4, allow_nan=False),
        st.integers(0, 255),
    ),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(steps=steps)
def test_any_interleaving_keeps_the_laws_of_sound(steps: list[tuple[str, float, int]]) -> None:
    playback, now = make(), 0.0
    flushes: list[tuple[float, int]] = []  # when, and how many packets had been accepted
    for what, pause, number in steps:
        now += pause
        if what == "push":
            playback.push(bytes([number]), now)
        elif what == "flush":
            playback.flush(now)
            flushes.append((now, playback.accepted))
        else:
            playback.advance(now)
    playback.advance(now + 10)
    for before, after in zip(playback.heard, playback.heard[1:], strict=False):
        assert after.start_s >= before.end_s - 1e-9
        assert after.sequence > before.sequence
    for at, accepted in flushes:
        old = [sound.end_s for sound in playback.heard if sound.sequence < accepted]
        assert all(end <= at + 0.120 + 1e-9 for end in old)
    for stall in playback.stalls:
        assert stall.duration_s > 0
        assert not any(s.start_s < stall.start_s + stall.duration_s - 1e-9
                       and s.end_s > stall.start_s + 1e-9 for s in playback.heard)  # fmt: skip
    assert len(playback.heard) == playback.accepted - playback.flushed - playback.damaged
    assert len(playback.heard_pcm(0.0)) == 2 * round(max(playback.sound_end_s, 0.0) * RATE_HZ)
