"""Every engine's interface against a stand-in with exactly that interface: what arrives in which
field, who frees what, and the one line for each thing that can be wrong with a library.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from duet_trio.engines.native import interface
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
from duet_trio.errors import EngineFailedError, MissingFileError, MissingLibraryError
from tests.native.support import standin
from tools.native_check import STANDINS

ENGINES = ("libqwen4", "libqwen5", "pointer", "value_old", "value_new")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("standins")
    return {name: standin(name, folder) for name in STANDINS}


def opened(library: Path, **more: object) -> NativeVoice:
    options = {
        "library": str(library),
        "model": "/models/talker.gguf",
        "codec": "codec.gguf",
        "threads": 3,
        "embedding_length": 32,
        "codebook_size": 64,
    }
    return NativeVoice(Options(**(options | more)))  # type: ignore[arg-type]


def live(library: Path) -> int:
    """What the stand-in has handed out and not got back."""
    return int(ctypes.CDLL(str(library)).standin_live())


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, libraries: dict[str, Path]) -> Iterator[NativeVoice]:
    library = libraries[request.param]
    before = live(library)
    with opened(library) as native:
        yield native
    assert live(library) == before, "something was not given back to the library"


def collect(native: NativeVoice, request: Request) -> tuple[Floats, Status]:
    blocks: list[Floats] = [np.zeros(0, np.float32)]

    def on_block(block: Floats) -> bool:
        blocks.append(block.copy())
        return True

    stats = native.speak(request, on_block)
    audio = np.concatenate(blocks)
    assert stats.samples == audio.size
    assert stats.blocks == len(blocks) - 1
    return audio, stats.status


def echo(native: NativeVoice, request: Request) -> dict[str, str]:
    """The parameters as the library saw them."""
    with pytest.raises(EngineFailedError) as caught:
        native.speak(request, lambda _: True)
    return dict(word.partition("=")[::2] for word in str(caught.value).split())


def test_a_tone_comes_through_sample_by_sample(engine: NativeVoice) -> None:
    audio, status = collect(engine, Request("hello", max_frames=100))
    expected = 0.25 * np.sin(0.0576 * np.arange(5 * 1920))
    assert status is Status.OK
    np.testing.assert_allclose(audio, expected, atol=1e-5)


def test_cap_is_kept_even_by_an_engine_that_never_ends(engine: NativeVoice) -> None:
    audio, status = collect(engine, Request("endless", max_frames=7))
    assert (len(audio), status) == (7 * 1920, Status.CAPPED)


def test_nothing_said_is_not_an_error_here(engine: NativeVoice) -> None:
    audio, status = collect(engine, Request("empty", max_frames=7))
    assert (len(audio), status) == (0, Status.OK)


def test_engine_error_nan_and_recovery(engine: NativeVoice) -> None:
    with pytest.raises(EngineFailedError, match="no luck"):
        engine.speak(Request("error", max_frames=7), lambda _: True)
    with pytest.raises(EngineFailedError, match="NaN"):
        engine.speak(Request("nan", max_frames=7), lambda _: True)
    assert collect(engine, Request("ok", max_frames=7))[1] is Status.OK


def test_callback_stops_and_raises(engine: NativeVoice) -> None:
    seen: list[int] = []

    def stop_at_two(block: Floats) -> bool:
        seen.append(len(block))
        return len(seen) < 2

    assert engine.speak(Request("hello", max_frames=9), stop_at_two).status is Status.CANCELLED
    assert len(seen) == 2

    def fails(_: Floats) -> bool:
        raise ZeroDivisionError("in the callback")

    with pytest.raises(ZeroDivisionError, match="in the callback"):
        engine.speak(Request("hello", max_frames=9), fails)
    assert collect(engine, Request("ok", max_frames=7))[1] is Status.OK


def test_cancel_from_inside_and_before(engine: NativeVoice) -> None:
    job = engine.next_job()
    seen: list[int] = []

    def cancels(block: Floats) -> bool:
        seen.append(len(block))
        engine.cancel(job)
        return True

    stats = engine.speak(Request("hello", max_frames=9), cancels, job=job)
    assert (stats.status, len(seen)) == (Status.CANCELLED, 1)
    later = engine.next_job()
    engine.cancel(job)  # a late cancel of the old job
    assert engine.speak(Request("hi", max_frames=9), lambda _: True, job=later).status is Status.OK


def test_deadline_stops_between_blocks(engine: NativeVoice) -> None:
    request = Request("endless", max_frames=4000, deadline_ms=1)
    audio, status = collect(engine, request)
    assert status is Status.LATE
    assert len(audio) < 4000 * 1920


def test_closing_and_speaking_while_busy_are_refused(engine: NativeVoice) -> None:
    errors: list[str] = []

    def meddles(_: Floats) -> bool:
        for act in (engine.close, lambda: engine.speak(Request("x", 1), lambda _: True)):
            with pytest.raises(EngineFailedError) as caught:
                act()
            errors.append(str(caught.value))
        return True

    assert engine.speak(Request("ab", max_frames=9), meddles).status is Status.OK
    assert len(errors) == 4
    assert all("busy" in error for error in errors)


@pytest.mark.parametrize("abi", [4, 5])
def test_libqwen_fields(libraries: dict[str, Path], abi: int) -> None:
    embedding = (np.arange(32) / 8).astype(np.float32)
    codes = np.arange(32, dtype=np.int32).reshape(16, 2)
    request = Request(
        "echo",
        max_frames=77,
        language="german",
        style="calm",
        speaker="ann",
        voice=Voice(embedding, codes, "words_said"),
        seed=1 << 40,
        temperature=0.5,
        top_p=0.75,
        top_k=9,
        repetition_penalty=1.25,
        quiet_start_ban=3,
    )
    with opened(libraries[f"libqwen{abi}"], codebook_size=2048) as native:
        assert native.info.engine == f"libqwen ABI {abi}"
        assert native.info.can == Can.STREAM | Can.CLONE | Can.ICL | Can.SEED
        assert echo(native, request) == {
            "threads": "3",
            "lang": "german",
            "instruct": "calm",
            "speaker": "ann",
            "seed": str(1 << 40),
            "max": "77",
            "sample": "1/1",
            "temperature": "0.5/0.5",
            "top_k": "9/9",
            "top_p": "0.75/0.75",
            "repetition": "1.25",
            "embedding": "32:0.125",
            "codes": "2:1",
            "reference": "words_said",
            "ban": "3/8" if abi == 5 else "0/0",
        }
        plain = echo(native, Request("echo", max_frames=5, greedy=True))
        assert plain["sample"] == "0/0"
        assert plain["temperature"] == "0.9/0.9"
        assert (plain["lang"], plain["reference"], plain["ban"]) == ("-", "-", "0/0")
    with opened(libraries[f"libqwen{abi}"]) as native:  # other codes: what they mean is not known
        assert echo(native, Request("echo", max_frames=5, quiet_start_ban=3))["ban"] == "0/0"
    with opened(libraries[f"libqwen{abi}"], gpu=True) as native:
        assert echo(native, Request("echo", max_frames=5))["threads"] == "0"  # qt_init


def test_pointer_fields(libraries: dict[str, Path]) -> None:
    embedding = (np.arange(32) / 8).astype(np.float32)
    request = Request(
        "echo",
        max_frames=77,
        language="japanese",
        voice=Voice(embedding),
        temperature=0.5,
        top_p=0.75,
        top_k=9,
        repetition_penalty=1.25,
    )
    with opened(libraries["pointer"]) as native:
        assert native.info.can == Can.CLONE
        assert native.info.step_frames == 0  # a cancel is not heard
        assert echo(native, request) == {
            "max": "77",
            "temperature": "0.5",
            "top_p": "0.75",
            "top_k": "9",
            "threads": "3",
            "repetition": "1.25",
            "language": "2058",
            "embedding": "32:0.125",
        }
        with pytest.raises(RefusedError, match="unknown language"):
            native.speak(Request("hi", 5, language="klingon"), lambda _: True)


@pytest.mark.parametrize("layout", ["old", "new"])
def test_value_fields_in_both_layouts(libraries: dict[str, Path], layout: str) -> None:
    request = Request(
        "echo",
        max_frames=77,
        language="chinese",
        style="calm",
        speaker="ann",
        temperature=0.5,
        top_p=0.75,
        top_k=9,
        repetition_penalty=1.25,
    )
    with opened(libraries[f"value_{layout}"]) as native:
        assert Can.VOICE_IN_FILE in native.info.can
        assert echo(native, request) == {
            "max": "77",
            "temperature": "0.5",
            "top_p": "0.75",
            "top_k": "9",
            "threads": "3/3",
            "backend": "1",
            "repetition": "1.25",
            "language": "2055",
            "instruction": "calm",
            "speaker": "ann",
            "chunk": "0.64",
            "left": "2",
            "voice": "-",
        }
        voice = Voice(file="/v/a.voice")
        assert echo(native, Request("echo", 5, voice=voice))["voice"] == "/v/a.voice"
        icl = Voice(file="/v/a.voice", transcript="words")
        assert echo(native, Request("echo", 5, voice=icl))["voice"] == "ICL:/v/a.voice"
        with pytest.raises(EngineFailedError, match="48000 Hz"):
            native.speak(Request("rate", 5), lambda _: True)
    with opened(libraries[f"value_{layout}"], gpu=True) as native:
        assert echo(native, Request("echo", 5))["backend"] == "2"


@pytest.mark.parametrize("name", ENGINES)
def test_voices_are_made_and_given_back(
    libraries: dict[str, Path], name: str, tmp_path: Path
) -> None:
    library = libraries[name]
    before = live(library)
    wav = tmp_path / "reference.wav"
    wav.write_bytes(b"RIFF")
    pcm = np.linspace(-1, 1, 24_000, dtype=np.float32)
    with opened(library) as native:
        out = tmp_path / "voice"
        made = native.make_voice(pcm, wav_path=str(wav), out_path=str(out))
        if name.startswith("value"):
            assert made == Voice(file=str(out))
            assert out.read_text() == "voice of nobody"
            icl = native.make_voice(pcm, transcript="words", wav_path=str(wav), out_path=str(out))
            assert (icl.transcript, out.read_text()) == ("words", "voice of words")
        else:
            assert made.embedding is not None
            assert made.embedding.shape == (32,)
            assert made.codes is None
        if name.startswith("libqwen"):
            np.testing.assert_array_equal(np.asarray(made.embedding), pcm[:32])
            icl = native.make_voice(pcm, transcript="words")
            assert icl.codes is not None
            assert icl.codes.shape == (16, 12)
            assert icl.codes.flatten().tolist() == [n % 64 for n in range(16 * 12)]
        if name == "pointer":
            with pytest.raises(RefusedError, match="without a transcript"):
                native.make_voice(pcm, transcript="words", wav_path=str(wav))
        if not name.startswith("libqwen"):
            with pytest.raises(EngineFailedError, match="cannot open"):
                native.make_voice(pcm, wav_path=str(tmp_path / "none"), out_path=str(out))
    assert live(library) == before


def test_what_can_be_wrong_with_a_library(libraries: dict[str, Path], tmp_path: Path) -> None:
    noise = tmp_path / "noise.so"
    noise.write_bytes(b"\x7fELF" + bytes(1000))
    cases: list[tuple[Path, dict[str, str], str]] = [
        (tmp_path / "none.so", {}, "none.so"),
        (noise, {}, "noise.so"),
        (libraries["lacking"], {"engine": "libqwen"}, "is not a library of libqwen"),
        (libraries["pointer"], {"engine": "libqwen"}, "is not a library of libqwen"),
        (libraries["fork"], {}, "a fork of qwen3-tts.cpp with other signatures"),
        (Path(ctypes.util.find_library("c") or "libc.so.6"), {}, "is not a library of a known"),
    ]
    for library, more, message in cases:
        with pytest.raises(MissingLibraryError, match=message) as caught:
            opened(library, **more)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("abi", [3, 6])
def test_other_abi_numbers_are_refused(tmp_path: Path, abi: int) -> None:
    source = Path(__file__).with_name("standin.c")
    library = tmp_path / f"libqwen{abi}.so"
    flags = ["-shared", "-fPIC", f"-DSTANDIN_LIBQWEN={abi}"]
    subprocess.run(["gcc", *flags, source, "-o", library, "-lm"], check=True)
    with pytest.raises(MissingLibraryError, match=f"ABI {abi}; 4 and 5 are supported"):
        opened(library)


def test_a_missing_symbol_is_named(tmp_path: Path) -> None:
    source = Path(__file__).with_name("standin.c")
    library = tmp_path / "stripped.so"
    flags = ["-shared", "-fPIC", "-DSTANDIN_LIBQWEN=5", "-Dqt_num_codebooks=qt_renamed"]
    subprocess.run(["gcc", *flags, source, "-o", library, "-lm"], check=True)
    with pytest.raises(MissingLibraryError, match="it has no qt_num_codebooks"):
        opened(library)


def test_models_that_do_not_load(libraries: dict[str, Path]) -> None:
    for name, detail in (
        ("libqwen5", "no tensors"),
        ("pointer", "/bad"),
        ("value_new", "no model"),
    ):
        with pytest.raises(MissingFileError, match=detail):
            opened(libraries[name], model="/bad/talker.gguf")
        assert live(libraries[name]) == 0


def test_an_abort_in_the_engine_ends_only_its_own_process(libraries: dict[str, Path]) -> None:
    code = (
        "from duet_trio.engines.native.types import Options, Request\n"
        "from duet_trio.engines.native.voice import NativeVoice\n"
        f"native = NativeVoice(Options({str(libraries['libqwen5'])!r}, 't', 'c'))\n"
        "native.speak(Request('crash', 5), lambda _: True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -6


def test_interface_number_is_compared() -> None:
    interface.check_abi(interface.ABI)
    with pytest.raises(MissingLibraryError, match="pip install"):
        interface.check_abi(interface.ABI + 1)


def test_a_closed_engine_says_so(libraries: dict[str, Path]) -> None:
    native = opened(libraries["libqwen5"])
    native.close()
    native.close()
    native.cancel(1)
    with pytest.raises(RefusedError, match="closed"):
        native.speak(Request("x", 1), lambda _: True)


def test_closing_while_others_speak_cancel_and_close() -> None:
    """Whoever comes too late is told so; nobody gets at what has been freed."""
    others: list[BaseException] = []

    def close(native: NativeVoice) -> None:
        closed = False
        while not closed:
            try:
                native.close()
                closed = True
            except EngineFailedError:  # busy
                pass

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(150):
            native = NativeVoice(Options(engine="tone"))
            acts: list[Callable[[], object]] = [
                partial(native.speak, Request("hi", 9), lambda _: True),
                *[partial(native.cancel, 1)] * 3,
                *[partial(close, native)] * 3,
            ]
            with ThreadPoolExecutor(len(acts)) as threads:
                raised = [future.exception() for future in [threads.submit(act) for act in acts]]
            others += [
                error
                for error in raised
                if error is not None and not isinstance(error, EngineFailedError)  # busy, closed
            ]
    finally:
        sys.setswitchinterval(switching)
    assert others == []


def test_cancels_at_any_instant_hit_their_job_or_nothing(engine: NativeVoice) -> None:
    jobs: queue.SimpleQueue[int] = queue.SimpleQueue()

    def cancels() -> None:
        while job := jobs.get():
            for _ in range(job % 400):  # at another instant each time
                pass
            engine.cancel(job)

    thread = threading.Thread(target=cancels)
    thread.start()
    seen = set()
    for _ in range(250):
        job, later = engine.next_job(), engine.next_job()
        jobs.put(job)
        seen.add(engine.speak(Request("hello", 99), lambda _: True, job=job).status)
        status = engine.speak(Request("hi", 99), lambda _: True, job=later).status
        assert status is Status.OK
    jobs.put(0)
    thread.join()
    assert seen <= {Status.OK, Status.CANCELLED}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_paths_of_any_bytes_and_length(libraries: dict[str, Path], tmp_path: Path) -> None:
    deep = tmp_path
    while len(os.fsencode(deep)) < 2000:
        deep /= "ä b" * 40
    for folder in (tmp_path / "a b ü 中", Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe")), deep):
        folder.mkdir(parents=True)
        for name in ("libqwen5", "pointer", "value_new"):
            copy = shutil.copy(libraries[name], folder)
            with opened(Path(copy), model=str(folder)) as native:
                assert collect(native, Request("ok", 7))[1] is Status.OK
    text = deep / "text.so"
    text.write_text("no library")
    with pytest.raises(MissingLibraryError) as caught:
        opened(text)
    assert str(caught.value) == f"{text}: file too short"


def test_options_that_do_not_fit_are_refused(libraries: dict[str, Path]) -> None:
    for key in ("threads", "embedding_length", "codebook_size"):
        with pytest.raises(RefusedError, match=f"{key} is out of range"):
            opened(libraries["libqwen5"], **{key: 1 << 40})
    good = str(libraries["libqwen5"])
    for options in (Options("a\0b"), Options(good, "a\0b"), Options(good, "t", "a\0b")):
        with pytest.raises(RefusedError, match="NUL"):
            NativeVoice(options)


def test_nul_and_overflow_are_refused(engine: NativeVoice) -> None:
    with pytest.raises(RefusedError, match="NUL"):
        engine.speak(Request("a\0b", 5), lambda _: True)
    with pytest.raises(RefusedError, match="max_frames"):
        engine.speak(Request("a", 1 << 40), lambda _: True)
    with pytest.raises(RefusedError, match="UTF-8"):
        engine.speak(Request("lone \udc80", 5), lambda _: True)
