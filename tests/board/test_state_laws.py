"""Whatever happens in whatever order: no error, and the laws that every board keeps."""

from __future__ import annotations

import itertools
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.board.firmware import FIRMWARES, firmware
from duet_trio.board.playback import Playback, SilentDecoder
from duet_trio.board.state import BoardState, Sent
from duet_trio.wire.messages import ListenMode, ListenStart

EVENTS = (
    "audio", "tts_start", "tts_stop", "toggle_button", "press", "release", "wake_word",
    "dial", "opened", "closed", "advance",
)  # fmt: skip

steps = st.lists(
    st.tuples(st.sampled_from(EVENTS + ("audio",) * 6), st.floats(0, 0.2, allow_nan=False)),
    max_size=120,
)


def happen(board: BoardState, event: str, now: float) -> Sent:
    if event != "audio":
        sent: Sent = getattr(board, event)(now)
        return sent
    speaking_before = board.state == "speaking"
    accepted, sent = board.audio(b"x", now)
    assert not accepted or speaking_before or board.state == "speaking"
    return sent


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(FIRMWARES),
    mode=st.sampled_from(get_args(ListenMode)),
    always=st.booleans(),
    steps=steps,
)
def test_laws(name: str, mode: ListenMode, always: bool, steps: list[tuple[str, float]]) -> None:
    playback = Playback(SilentDecoder(1000), sample_rate_hz=1000)
    board = BoardState(firmware(name), mode, playback, wake_word_always=always)
    now, starts_heard = 0.0, 0
    for event, pause in steps:
        now += pause
        for message in happen(board, event, now):
            starts_heard += isinstance(message, ListenStart)
        assert board.deadline() > now, "something is overdue"
        assert board.stops <= board.starts
        if board.microphone_open(now):
            assert board.channel_open
            assert board.state == "listening" or board.mode == "realtime"
            assert starts_heard > 0
    board.advance(now + 60)
    ends = [(sound.start_s, sound.end_s) for sound in playback.heard]
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(ends))
    assert playback.queued == 0
