"""The scripted engine without I/O: what comes out, and when."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

from duet_trio.engines.cap import BYTES_PER_S, AudioCap
from duet_trio.engines.contracts import EngineKind, Inject, Message
from duet_trio.engines.injected import EFFECTS
from duet_trio.engines.pipe import (
    Block,
    Cancel,
    Cancelled,
    DoneSpeak,
    DoneTranscribe,
    DoneWrite,
    Failed,
    Injected,
    Load,
    Pause,
    Ready,
    SpeakJob,
    Text,
    ToWorker,
    TranscribeJob,
    WriteJob,
)
from duet_trio.engines.scripted import Act, ScriptedEngine

PROMPT = [Message("user", "hello?")]


def play(
    kind: EngineKind, settings: dict[str, Any], *script: tuple[float, ToWorker], until: float = 60.0
) -> list[tuple[float, Any]]:
    """Run an engine through timed commands; returns what came out and when."""
    engine = ScriptedEngine(kind, settings)
    todo = sorted(script, key=lambda entry: entry[0])
    out: list[tuple[float, Any]] = []
    while True:
        wake = engine.next_wakeup()
        times = [t for t in (wake, todo[0][0] if todo else None) if t is not None]
        if not times or min(times) > until:
            return out
        now = min(times)
        while todo and todo[0][0] <= now:
            engine.receive(todo.pop(0)[1], now)
        out += [(now, message) for message in engine.advance(now)]


def speak(number: int = 1, text: str = "0123456789", **fields: Any) -> SpeakJob:
    return SpeakJob(
        number, text, fields.pop("generation", 1), 0, fields.pop("cap_s", 10.0), **fields
    )


def blocks(out: list[tuple[float, Any]]) -> list[tuple[float, bytes]]:
    return [(t, m.pcm) for t, m in out if isinstance(m, Block)]


def test_ready_comes_after_load() -> None:
    assert [type(m) for _, m in play("asr", {}, (0.0, Load({})))] == [Ready]


def test_transcripts_cycle_and_a_cancelled_one_uses_up_none() -> None:
    out = play(
        "asr",
        {"script": ["a", "b"], "delay_s": 0.1},
        *((float(n), TranscribeJob(n, b"")) for n in range(1, 5)),
        (2.05, Cancel(2)),
    )
    texts = [m.transcript.text for _, m in out if isinstance(m, DoneTranscribe)]
    assert texts == ["a", "b", "a"]
    assert (2.05, Cancelled(2)) in out
    assert out[0][0] == pytest.approx(1.1)


def test_text_comes_in_small_tokens_at_its_rate() -> None:
    out = play(
        "llm", {"script": ["Some words."], "tokens_per_s": 10}, (0.0, WriteJob(1, 1, 64, PROMPT))
    )
    texts = [(t, m.text) for t, m in out if isinstance(m, Text)]
    assert "".join(text for _, text in texts) == "Some words."
    assert all(len(text.strip()) <= 4 for _, text in texts)
    assert [t for t, _ in texts] == pytest.approx([0.1 * (n + 1) for n in range(len(texts))])
    assert isinstance(out[-1][1], DoneWrite)
    assert out[-1][1].written.finished


def test_steps_of_two_streams_never_mix() -> None:
    script = {"script": ["aaaa " * 9, "bbbb " * 9]}
    jobs = [(0.0, WriteJob(n, 1 + n % 2, 3, PROMPT if n < 3 else None)) for n in range(1, 7)]
    out = play("llm", script, *jobs)
    for number in range(1, 7):
        text = "".join(m.text for _, m in out if isinstance(m, Text) and m.id == number)
        assert set(text.strip()) == {" ", "b" if number % 2 else "a"}


def test_a_pause_ends_the_step_and_loses_nothing() -> None:
    text = "one two three four five six"
    out = play(
        "llm",
        {"script": [text], "tokens_per_s": 10},
        (0.0, WriteJob(1, 1, 64, PROMPT)),
        (0.25, Pause(1)),
        (1.0, WriteJob(2, 1, 64)),
    )
    assert "".join(m.text for _, m in out if isinstance(m, Text)) == text
    first = next(m for _, m in out if isinstance(m, DoneWrite))
    assert (first.written.tokens, first.written.finished) == (2, False)


def test_a_stream_that_is_not_known_is_lost() -> None:
    out = play("llm", {"script": ["x"]}, (0.0, WriteJob(1, 1, 64)))
    assert out == [(0.0, Failed(1, "the sequence was lost", lost=True))]


def test_an_answer_goes_on_after_what_was_written() -> None:
    job = WriteJob(1, 1, 64, PROMPT, "one two")
    out = play("llm", {"script": ["one two three"]}, (0.0, job))
    assert "".join(m.text for _, m in out if isinstance(m, Text)) == " three"
    written = out[-1][1].written
    assert written.reevaluated_tokens == written.prompt_tokens > 0


@pytest.mark.parametrize("generation", [1, 7, 40, 41])
def test_the_tone_is_that_of_its_generation(generation: int) -> None:
    out = play("tts", {}, (0.0, speak(generation=generation)))
    samples = array("h")
    samples.frombytes(b"".join(pcm for _, pcm in blocks(out)))
    assert len(samples) == 10 * 0.06 * 24_000
    hz = 300 + 50 * (generation % 40)
    for test_hz in range(300, 2300, 50):
        energy = abs(
            sum(
                s
                * complex(
                    math.cos(2 * math.pi * test_hz * n / 24_000),
                    math.sin(2 * math.pi * test_hz * n / 24_000),
                )
                for n, s in enumerate(samples[:4800])
            )
        )
        assert (energy > 1e6) == (test_hz == hz)


def test_blocks_come_at_their_rate() -> None:
    out = play("tts", {"first_audio_s": 0.3, "rtf": 0.5}, (1.0, speak()))
    assert [t for t, _ in blocks(out)] == pytest.approx([1.3, 1.4, 1.5])
    assert isinstance(out[-1][1], DoneSpeak)
    assert out[-1][1].spoken.audio_s == pytest.approx(0.6)


def test_jobs_do_not_slow_each_other() -> None:
    alone = play("tts", {}, (0.0, speak()))
    together = play("tts", {}, *((0.0, speak(n)) for n in range(1, 30)))
    assert [m for m in together if getattr(m[1], "id", 0) == 1] == alone


def test_audio_is_cut_at_the_cap_with_a_fade() -> None:
    out = play("tts", {}, (0.0, speak(cap_s=0.25)))
    pcm = b"".join(pcm for _, pcm in blocks(out))
    assert len(pcm) == 0.25 * BYTES_PER_S
    assert max(abs(s) for s in array("h", pcm)[-24:]) < 800
    assert out[-1][1].spoken.capped


def test_the_cap_counts_whole_samples_only() -> None:
    cap = AudioCap(1.0)
    assert cap.take(b"\1\1\1") == b"\1\1"
    assert cap.audio_s == pytest.approx(1 / 24_000)


# --- injected effects


def injected(effect: str, at: int = 0, value: float = 0.0, *extra: tuple[float, ToWorker]) -> Any:
    return play("tts", {}, (0.0, speak(inject=Inject(effect, at, value))), *extra)


@pytest.mark.parametrize("effect", sorted(EFFECTS))
@pytest.mark.parametrize("at", [0, 2])
def test_every_effect_is_announced_after_its_output(effect: str, at: int) -> None:
    kinds = [type(m) for _, m in injected(effect, at)]
    assert kinds[: at + 1] == [Block] * at + [Injected]


def test_effects_that_only_a_process_can_do() -> None:
    for effect in ("crash", "stop", "garbage"):
        acts = [m for _, m in injected(effect, 1) if isinstance(m, Act)]
        assert [act.effect for act in acts] == [effect]


def test_hang_says_nothing_more_and_heeds_no_cancel() -> None:
    out = injected("hang", 1, 0.0, (1.0, Cancel(1)))
    assert [type(m) for _, m in out] == [Block, Injected]


def test_error_empty_short() -> None:
    assert isinstance(injected("error", 1)[-1][1], Failed)
    assert injected("empty")[-1][1].spoken.audio_s == 0
    assert injected("short")[-1][1].spoken.audio_s == pytest.approx(0.046)


def test_endless_goes_on_up_to_the_cap() -> None:
    spoken = injected("endless", 1)[-1][1].spoken
    assert spoken.capped
    assert spoken.audio_s == pytest.approx(10.0)


def test_slow_is_slower_than_real_time() -> None:
    times = [t for t, _ in blocks(injected("slow"))]
    assert times == pytest.approx([0.26, 0.52, 0.78])


def test_late_goes_on_after_the_cancel() -> None:
    job = speak(text="x" * 100, inject=Inject("late", 1, 0.5))
    out = play("tts", {}, (0.0, job), (0.35, Cancel(1)))
    assert out[-1][0] == pytest.approx(0.85)
    assert out[-1][1] == Cancelled(1)
    assert any(t > 0.4 for t, _ in blocks(out))


def test_late_stays_even_if_its_output_ends() -> None:
    out = injected("late", 0, 5.0, (0.05, Cancel(1)))
    assert out[-1][0] == pytest.approx(5.05)
    assert out[-1][1] == Cancelled(1)
    assert not any(isinstance(m, DoneSpeak) for _, m in out)


def test_deaf_runs_to_its_normal_end() -> None:
    out = injected("deaf", 0, 0.0, (0.05, Cancel(1)))
    assert isinstance(out[-1][1], DoneSpeak)
    assert len(blocks(out)) == 3


def test_effects_of_a_writer_and_a_recogniser() -> None:
    endless = WriteJob(1, 1, 20, PROMPT, inject=Inject("endless", 1))
    written = play("llm", {"script": ["x"]}, (0.0, endless))[-1][1].written
    assert (written.tokens, written.finished) == (20, False)
    job = TranscribeJob(1, b"", inject=Inject("endless"))
    transcript = play("asr", {}, (0.0, job))[-1][1].transcript
    assert transcript.compression_ratio > 2.4
    job = TranscribeJob(1, b"", inject=Inject("empty", 1))
    assert play("asr", {}, (0.0, job))[-1][1].transcript.text == ""
