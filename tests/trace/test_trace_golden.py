"""Golden traces: small, made by the generator below, checked in, with figures known by hand.

``python tests/trace/test_trace_golden.py`` writes them anew after a change of the format.
The sender in here is a second, independent writing of the pacer's rules: the replay is
compared with it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet_trio.events import EVENTS
from duet_trio.trace.answers import RawAnswer
from duet_trio.trace.follow import describe
from duet_trio.trace.gather import Gatherer
from duet_trio.trace.reader import TraceFile
from duet_trio.trace.recorder import ListRecorder
from duet_trio.trace.replay import SenderSettings, recorded_lead, replay, write_replays
from duet_trio.trace.statistics import AnswerStatistics, Statistics, evaluate_events
from duet_trio.trace.summary import (
    FileSummary,
    summarise,
    write_answers,
    write_csv,
    write_json,
    write_table,
)

FOLDER = Path(__file__).parent / "golden"
BOARD = "02:00:00:00:00:01"
FRAME_S = 0.06
BLOCK_S = 0.19  # between two blocks of the voice, as on the reference machine


@dataclass
class Scene:
    """Events in any order; written by time."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, t: float, event: str, generation: int | None = None, **fields: Any) -> None:
        recorder = ListRecorder(lambda: t)
        recorder.emit(event, board=fields.pop("board", BOARD), generation=generation, **fields)
        self.events += recorder.events

    def start(self) -> None:
        self.add(
            0.0,
            "trace.start",
            board=None,
            format="1.0",
            wall_clock="2026-01-01T00:00:00.000+00:00",
            machine="golden",
            version="0",
            config_digest="0" * 8,
        )

    def both(self, t: float, generation: int, what: str) -> None:
        self.add(t, "control", generation, what=what)
        self.add(t + 0.001, "sent", generation, what=what)

    def open(self, t: float, generation: int, question: str) -> None:
        self.add(t, "answer.start", generation, question=question)
        self.both(t, generation, "stt")
        self.both(t, generation, "tts.start")

    def close(self, t: float, generation: int, outcome: str = "done", cause: str = "") -> None:
        self.both(t, generation, "tts.stop")
        self.add(t + 0.0005, "answer.end", generation, outcome=outcome, cause=cause, heard="")

    def llm(self, begin: float, end: float, generation: int, waited: float = 0.0) -> None:
        self.add(
            end,
            "turn",
            generation,
            who="llm",
            waited_ms=waited * 1000,
            held_ms=(end - begin) * 1000,
            reevaluated_tokens=12,
        )

    def piece(self, t: float, generation: int, index: int) -> None:
        self.add(t, "piece", generation, index=index, text=f"Sentence {index}.")

    def speak(
        self, asked: float, generation: int, index: int, blocks: list[tuple[float, float]]
    ) -> float:
        """One TTS call; blocks as (time after the request, audio). Returns its end."""
        self.add(asked, "tts.start", generation, piece=index, text=f"Sentence {index}.")
        for after, audio_s in blocks:
            self.add(asked + after, "pcm", generation, piece=index, audio_ms=audio_s * 1000)
        end = asked + blocks[-1][0] + 0.001
        audio_ms = sum(audio_s for _, audio_s in blocks) * 1000
        self.add(end, "tts.end", generation, piece=index, audio_ms=audio_ms, capped=False)
        held = (end - asked) * 1000
        self.add(end, "turn", generation, who="tts", waited_ms=2.0, held_ms=held)
        return end

    def send(self, generation: int, *, lead: int = 3, until: float = 1e9) -> float:
        """Pace everything spoken in this generation; returns the end of playback."""
        mine = sorted(
            (event for event in self.events if event["generation"] == generation),
            key=lambda event: event["t"],
        )
        ready: list[tuple[float, int]] = []
        received: dict[int, float] = {}
        made: dict[int, int] = {}
        for event in mine:
            if event["event"] not in ("pcm", "tts.end"):
                continue
            piece = event["piece"]
            if event["event"] == "pcm":
                received[piece] = received.get(piece, 0.0) + event["audio_ms"] / 1000
                count = int(received[piece] / FRAME_S + 1e-6)
            else:
                count = -int(-(received[piece] / FRAME_S - 1e-6) // 1)
            ready += [(event["t"], piece)] * (count - made.get(piece, 0))
            made[piece] = max(count, made.get(piece, 0))
        (start,) = (event["t"] for event in mine if event["event"] == "answer.start")
        end = last = 0.0
        distance = 0.0  # nothing between the first packets
        for number, (at, piece) in enumerate(ready):
            due = max(at, last)
            if number == 0:
                due = end = max(due, start + 0.12)
            else:
                if number >= lead:
                    distance = 0.05
                due = max(due, end - (lead - 1) * FRAME_S, last + distance)
            if due > until:
                break
            if due > end + 1e-9:
                late = round((due - end) * 1000, 1)
                self.add(due, "underrun", generation, sequence=number, late_ms=late)
                end = due
                distance = 0.05
            self.add(due, "frame", generation, sequence=number, due=due, piece=piece)
            sent = due + 0.0002 + 0.0001 * (number % 3)
            self.add(sent, "sent", generation, what="frame", sequence=number, due=due, piece=piece)
            end += FRAME_S
            last = due
        return end

    def encode(self) -> bytes:
        self.events.sort(key=lambda event: event["t"])
        return b"".join(msgspec.json.encode(event) + b"\n" for event in self.events)


def steady(audio_s: float, first_s: float, burst_s: float, rtf: float) -> list[tuple[float, float]]:
    """A burst, then blocks at a steady real-time factor, until ``audio_s`` are delivered."""
    blocks = [(first_s, burst_s)]
    left = audio_s - burst_s
    while left > 1e-6:
        block = round(min(left, BLOCK_S / rtf), 6)
        blocks.append((blocks[-1][0] + BLOCK_S, block))
        left -= block
    return blocks


def make_turns() -> bytes:
    """Taking turns: the LLM writes a sentence and waits while it is spoken."""
    scene = Scene()
    scene.start()
    scene.add(0.5, "board.open", address="192.0.2.7")
    scene.add(1.0, "speech.start")
    scene.add(3.0, "speech.end", audio_ms=1500, endpoint_ms=600)
    scene.add(3.2, "stt", text="tell me a story", asr_ms=200)
    t = 3.2
    scene.open(t, 1, "tell me a story")
    scene.add(t + 0.15, "llm.first", 1)
    now = t
    for index in range(3):
        scene.llm(now, now + 0.4, 1)
        scene.piece(now + 0.4, 1, index)
        now = scene.speak(now + 0.4, 1, index, steady(3.0, 0.45, 1.0, 0.6))
    scene.add(now, "llm.end", 1, tokens=60)
    end = scene.send(1)
    scene.close(end + 0.12, 1)
    scene.add(end + 0.5, "metrics", board=None, rss_mb=200.0, boards=1, queued=0)
    return scene.encode()


def make_overlap() -> bytes:
    """Both at once: the voice starves while the LLM decodes, then recovers."""
    scene = Scene()
    scene.start()
    t = 1.0
    scene.open(t, 1, "tell me a story")
    scene.add(t + 0.15, "llm.first", 1)
    for index in range(3):
        scene.piece(t + 0.4 + 0.5 * index, 1, index)
    scene.add(t + 4.0, "llm.end", 1, tokens=240)
    now = scene.speak(t + 0.4, 1, 0, steady(3.0, 1.0, 0.4, 1.5))
    now = scene.speak(now, 1, 1, steady(3.0, 0.45, 1.0, 0.6))
    scene.speak(now, 1, 2, steady(3.0, 0.45, 1.0, 0.6))
    end = scene.send(1)
    scene.close(end + 0.12, 1)
    return scene.encode()


def make_aborts() -> bytes:
    """A voice barge-in, a button, and a fault; then a good answer."""
    scene = Scene()
    scene.start()
    for generation, t in ((1, 1.0), (2, 6.0), (3, 10.0), (4, 16.0)):
        scene.open(t, generation, f"question {generation}")
        scene.add(t + 0.15, "llm.first", generation)
        scene.llm(t + 0.05, t + 0.4, generation, waited=0.05)
        scene.piece(t + 0.4, generation, 0)
        if generation == 3:
            scene.add(t + 0.4, "tts.start", 3, piece=0, text="Sentence 0.")
            scene.add(t + 0.4, "fault", 3, seam="tts.block", effect="hang")
            scene.add(t + 4.4, "engine", engine="tts", state="restarting", board=None)
            scene.both(t + 4.4, 3, "alert")
            scene.close(t + 4.401, 3, "failed", "the voice stopped responding")
            continue
        scene.speak(t + 0.4, generation, 0, steady(3.0, 0.45, 1.0, 0.6))
        if generation == 4:
            scene.add(t + 2.2, "llm.end", 4, tokens=20)
            scene.close(scene.send(4) + 0.12, 4)
            continue
        abort = t + 2.0
        cause = {1: "barge-in", 2: "button"}[generation]
        if generation == 1:
            scene.add(abort - 0.25, "speech.start")
        scene.send(generation, until=abort)
        # What the voice said after the abort never reached the trace.
        scene.events = [
            event
            for event in scene.events
            if event["generation"] != generation or event["t"] <= abort
        ]
        scene.add(abort, "abort", generation, cause=cause)
        scene.both(abort, generation, "tts.stop")
        scene.add(abort + 0.01, "answer.end", generation, outcome="aborted", cause=cause, heard="")
        if generation == 1:
            scene.add(abort + 1.5, "speech.end", audio_ms=1400, endpoint_ms=600)
    return scene.encode()


def make_burst() -> bytes:
    """The voice's habit that punishes a sender which holds back 1.2 s of every piece."""
    scene = Scene()
    scene.start()
    t = 1.0
    scene.open(t, 1, "hello")
    scene.add(t + 0.15, "llm.first", 1)
    scene.piece(t + 0.4, 1, 0)
    blocks = [(0.45, 1.0), (0.45 + BLOCK_S, 0.26)]
    blocks += [(0.45 + BLOCK_S * number, 0.32) for number in range(2, 8)]
    scene.speak(t + 0.4, 1, 0, blocks)
    scene.add(t + 0.5, "llm.end", 1, tokens=20)
    scene.close(scene.send(1) + 0.12, 1)
    return scene.encode()


def make_damaged() -> bytes:
    """What a killed writer, a full disk and a later version leave."""
    lines = make_aborts().splitlines(keepends=True)
    middle = len(lines) // 2
    odd = [
        b"\0" * 40 + b"\n",
        b'{"t":7.0,"event":"sent","generation":2,"what":"frame","sequ\n',
        b'{"t":7.0,"event":"weather","board":null,"generation":2,"sky":"blue"}\n',
        b'{"t":7.0,"event":"pcm","board":null,"generation":2,"piece":"x","audio_ms":"long"}\n',
    ]
    cut = [*lines[:middle], *odd, *lines[middle : len(lines) - 60]]
    return b"".join(cut)[:-30]


MAKERS = {
    "turns": make_turns,
    "overlap": make_overlap,
    "aborts": make_aborts,
    "burst": make_burst,
    "damaged": make_damaged,
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def figures(name: str, **options: Any) -> Statistics:
    return evaluate_events(TraceFile(path_of(name)), **options)


def raw_answers(name: str) -> list[RawAnswer]:
    gatherer = Gatherer()
    found = [answer for event in TraceFile(path_of(name)) for answer in gatherer.add(event)]
    return [*found, *gatherer.finish()]


@pytest.mark.parametrize("name", MAKERS)
def test_the_files_are_what_the_generator_makes(name: str) -> None:
    assert path_of(name).read_bytes() == MAKERS[name]()


def test_figures_of_taking_turns() -> None:
    (one,) = figures("turns").answers
    assert (one.outcome, one.question, one.pieces) == ("done", "tell me a story", 3)
    assert one.first_token_s == pytest.approx(0.15)
    assert one.first_piece_s == pytest.approx(0.4)
    assert one.first_block_s == pytest.approx(0.85)
    assert one.first_audio_s == pytest.approx(0.8502)
    # The user fell silent 0.6 s before the endpoint at 3.0; the first packet left at 4.0502.
    assert one.response_s == pytest.approx(4.0502 - 2.4)
    # 1.0 s, then 2.0 s in blocks of 0.19 / 0.6 s: seven more blocks.
    assert one.rtfs == pytest.approx([(0.45 + 7 * 0.19) / 3] * 3)
    assert one.first_rtf == one.median_rtf == pytest.approx(0.593333)
    assert (one.stalls, one.packet_stalls, one.underruns, one.stale) == (0, 0, 0, 0)
    assert one.start_delay_s == 0
    assert (one.packets, one.late_packets) == (150, 0)
    assert one.largest_gap_s == pytest.approx(0.0601, abs=2e-4)
    assert one.lateness_p50_s == pytest.approx(0.0003, abs=1e-5)
    assert one.lateness_max_s == pytest.approx(0.0004, abs=1e-5)
    assert (one.llm_turns, one.tts_turns, one.reevaluated_tokens) == (3, 3, 36)
    assert one.llm_held_s == pytest.approx(1.2)
    assert one.longest_wait_s == pytest.approx(0.002)
    assert one.llm_end_s == pytest.approx(3 * (0.4 + 0.45 + 7 * 0.19 + 0.001))
    assert one.abort_to_stop_s is one.yield_s is one.heard_after_abort_s is None
    assert figures("turns").peak_rss_mb == 200


def test_figures_of_running_both_at_once() -> None:
    (one,) = figures("overlap", buffer_s=0.3).answers
    # 0.4 s at 1.0 s, then 2.6 s in 21 blocks, 0.19 s apart: 0.126667 s of audio each.
    assert one.first_rtf == pytest.approx((1.0 + 21 * 0.19) / 3, abs=1e-5)
    # The 21st block comes 3.99 s after the first and is needed after 0.4 + 20 x 0.126667;
    # the next piece's first block 0.451 s later, needed after 3.0 s.
    expected = 21 * 0.19 + 0.451 - 3.0
    assert one.start_delay_s == pytest.approx(expected, abs=1e-4)
    assert one.stall_s == pytest.approx(expected - 0.3, abs=1e-4)
    assert one.stalls == len(one.stall_list) > 10
    assert all(1.4 < stall.at < 6.0 for stall in one.stall_list)
    assert one.underruns == one.packet_stalls > 0
    # Pieces are filled up to whole packets, and packets need their last sample.
    assert one.packet_stall_s == pytest.approx(expected, abs=0.06)
    assert figures("overlap", buffer_s=2.0).answers[0].stalls == 0


def test_figures_of_aborts_and_a_fault() -> None:
    found = figures("aborts")
    assert found.outcomes == {"aborted": 2, "failed": 1, "done": 1}
    assert found.causes == {"barge-in": 1, "button": 1, "the voice stopped responding": 1}
    assert found.stale == 0
    voice, button, failed, done = found.answers
    for one in (voice, button):
        assert one.abort_to_stop_s == pytest.approx(0.001)
        assert one.packets_after_abort == 0
        # First packet at 0.85 s, abort at 2.0 s: 1.15 s played of 20 + 2 packets sent.
        assert one.heard_after_abort_s == pytest.approx(22 * 0.06 - 1.15, abs=1e-3)
        assert one.first_rtf is None  # the piece never ended
    assert button.yield_s == button.heard_after_abort_s
    assert voice.heard_after_abort_s is not None
    assert voice.yield_s == pytest.approx(voice.heard_after_abort_s + 0.25)
    # The interrupting speech ended at 3.9 (4.5 less 0.6 s of silence); question 2 followed.
    assert button.response_s == pytest.approx(6.8502 - 3.9)
    assert voice.response_s is None
    assert (failed.first_audio_s, failed.packets, failed.start_delay_s) == (None, 0, None)
    assert failed.duration_s == pytest.approx(4.4015)
    assert done.outcome == "done"
    assert found.figures["heard_after_abort_s"].count == 2


def test_damage_costs_its_lines_only() -> None:
    file = TraceFile(path_of("damaged"))
    found = evaluate_events(file)
    assert (file.bad_lines, file.truncated, file.unknown) == (2, True, {"weather"})
    whole = figures("aborts")
    assert found.answers[0] == whole.answers[0]
    assert found.answers[2] == whole.answers[2]
    assert found.answers[3].outcome == "unfinished"
    assert 0 < found.answers[3].packets < whole.answers[3].packets


@pytest.mark.parametrize("name", ["turns", "overlap", "aborts"])
def test_figures_of_a_file_cut_anywhere_never_raise(name: str) -> None:
    """A trace that ends early has the same beginning: first figures don't change any more."""
    lines = path_of(name).read_bytes().splitlines()
    whole = figures(name).answers[0]
    for count in range(0, len(lines), 37):
        events = [json.loads(line) for line in lines[:count]]
        found = evaluate_events(events).answers
        first = found[0] if found else None
        if first is not None and first.first_audio_s is not None:
            assert first.first_audio_s == whole.first_audio_s
            assert first.packets <= whole.packets
    for count in range(0, len(lines), 37):  # and a head that was rotated away
        evaluate_events(json.loads(line) for line in lines[count:])


def test_stale_packets_are_counted_at_any_distance() -> None:
    events = [json.loads(line) for line in path_of("aborts").read_bytes().splitlines()]
    stop = next(
        number
        for number, one in enumerate(events)
        if one.get("what") == "tts.stop" and one["event"] == "sent"
    )
    stale = events[stop] | {"what": "frame", "sequence": 99, "due": events[stop]["t"]}
    soon = evaluate_events([*events[: stop + 1], stale, *events[stop + 1 :]])
    assert (soon.stale, soon.answers[0].stale) == (1, 1)
    much_later = evaluate_events([*events, stale | {"t": events[-1]["t"] + 60}])
    assert much_later.stale == 1


def test_a_piece_tried_twice_counts_its_second_audio_only() -> None:
    scene = Scene()
    scene.open(1.0, 1, "q")
    scene.add(1.1, "tts.start", 1, piece=0, text="a")
    scene.add(1.2, "pcm", 1, piece=0, audio_ms=20)
    scene.speak(1.3, 1, 0, [(0.5, 1.0), (0.7, 1.0)])
    (one,) = evaluate_events(scene.events).answers
    assert (one.retries, one.audio_s) == (1, 2.0)
    assert one.rtfs == [pytest.approx(0.35)]


def test_runs_in_one_file_do_not_mix() -> None:
    events = [json.loads(line) for line in path_of("turns").read_bytes().splitlines()]
    found = evaluate_events([*events, *events])
    assert [(one.run, one.generation) for one in found.answers] == [(1, 1), (2, 1)]
    first, second = (msgspec.structs.replace(one, run=0) for one in found.answers)
    assert first == second
    assert len(found.runs) == 2


def test_answers_without_an_end_do_not_pile_up() -> None:
    gatherer = Gatherer()
    for generation in range(1, 50):
        t = generation * 10.0
        gatherer.add({"t": t, "event": "answer.start", "board": BOARD, "generation": generation})
        assert len(gatherer._open) <= 2


event_names = st.sampled_from([*EVENTS, "weather"])
odd_values = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.sampled_from(["frame", "tts.stop", "llm", "tts", "x", ""])
)
odd_events = st.builds(
    lambda fields, t, name, board, generation: (
        fields | {"t": t, "event": name, "board": board, "generation": generation}
    ),
    st.dictionaries(
        st.sampled_from([field for fields in EVENTS.values() for field in (*fields, "piece")]),
        odd_values,
        max_size=4,
    ),
    st.floats(0, 60) | st.floats(allow_nan=False),
    event_names,
    st.none() | st.just(BOARD),
    st.none() | st.integers(1, 2),
)


@given(st.lists(odd_events, max_size=30))
@settings(max_examples=200, deadline=None)
def test_no_sequence_of_events_breaks_the_tools(events: list[dict[str, Any]]) -> None:
    """What a damaged or foreign trace holds gives odd figures at worst."""
    found = evaluate_events(events)
    msgspec.json.encode(found)
    summary = FileSummary(
        file="x",
        events=1,
        bad_lines=0,
        truncated=False,
        unknown_events=[],
        remarks=[],
        statistics=found,
    )
    write_table([summary], io.StringIO())
    write_csv([summary], io.StringIO())
    gatherer = Gatherer()
    for answer in [answer for event in events for answer in gatherer.add(event)]:
        replay(answer)
    for answer in gatherer.finish():
        replay(answer)
    for event in events:
        describe(event)


# Replay ----------------------------------------------------------------------------------------


def replayed(name: str, generation: int = 1, **settings: Any) -> Any:
    answer = next(one for one in raw_answers(name) if one.generation == generation)
    found = replay(answer, SenderSettings(**settings))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "generation"),
    [("turns", 1), ("overlap", 1), ("burst", 1), ("aborts", 1), ("aborts", 4)],
)
def test_an_unchanged_replay_agrees_with_the_recording(name: str, generation: int) -> None:
    found = replayed(name, generation)
    assert found.lead == 3
    assert found.replayed.packets == found.recorded.packets > 0
    assert found.difference_s < 2e-6
    assert found.replayed.underruns == found.recorded.underruns
    assert found.replayed.stall_s == pytest.approx(found.recorded.stall_s, abs=2e-3)


