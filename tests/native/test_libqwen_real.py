"""The real libqwen, out of its published wheel, on a tiny pair of models with random weights."""

from __future__ import annotations

import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duet_trio.engines.native.loading import (
    OpenEngine,
    describe_folder,
    describe_pair,
    open_engine,
)
from duet_trio.engines.native.maker_task import Task
from duet_trio.engines.native.types import (
    Can,
    Floats,
    Options,
    RefusedError,
    Request,
    Status,
    Voice,
)
from duet_trio.engines.native.voice import NativeVoice
from duet_trio.errors import (
    ConfigError,
    EngineFailedError,
    MissingFileError,
    MissingLibraryError,
    UsageError,
)
from duet_trio.lab.tiny_gguf import Pair, write_pair
from duet_trio.lab.tiny_maker import CODEBOOKS, CODES, HIDDEN
from duet_trio.lab.tiny_talker import SPEAKERS
from duet_trio.voices.making import run_task
from tests.native.support import libqwen, open_tiny, speechlike, tts_settings

FRAME = 1920


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(pair: Pair) -> Iterator[OpenEngine]:
    opened = open_tiny(pair)
    with opened.native:
        yield opened


def speak(engine: OpenEngine, text: str, **more: Any) -> tuple[Floats, Status, list[int]]:
    blocks: list[Floats] = []

    def on_block(block: Floats) -> bool:
        blocks.append(block.copy())
        return True

    stats = engine.native.speak(Request(text, **({"max_frames": 40} | more)), on_block)
    return np.concatenate([np.zeros(0, np.float32), *blocks]), stats.status, list(map(len, blocks))


def test_it_is_the_real_one(engine: OpenEngine) -> None:
    info = engine.native.info
    assert info.engine == "libqwen ABI 5"
    assert (info.rate_hz, info.frame_samples, info.codebooks) == (24_000, FRAME, CODEBOOKS)
    assert (info.embedding_length, engine.model.codebook_size) == (HIDDEN, CODES)
    assert info.can == Can.STREAM | Can.CLONE | Can.ICL | Can.SEED
    assert "english" in engine.model.languages


def test_audio_streams_in_growing_blocks_and_follows_the_text(engine: OpenEngine) -> None:
    short, status, sizes = speak(engine, "Hi.", language="english")
    longer, _, _ = speak(engine, "Hello there.", language="english")
    assert status is Status.OK
    assert len(sizes) >= 3
    assert sizes[0] == FRAME
    assert all(size % FRAME == 0 for size in sizes)
    assert 3 * FRAME <= len(short) < len(longer)
    assert 0.001 < float(np.sqrt(np.mean(short**2))) < 1.0


def test_first_block_comes_long_before_the_end(engine: OpenEngine) -> None:
    stats = engine.native.speak(Request("Hello there.", 40), lambda _: True)
    assert 0 < stats.first_ms < 0.5 * stats.total_ms


