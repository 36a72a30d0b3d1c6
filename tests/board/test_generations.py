"""What happens to audio: every event in every firmware generation, one test per event.

A board has 0.6 s of audio queued (ten packets that arrived at once at 1.00 s) when the event
comes at 1.03 s. Played out, the sound ends at 1.60 s; after a flush it ends at 1.12 s: one
frame in the DMA buffer, one in the codec write.
"""

from __future__ import annotations

import pytest

from duet_trio.board.firmware import FIRMWARES, firmware
from duet_trio.board.playback import Playback, SilentDecoder
from duet_trio.board.state import MICROPHONE_DELAY_S, BoardState
from duet_trio.errors import UsageError
from duet_trio.wire.messages import Abort, Detect, ListenMode, ListenStart, ListenStop

RATE_HZ = 1000
AUDIO, EVENT = 1.00, 1.03
FLUSHED, PLAYED_OUT = 1.12, 1.60
PLAYED_OUT_LATER = 1.66  # with one more packet
#: When the waiting board listens: v2.2 once its queues are empty, v2.4 once the codec has
#: taken the last frame too.
DRAINED = {"2.2": 1.48, "2.2.2": 1.48, "2.4": 1.54}
WAKE = Abort(reason="wake_word_detected")

every_generation = pytest.mark.parametrize("name", ["1.7", "1.8", "2.2", "2.4"])


def listening(name: str, mode: ListenMode, *, wake_word_always: bool = False) -> BoardState:
    playback = Playback(SilentDecoder(RATE_HZ), sample_rate_hz=RATE_HZ)
    board = BoardState(firmware(name), mode, playback, wake_word_always=wake_word_always)
    assert board.dial(0.0) == []
    assert board.opened(0.1) == [ListenStart(mode=mode)]
    assert board.state == "listening"
    return board


def speaking(name: str, mode: ListenMode, *, wake_word_always: bool = False) -> BoardState:
    board = listening(name, mode, wake_word_always=wake_word_always)
    assert board.tts_start(0.5) == []
    push(board, AUDIO, 10)
    assert board.state == "speaking"
    return board


def push(board: BoardState, now: float, packets: int = 1) -> bool:
    accepted = [board.audio(b"x", now)[0] for _ in range(packets)]
    return all(accepted)


def sound_end(board: BoardState) -> float:
    board.advance(30.0)
    return round(board.playback.sound_end_s, 6)


@every_generation
def test_tts_stop_in_auto_mode(name: str) -> None:
    board = speaking(name, "auto")
    sent = board.tts_stop(EVENT)
    assert board.state == "listening"
    if name in ("1.7", "1.8"):
        assert sent == [ListenStart(mode="auto")]
        listens_at, ends = EVENT, FLUSHED
    else:
        assert sent == []
        listens_at, ends = DRAINED[name], PLAYED_OUT
        assert board.deadline() == pytest.approx(listens_at)
        assert board.advance(listens_at - 0.001) == []
        assert not board.microphone_open(listens_at - 0.001)
        assert board.advance(listens_at + 1e-9) == [ListenStart(mode="auto")]
    assert not board.microphone_open(listens_at + MICROPHONE_DELAY_S - 0.001)
    assert board.microphone_open(listens_at + MICROPHONE_DELAY_S + 0.001)
    assert not push(board, 2.0)
    assert sound_end(board) == ends


def test_the_main_loop_of_2_2_stands_still_while_it_drains() -> None:
    board = speaking("2.2", "auto")
    board.tts_stop(EVENT)
    assert board.tts_start(1.10) == []
    assert board.starts == 1
    assert not push(board, 1.20)
    assert board.advance(DRAINED["2.2"] + 1e-9) == [ListenStart(mode="auto")]
    assert board.state == "speaking"
    assert board.starts == 2


def test_2_4_takes_the_next_answer_while_it_drains() -> None:
    board = speaking("2.4", "auto")
    board.tts_stop(EVENT)
    assert board.tts_start(1.10) == []
    assert board.state == "speaking"
    assert board.advance(10.0) == []  # it never said that it listens
    assert sound_end(board) < PLAYED_OUT  # and its queue was flushed


@every_generation
def test_tts_stop_in_manual_mode(name: str) -> None:
    board = speaking(name, "manual")
    assert board.tts_stop(EVENT) == []
    assert board.state == "idle"
    assert board.advance(10.0) == []
    assert not board.microphone_open(10.0)
    assert sound_end(board) == PLAYED_OUT


@every_generation
def test_tts_stop_in_realtime_mode(name: str) -> None:
    board = speaking(name, "realtime")
    assert board.microphone_open(EVENT)  # it never closed
    assert board.tts_stop(EVENT) == []
    assert board.state == "listening"
    assert board.microphone_open(EVENT)
    assert board.advance(10.0) == []
    assert sound_end(board) == PLAYED_OUT


@every_generation
def test_toggle_button_while_speaking(name: str) -> None:
    board = speaking(name, "auto")
    assert board.toggle_button(EVENT) == [Abort()]
    assert board.state == "speaking"
    if name == "1.7":
        assert not push(board, 1.05)
        assert board.refused_audio == 1
        assert board.tts_stop(1.06) == [ListenStart(mode="auto")]
        assert sound_end(board) == FLUSHED
        return
    assert push(board, 1.05)
    sent = board.tts_stop(1.06)
    if name == "1.8":
        assert sent == [ListenStart(mode="auto")]
        assert sound_end(board) == 1.18  # two frames beyond the stop, the rest is lost
    else:
        assert sent == []
        assert board.advance(10.0) == [ListenStart(mode="auto")]
        assert sound_end(board) == PLAYED_OUT_LATER