def test_holding_back_the_end_of_a_piece_brings_the_stall_back() -> None:
    """One packet of the first 1.26 s goes out; the next block is 0.19 s away: 0.13 s dry."""
    held = replayed("burst", hold_back_s=1.2).replayed
    assert held.first_packet_s == pytest.approx(BLOCK_S)
    assert held.stalls[0].at == pytest.approx(BLOCK_S + FRAME_S)
    assert held.stalls[0].duration_s == pytest.approx(BLOCK_S - FRAME_S)
    on_arrival = replayed("burst").replayed
    assert on_arrival.stalls == []
    assert on_arrival.first_packet_s == 0  # 0.19 s sooner


def test_a_start_hold_as_long_as_the_start_delay_avoids_the_stalls() -> None:
    (one,) = figures("overlap").answers
    assert one.start_delay_s is not None
    assert replayed("overlap", start_hold_s=0.0).replayed.stall_s > 1
    hold = one.start_delay_s + FRAME_S  # a packet needs its last sample
    assert replayed("overlap", start_hold_s=hold).replayed.stalls == []


@pytest.mark.parametrize("lead", [1, 2, 5, 10])
def test_the_lead_is_kept_and_found_again(lead: int) -> None:
    scene = Scene()
    scene.open(1.0, 1, "q")
    scene.speak(1.4, 1, 0, steady(6.0, 0.45, 2.0, 0.3))
    scene.send(1, lead=lead)
    gatherer = Gatherer()
    for event in sorted(scene.events, key=lambda event: event["t"]):
        gatherer.add(event)
    (answer,) = gatherer.finish()
    assert recorded_lead(answer) == lead
    found = replay(answer)
    assert found is not None
    assert found.difference_s is not None
    assert found.difference_s < 2e-6