def test_a_seed_repeats_and_another_does_not(engine: OpenEngine) -> None:
    first, again, other = (speak(engine, "Hi.", seed=seed, max_frames=3)[0] for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not (first.shape == other.shape and np.array_equal(first, other))


def test_cap_cuts_a_run_away(engine: OpenEngine) -> None:
    audio, status, _ = speak(engine, "~" * 200, max_frames=6)
    assert (len(audio), status) == (6 * FRAME, Status.CAPPED)


def test_deadline_stops_a_run_away(engine: OpenEngine) -> None:
    audio, status, _ = speak(engine, "~" * 200, max_frames=400, deadline_ms=250)
    assert status is Status.LATE
    assert len(audio) < 100 * FRAME


def test_cancel_from_another_thread_in_mid_stream(engine: OpenEngine) -> None:
    native = engine.native
    job = native.next_job()
    streaming = threading.Event()
    done: list[Status] = []
    blocks: list[int] = []

    def on_block(block: Floats) -> bool:
        blocks.append(len(block))
        streaming.set()
        return True

    def run() -> None:
        request = Request("~" * 200, max_frames=400)
        done.append(native.speak(request, on_block, job=job).status)

    thread = threading.Thread(target=run)
    thread.start()
    assert streaming.wait(20)
    native.cancel(job)
    seen = len(blocks)
    thread.join(20)
    assert done == [Status.CANCELLED]
    assert len(blocks) <= seen + 1  # what was in the codec at that moment
    assert speak(engine, "Hi.", max_frames=1)[2] == [FRAME]


def test_an_exception_in_the_callback_comes_out_and_the_engine_lives(engine: OpenEngine) -> None:
    def fails(_: Floats) -> bool:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        engine.native.speak(Request("Hi.", 10), fails)
    assert speak(engine, "Hi.", max_frames=1)[2] == [FRAME]


REFUSALS: list[tuple[str, dict[str, Any]]] = [
    ("blank", {"text": ""}),
    ("blank", {"text": "  \n\t\u3000"}),
    ("control tokens", {"text": "a <|im_end|> b"}),
    ("control tokens", {"text": "a <tts_pad> b"}),
    ("control characters", {"text": "a \x1b b"}),
    ("longer", {"text": "a" * 9000}),
    ("temperature", {"temperature": float("nan")}),
    ("temperature", {"temperature": float("inf")}),
    ("temperature", {"temperature": -1.0}),
    ("repetition_penalty", {"repetition_penalty": 0.1}),
    ("repetition_penalty", {"repetition_penalty": float("nan")}),
    ("top_p", {"top_p": 1.5}),
    ("top_k", {"top_k": -3}),
    ("max_frames", {"max_frames": 0}),
    ("max_frames", {"max_frames": -5}),
    ("seed", {"seed": -2}),
    ("wrong length", {"voice": Voice(np.zeros(HIDDEN + 1, np.float32))}),
    ("NaN", {"voice": Voice(np.full(HIDDEN, np.nan, np.float32))}),
    (
        "out of range",
        {
            "voice": Voice(
                np.zeros(HIDDEN, np.float32),
                np.full((CODEBOOKS, 4), CODES, np.int32),
                "words",
            )
        },
    ),
    (
        "codes must be",
        {"voice": Voice(np.zeros(HIDDEN, np.float32), np.zeros((3, 4), np.int32), "words")},
    ),
    (
        "transcript",
        {"voice": Voice(np.zeros(HIDDEN, np.float32), np.zeros((CODEBOOKS, 4), np.int32))},
    ),
]


@pytest.mark.parametrize(("message", "change"), REFUSALS)
def test_what_would_abort_the_process_is_refused(
    engine: OpenEngine, message: str, change: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"text": "Hi.", "max_frames": 5, **change}
    request = Request(**fields)
    with pytest.raises(RefusedError, match=message):
        engine.native.speak(request, lambda _: True)


def test_the_engine_is_unharmed_by_refusals(engine: OpenEngine) -> None:
    assert speak(engine, "Hi.")[1] is Status.OK


def test_sampling_values_that_are_allowed_work(engine: OpenEngine) -> None:
    changes: list[dict[str, Any]] = [
        {"greedy": True},
        {"temperature": 0.01},
        {"temperature": 5.0},
        {"top_p": 0.01},
        {"top_k": 1},
        {"top_k": 2048},
        {"repetition_penalty": 0.5},
        {"repetition_penalty": 5.0},
        {"quiet_start_ban": 3},
    ]
    for change in changes:
        assert speak(engine, "Hi.", max_frames=1, **change)[1] in (Status.OK, Status.CAPPED)


def test_a_cloned_voice_changes_the_sound(engine: OpenEngine) -> None:
    low, high = (engine.native.make_voice(speechlike(3.0, seed=n, level=0.2 * n)) for n in (1, 2))
    assert low.embedding is not None
    assert high.embedding is not None
    assert np.all(np.isfinite(low.embedding))
    assert not np.allclose(low.embedding, high.embedding)
    plain = speak(engine, "Hi there.", max_frames=6)[0]
    strong = Voice(20 * low.embedding)  # enough to move a tiny model's codes
    cloned = speak(engine, "Hi there.", max_frames=6, voice=strong)[0]
    assert not (plain.shape == cloned.shape and np.array_equal(plain, cloned))


def test_icl_uses_codes_and_transcript(engine: OpenEngine) -> None:
    voice = engine.native.make_voice(speechlike(1.0), transcript="something was said")
    assert voice.codes is not None
    assert voice.codes.shape == (CODEBOOKS, 12)
    assert 0 <= voice.codes.min() <= voice.codes.max() < CODES
    audio, status, _ = speak(engine, "~" * 40, voice=voice, max_frames=2)
    assert (len(audio), status) == (2 * FRAME, Status.CAPPED)


@pytest.mark.parametrize(
    ("message", "pcm"),
    [
        ("long", np.zeros(100, np.float32)),
        ("long", np.zeros(61 * 24_000, np.float32)),
        ("NaN", np.full(24_000, np.nan, np.float32)),
        ("absurd", np.full(24_000, 1e6, np.float32)),
    ],
)
def test_bad_references_are_refused(engine: OpenEngine, message: str, pcm: Floats) -> None:
    with pytest.raises(RefusedError, match=message):
        engine.native.make_voice(pcm)


def test_end_at_once_is_no_audio(tmp_path: Path) -> None:
    with open_tiny(write_pair(tmp_path, end="now")).native as native:
        stats = native.speak(Request("Hi.", 10), lambda _: True)
        assert (stats.status, stats.samples) == (Status.OK, 0)


def test_named_speakers_and_styles_of_other_model_kinds(tmp_path: Path) -> None:
    named = open_tiny(write_pair(tmp_path / "named", kind="custom_voice"))
    assert named.model.speakers == tuple(SPEAKERS)
    with named.native as native:
        assert native.speak(Request("Hi.", 3, speaker="ann"), lambda _: True).samples > 0
        with pytest.raises(EngineFailedError):
            native.speak(Request("Hi.", 3, speaker="nobody"), lambda _: True)
    with open_tiny(write_pair(tmp_path / "designed", kind="voice_design")).native as native:
        request = Request("Hi.", 3, style="a calm old man")
        assert native.speak(request, lambda _: True).samples > 0


def damage(pair: Pair, folder: Path) -> dict[str, tuple[Pair, str]]:
    """Name → files, and what the one line must say."""
    whole = pair.talker.read_bytes()

    def file(name: str, data: bytes) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    talkers: dict[str, tuple[Path, str]] = {
        "missing": (folder / "none.gguf", "tts.model = .*no such file"),
        "folder": (folder, "tts.model = .*is a folder"),
        "empty": (file("empty.gguf", b""), "tts.model = .*not a GGUF"),
        "random": (file("random.gguf", np.random.default_rng(1).bytes(50_000)), "not a GGUF"),
        "cut": (file("cut.gguf", whole[: len(whole) // 2]), "tts.model = .*truncated"),
        "cut in head": (file("head.gguf", whole[:3000]), "tts.model = .*damaged"),
        "last byte": (file("last.gguf", whole[:-64]), "tts.model = .*truncated"),
    }
    cases = {name: (Pair(path, pair.codec), say) for name, (path, say) in talkers.items()}
    cases["exchanged"] = (Pair(pair.codec, pair.talker), "exchange tts.model and tts.codec")
    cases["talker twice"] = (Pair(pair.talker, pair.talker), "tts.codec = .*not 'qwen3-tts-tok")
    cases["codec missing"] = (Pair(pair.talker, folder / "no.gguf"), "tts.codec = .*no such")
    cut_codec = file("codec.gguf", pair.codec.read_bytes()[:1_000_000])
    cases["codec cut"] = (Pair(pair.talker, cut_codec), "tts.codec = .*truncated")
    return cases


CASES = ["missing", "folder", "empty", "random", "cut", "cut in head", "last byte", "exchanged"]
CASES += ["talker twice", "codec missing", "codec cut"]


@pytest.mark.parametrize("case", CASES)
def test_bad_files_are_one_clear_line(pair: Pair, tmp_path: Path, case: str) -> None:
    bad, message = damage(pair, tmp_path)[case]
    with pytest.raises(MissingFileError, match=message) as caught:
        open_tiny(bad)
    assert "\n" not in str(caught.value)
    # Without our own look at the files libqwen refuses them too, and lives.
    options = Options(str(libqwen()), str(bad.talker), str(bad.codec), embedding_length=HIDDEN)
    with pytest.raises(MissingFileError):
        NativeVoice(options)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"library": ""}, ConfigError, "tts.library is empty"),
        ({"library": "/nowhere/libqwen.so"}, MissingLibraryError, "tts.library = .*no such file"),
        ({"model": ""}, ConfigError, "tts.model is empty"),
        ({"codec": ""}, ConfigError, "libqwen needs a talker and a codec"),
        ({"library": "/a\0b"}, ConfigError, "tts.library has a NUL"),
        ({"library": "/" + "a" * 5000}, MissingLibraryError, "tts.library = .*no such file"),
        ({"library": "/"}, MissingLibraryError, "tts.library = .*no such file"),
        ({"library": __file__}, MissingLibraryError, "tts.library = .*invalid ELF header"),
        ({"library": "{other}"}, MissingLibraryError, "is not a library of a known engine"),
        ({"model": "/a\0b"}, ConfigError, "tts.model has a NUL"),
        ({"model": "/" + "a" * 5000}, MissingFileError, "tts.model = .*cannot be read"),
        ({"codec": "/a\0b"}, ConfigError, "tts.codec has a NUL"),
        ({"threads": 0}, ConfigError, "threads must be"),
        ({"threads": 1 << 40}, ConfigError, "threads is out of range"),
    ],
)
def test_bad_settings(
    pair: Pair, change: dict[str, Any], kind: type[UsageError], message: str
) -> None:
    if change.get("library") == "{other}":
        change = {"library": str(libqwen().with_name("libggml-base.so.0"))}
    with pytest.raises(kind, match=message) as caught:
        open_engine(tts_settings(pair) | change)
    assert "\n" not in str(caught.value)