def test_only_the_oldest_generation_is_silent_until_the_next_start() -> None:
    board = speaking("1.7", "auto")
    board.toggle_button(EVENT)
    assert board.tts_start(1.10) == []  # a second start while speaking only lifts the silence
    assert board.starts == 1
    assert push(board, 1.20)


@every_generation
def test_talk_key_while_speaking(name: str) -> None:
    board = speaking(name, "auto")
    assert board.press(EVENT) == [Abort(), ListenStart(mode="manual")]
    assert (board.state, board.mode) == ("listening", "manual")
    assert not push(board, 1.05)
    assert board.tts_stop(1.06) == []  # the server's answer to the abort changes nothing
    assert board.microphone_open(EVENT + MICROPHONE_DELAY_S + 0.001)
    assert board.release(1.5) == [ListenStop()]
    assert board.state == "idle"
    assert sound_end(board) == FLUSHED


@pytest.mark.parametrize("name", FIRMWARES)
def test_wake_word_while_speaking_in_auto_mode(name: str) -> None:
    board = speaking(name, "auto")
    assert board.wake_word(EVENT) == [WAKE]
    if name in ("2.2", "2.4"):
        assert board.state == "listening"
        assert not push(board, 1.05)
        assert board.tts_stop(1.06) == []
        assert board.advance(DRAINED[name] - 0.001) == []
        assert board.advance(DRAINED[name] + 1e-9) == [ListenStart(mode="auto")]
        assert sound_end(board) == PLAYED_OUT
        assert board.stops == 0
        return
    assert board.state == "speaking"
    assert push(board, 1.05) == (name != "1.7")
    sent = board.tts_stop(1.06)
    if name == "2.2.2":
        assert sent == []
        assert board.advance(10.0) == [ListenStart(mode="auto")]
        assert sound_end(board) == PLAYED_OUT_LATER
    else:
        assert sent == [ListenStart(mode="auto")]
        assert sound_end(board) == (FLUSHED if name == "1.7" else 1.18)


@every_generation
def test_wake_word_while_speaking_in_realtime_mode(name: str) -> None:
    board = speaking(name, "realtime")
    assert board.wake_word(EVENT) == []
    assert board.state == "speaking"
    assert sound_end(board) == PLAYED_OUT
    board = speaking(name, "realtime", wake_word_always=True)
    sent = board.wake_word(EVENT)
    if name in ("2.2", "2.4"):
        assert sent == [WAKE, ListenStart(mode="realtime")]
        assert board.state == "listening"
        assert sound_end(board) == FLUSHED
    else:
        assert sent == [WAKE]
        assert board.state == "speaking"


@every_generation
@pytest.mark.parametrize("mode", ["auto", "realtime"])
def test_toggle_button_while_listening(name: str, mode: ListenMode) -> None:
    board = listening(name, mode)
    assert board.toggle_button(EVENT) == []
    assert board.hanging_up
    assert board.state == "idle"
    assert not board.microphone_open(10.0)


@every_generation
@pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])
def test_connection_lost_while_speaking(name: str, mode: ListenMode) -> None:
    board = speaking(name, mode)
    assert board.closed(EVENT) == []
    assert board.state == "idle"
    assert not board.channel_open
    assert not board.microphone_open(EVENT)
    assert sound_end(board) == PLAYED_OUT


@every_generation
def test_wake_word_while_listening(name: str) -> None:
    assert listening(name, "auto").wake_word(EVENT) == []
    board = listening(name, "auto", wake_word_always=True)
    sent = board.wake_word(EVENT)
    assert sent == ([WAKE, ListenStart(mode="auto")] if name in ("2.2", "2.4") else [])


def test_connecting_refuses_an_answer_and_its_audio() -> None:
    playback = Playback(SilentDecoder(RATE_HZ), sample_rate_hz=RATE_HZ)
    board = BoardState(firmware("2.4"), "auto", playback)
    board.dial(0.0)
    assert board.tts_start(0.1) == []
    assert board.state == "connecting"
    assert not push(board, 0.2)
    assert board.tts_stop(0.3) == []
    assert (board.starts, board.stops, board.refused_audio) == (0, 0, 1)
    assert board.opened(0.4, wake_word="hello") == [Detect(text="hello"), ListenStart(mode="auto")]


def test_an_idle_board_may_be_spoken_to_and_remembers_its_mode() -> None:
    board = speaking("2.4", "manual")
    board.tts_stop(EVENT)
    assert board.tts_start(3.0) == []
    assert push(board, 3.1)
    board.tts_stop(4.0)
    assert board.state == "idle"
    assert board.toggle_button(5.0) == [ListenStart(mode="auto")]
    assert board.tts_start(6.0) == []
    assert board.tts_stop(7.0) == [ListenStart(mode="auto")]


def test_what_comes_too_soon_after_the_start_is_flushed() -> None:
    board = listening("2.4", "auto")
    board.tts_start(1.0)
    assert push(board, 1.01, packets=5)  # 50 ms pass before the display lets the flush happen
    board.advance(1.06)
    assert board.playback.flushed == 3
    assert push(board, 1.2)


def test_an_early_stop_skips_the_flush() -> None:
    board = speaking("2.4", "realtime")
    board.tts_stop(EVENT)
    board.tts_start(1.04)
    board.tts_stop(1.05)  # within 50 ms: the main loop never saw the state in between
    assert sound_end(board) == PLAYED_OUT


def test_a_second_start_while_speaking_flushes_nothing() -> None:
    board = speaking("2.4", "auto")
    board.tts_start(EVENT)
    assert sound_end(board) == PLAYED_OUT
    assert board.starts == 1


def test_unknown_firmware_is_bad_use() -> None:
    with pytest.raises(UsageError, match="give one of"):
        firmware("3.0")