# Layout ----------------------------------------------------------------------------------------


def test_table_json_and_csv_tell_the_same() -> None:
    found = [summarise(path_of(name)) for name in ("turns", "overlap", "damaged")]
    table, as_json, as_csv, lines = (io.StringIO() for _ in range(4))
    write_table(found, table)
    write_json(found, as_json)
    write_csv(found, as_csv)
    write_answers(found, lines)
    text = table.getvalue()
    assert "turns.jsonl" in text.splitlines()[0]
    assert "0.85 s" in text
    assert "2 lines are no trace events" in text
    assert "cut off" in text
    assert "weather" in text
    data = json.loads(as_json.getvalue())
    parsed = msgspec.convert(data["files"][1]["statistics"]["answers"], list[AnswerStatistics])
    assert parsed == found[1].statistics.answers
    rows = as_csv.getvalue().splitlines()
    assert len(rows) == 1 + 1 + 1 + 4
    assert rows[1].split(",")[1:3] == ["1", "1"]
    assert sum("aborted" in line for line in lines.getvalue().splitlines()) == 2


def test_the_board_filter_leaves_only_its_answers() -> None:
    assert len(summarise(path_of("aborts"), board=BOARD.upper()).statistics.answers) == 4
    assert summarise(path_of("aborts"), board="other").statistics.answers == []


def test_replays_are_written_for_people() -> None:
    found = replayed("burst", hold_back_s=1.2)
    out = io.StringIO()
    write_replays([found], out)
    assert "130 ms at" in out.getvalue()
    assert "total: recorded 0 stalls" in out.getvalue()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, make in MAKERS.items():
        path_of(file_name).write_bytes(make())