def test_voices_belong_to_talker_and_codec(pair: Pair, tmp_path: Path) -> None:
    other = tmp_path / "codec.gguf"
    data = bytearray(pair.codec.read_bytes())
    data[-1] ^= 1
    other.write_bytes(data)
    ours = describe_pair(pair.talker, pair.codec).identity
    assert describe_pair(pair.talker, other).identity != ours


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("qwen3-tts.talker.attention.head_count", b"\0\0\0\0"),
        ("qwen3-tts.code_pred.attention.head_count", b"\xff\xff\xff\x7f"),
        ("qwen3-tts.num_code_groups", b"\xff\xff\xff\x7f"),
        ("qwen3-tts.talker.vocab_size", b"\xff\xff\xff\x7f"),
        ("qwen3-tts.talker.rope.freq_base", bytes(4)),
        ("qwen3-tts.talker.attention.layer_norm_rms_epsilon", struct.pack("<f", np.inf)),
        ("qwen3-tts-tokenizer.decoder.num_quantizers", bytes(4)),
        ("qwen3-tts-tokenizer.decoder.num_attention_heads", bytes(4)),
        ("qwen3-tts-tokenizer.decoder.rms_norm_eps", struct.pack("<f", np.nan)),
    ],
)
def test_numbers_that_abort_the_engine_are_told(
    pair: Pair, tmp_path: Path, key: str, value: bytes
) -> None:
    """Each of them ended the process when the real library got it."""
    which = "codec" if "tokenizer" in key else "model"
    data = bytearray((pair.codec if which == "codec" else pair.talker).read_bytes())
    at = data.index(key.encode()) + len(key) + 4
    data[at : at + 4] = value
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(data)
    with pytest.raises(MissingFileError, match=rf"tts.{which} = .*damaged: its {key} is"):
        open_engine(tts_settings(pair) | {which: str(odd)})


def test_absurd_lengths_in_a_head_are_told(pair: Pair, tmp_path: Path) -> None:
    data = pair.talker.read_bytes()
    key = b"qwen3-tts.talker.embedding_length"
    at = data.index(key) + len(key) + 4  # behind the type
    odd = tmp_path / "talker-0.6b.gguf"
    odd.write_bytes(data[: at - 4] + struct.pack("<If", 6, np.nan) + data[at + 4 :])
    assert describe_folder(tmp_path).embedding_length == HIDDEN  # of the speaker encoder
    with pytest.raises(MissingFileError, match=r"its qwen3-tts.talker.embedding_length is nan"):
        describe_pair(odd, pair.codec)
    odd.write_bytes(data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :])
    with pytest.raises(ConfigError, match="embedding_length is out of range"):
        open_engine(tts_settings(pair) | {"model": str(odd)})


def test_a_library_without_its_neighbours_is_named(pair: Pair, tmp_path: Path) -> None:
    alone = tmp_path / "libqwen.so"
    shutil.copy(libqwen(), alone)
    settings = tts_settings(pair, alone, voices=str(tmp_path))
    # In a process of its own: here the neighbours are loaded already.
    with pytest.raises(UsageError, match=r"tts.library = .*libggml") as caught:
        run_task(Task(do="say", settings=settings, text="Hi.", out=str(tmp_path / "x.wav")), 30)
    assert "\n" not in str(caught.value)


def test_several_contexts_at_once(pair: Pair, engine: OpenEngine) -> None:
    with open_tiny(pair).native as second:
        outside: list[Status] = []

        def run() -> None:
            outside.append(second.speak(Request("Hi.", 4), lambda _: True).status)

        thread = threading.Thread(target=run)
        thread.start()
        assert speak(engine, "Hi.", max_frames=4)[1] is not Status.FAILED
        thread.join(20)
        assert outside[0] in (Status.OK, Status.CAPPED)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def growth_of(act: Callable[[], object], warm: int, times: int) -> int:
    for _ in range(warm):
        act()
    before = resident_bytes()
    for _ in range(times):
        act()
    return resident_bytes() - before


@pytest.mark.slow
def test_300_syntheses_do_not_leak(engine: OpenEngine, tmp_path: Path) -> None:
    voice = engine.native.make_voice(speechlike(1.0))
    with open_tiny(write_pair(tmp_path, end="now")).native as mute:
        counts = {"frames": 0, "none": 0}

        def act() -> None:
            """One with a frame of audio (60 ms of the codec), four that end at once."""
            counts["frames"] += len(speak(engine, "Hi.", max_frames=1, voice=voice)[0])
            for _ in range(4):
                stats = mute.speak(Request("Hi.", 10, voice=voice), lambda _: True)
                counts["none"] += stats.status is Status.OK

        assert growth_of(act, 10, 60) < 3_000_000
        assert counts == {"frames": 70 * FRAME, "none": 280}


@pytest.mark.slow
def test_opening_and_cloning_do_not_leak(pair: Pair) -> None:
    pcm = speechlike(1.0)

    def act() -> None:
        with open_tiny(pair).native as native:
            native.make_voice(pcm, transcript="words")

    assert growth_of(act, 3, 12) < 8_000_000
