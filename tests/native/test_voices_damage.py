"""Cloned voices where something goes wrong: damaged files, full disks, two at once, kills."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from duet_trio.cli import main
from duet_trio.engines.native import voice_store as store_module
from duet_trio.engines.native.types import Can, Info, Voice
from duet_trio.engines.native.voice import NativeVoice
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.errors import EngineFailedError, MissingFileError, UsageError
from duet_trio.lab.tiny_gguf import Pair, write_pair
from duet_trio.voices.wav import read_wav
from tests.native.support import add_voice, speechlike, standin, write_wav


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standin("pointer", tmp_path_factory.mktemp("library"))


@pytest.fixture
def common(pair: Pair, library: Path, tmp_path: Path) -> list[str]:
    """Options of ``duet voice`` for a fast engine that keeps its voices as arrays."""
    sets = {"engine": "qwen", "library": library, "model": pair.talker.parent}
    sets["voices"] = tmp_path / "voices"
    return [word for key, value in sets.items() for word in ("--set", f"tts.{key}={value}")]


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(write_wav(tmp_path / "ref.wav", speechlike(3.5)))


class Maker:
    """Stands in for an open engine: notes what it was given, makes what it is told to."""

    def __init__(self, make: Callable[[str], Voice], can: Can = Can.CLONE) -> None:
        self.info = Info("made up", "1", 24_000, 1920, 16, 4, 1, can)
        self.given: list[bytes] = []
        self._make = make

    def make_voice(self, pcm: Any, *, transcript: str, wav_path: str, out_path: str) -> Voice:
        self.given.append(np.rint(pcm * 32768).astype("<i2").tobytes())
        return self._make(out_path)

    @property
    def native(self) -> NativeVoice:
        return cast(NativeVoice, self)


def embedding(_: str) -> Voice:
    return Voice(embedding=np.arange(4, dtype=np.float32))


def archive(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def plain_array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(4))
    return out.getvalue()


DAMAGE = {
    "empty": b"",
    "noise": b"PK nonsense",
    "no archive": plain_array(),
    "cut": archive(embedding=np.zeros(4))[:-30],
    "nothing of ours": archive(other=np.zeros(4)),
    "words": archive(embedding=np.array(["a", "b"])),
    "no vector": archive(embedding=np.zeros((3, 3))),
    "no values": archive(embedding=np.zeros(0)),
    "not finite": archive(embedding=np.array([1.0, np.nan])),
    "codes without frames": archive(embedding=np.zeros(4), codes=np.zeros(3)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_counts_as_not_made_and_is_made_again(tmp_path: Path, damage: str) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))
    maker = Maker(embedding)
    store.make(record, "m", maker.native)
    (made,) = (tmp_path / ".made").iterdir()
    made.write_bytes(DAMAGE[damage])
    assert store.load(record, "m") is None
    assert store.made_for(record) == []
    store.make(record, "m", maker.native)
    loaded = store.load(record, "m")
    assert loaded is not None
    assert loaded.embedding is not None
    assert loaded.embedding.tolist() == [0, 1, 2, 3]
    assert store.made_for(record) == ["m"]


def test_adding_again_mends_a_damaged_result(
    tmp_path: Path, common: list[str], recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["voice", "add", "ann", recording, *common]) == 0
    (made,) = (tmp_path / "voices" / ".made").glob("*.npz")
    whole = made.read_bytes()
    made.write_bytes(b"junk")
    assert main(["voice", "add", "ann", recording, *common]) == 0
    assert "made in " in capsys.readouterr().out
    assert made.read_bytes() == whole
    assert main(["voice", "add", "twin", recording, *common]) == 0
    assert "had been made before" in capsys.readouterr().out


def test_a_failed_replacement_leaves_the_voice_as_it_was(
    tmp_path: Path, common: list[str], recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["voice", "add", "ann", recording, *common]) == 0
    before = contents(tmp_path / "voices")
    other = str(write_wav(tmp_path / "other.wav", speechlike(4.0, seed=9)))
    broken = [*common, "--set", "tts.library=/no/such.so"]
    assert main(["voice", "add", "ann", other, *broken]) == 2
    assert "no such file" in capsys.readouterr().err
    assert contents(tmp_path / "voices") == before
    # And one that works takes the old one's place, with all that belonged to it.
    assert main(["voice", "add", "ann", other, *common]) == 0
    assert "(replaced)" in capsys.readouterr().out
    after = contents(tmp_path / "voices")
    assert len(after) == len(before)
    assert not [name for name in before if name.startswith(".made/") and name in after]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("damage", [b"", b"{", b'{"name": "bob"}', b"\xff\xfe", b"[]"])
def test_one_damaged_voice_is_told_and_hinders_no_other(
    tmp_path: Path, common: list[str], recording: str, capsys: pytest.CaptureFixture[str],
    damage: bytes,
) -> None:  # fmt: skip
    store = VoiceStore(tmp_path / "voices")
    for name in ("ann", "bob"):
        add_voice(store, name, speechlike(3.0))
    (tmp_path / "voices" / "bob" / "voice.json").write_bytes(damage)
    assert main(["voice", "list", *common]) == 1
    ann, bob = capsys.readouterr().out.splitlines()
    assert ann.startswith("ann  ")
    assert "voice.json: damaged" in bob
    assert main(["voice", "remove", "ann", *common]) == 0
    assert main(["voice", "remove", "bob", *common]) == 0
    assert store.names() == []


def test_a_renamed_folder_is_a_voice_of_that_name(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    add_voice(store, "ann", speechlike(3.0))
    (tmp_path / "ann").rename(tmp_path / "bob")
    maker = Maker(embedding)
    store.make(store.read("bob"), "m", maker.native)
    assert len(maker.given) == 1


def test_a_recording_that_is_not_the_voices_own_is_refused(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))
    maker = Maker(embedding)
    reference = tmp_path / "ann" / "reference.wav"
    write_wav(reference, speechlike(3.0, seed=5))
    with pytest.raises(MissingFileError, match="not the recording that this voice was made of"):
        store.make(record, "m", maker.native)
    for damage in (b"", b"RIFF"):
        reference.write_bytes(damage)
        with pytest.raises(MissingFileError, match=r"cannot be read .*add the voice 'ann' again"):
            store.make(record, "m", maker.native)
    reference.unlink()
    with pytest.raises(MissingFileError, match=r"No such file .*add the voice 'ann' again"):
        store.make(record, "m", maker.native)
    assert maker.given == []


def test_an_engines_own_file_is_kept_only_when_it_is_whole(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))

    def broken(out: str) -> Voice:
        Path(out).write_bytes(b"half")
        raise EngineFailedError("no more memory")

    with pytest.raises(EngineFailedError):
        store.make(record, "m", Maker(broken, Can.CLONE | Can.VOICE_IN_FILE).native)
    assert store.load(record, "m") is None
    assert list((tmp_path / ".made").iterdir()) == []

    def whole(out: str) -> Voice:
        Path(out).write_bytes(b"whole")
        return Voice(file=out)

    voice = store.make(record, "m", Maker(whole, Can.CLONE | Can.VOICE_IN_FILE).native)
    assert Path(voice.file).read_bytes() == b"whole"
    assert store.load(record, "m") == voice


def test_two_adds_of_one_name_at_once_leave_one_whole_voice(tmp_path: Path) -> None:
    together = threading.Barrier(6)
    failed: list[BaseException] = []

    def add(seed: int) -> None:
        store = VoiceStore(tmp_path)
        pcm = speechlike(3.0, seed=seed)
        try:
            together.wait()
            for _ in range(5):
                add_voice(store, "ann", pcm, source=f"{seed}.wav")
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    store = VoiceStore(tmp_path)
    store.make(store.read("ann"), "m", Maker(embedding).native)  # its recording is its own
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".made", "ann"]


def test_what_a_killed_add_leaves_is_no_voice_and_goes_in_time(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    left = store.draft("ann", speechlike(3.0))
    store.make(left.record, "m", Maker(embedding).native, left.folder)
    (tmp_path / ".made" / ".new-abc.npz").write_bytes(b"half")
    assert store.names() == []
    add_voice(store, "bob", speechlike(4.0))
    assert left.folder.exists(), "it might still be at work"
    for path in (left.folder, tmp_path / ".made" / ".new-abc.npz"):
        os.utime(path, (1, 1))
    add_voice(store, "bob", speechlike(4.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".made", "bob"]
    assert list((tmp_path / ".made").iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_one_line_and_leaves_nothing(
    tmp_path: Path, common: list[str], recording: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, code: int,
) -> None:  # fmt: skip
    def full(folder: Path, *_: Any) -> None:
        (folder / "reference.wav").write_bytes(b"RIFF")
        raise OSError(code, os.strerror(code), str(folder / "reference.wav"))

    monkeypatch.setattr(store_module, "write_draft", full)
    assert main(["voice", "add", "ann", recording, *common]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert os.strerror(code) in line
    assert "tts.voices" in line
    assert [path.name for path in (tmp_path / "voices").iterdir()] == [".lock"]


def test_a_folder_of_voices_that_is_a_file(
    tmp_path: Path, common: list[str], recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "voices").write_text("x")
    assert main(["voice", "add", "ann", recording, *common]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["voice", "remove", "ann", *common]) == 2
    assert "not in" in capsys.readouterr().err


def test_a_result_that_cannot_be_kept_is_a_users_error(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))
    (tmp_path / ".made").write_text("in the way")
    with pytest.raises(MissingFileError, match=r"cannot be written to .*tts\.voices"):
        store.make(record, "m", Maker(embedding).native)


@pytest.mark.parametrize("name", ["a\nb", "a" * 5000, "ünï", "\udcff", ""])
def test_a_bad_name_is_one_short_line(
    common: list[str], recording: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["voice", "add", name, recording, *common]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert len(error) < 200


def test_bytes_that_are_no_text_in_arguments(
    tmp_path: Path, common: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / os.fsdecode(b"\xff.wav")
    write_wav(odd, speechlike(4.0), 22_050)  # it has a remark, with that name
    assert main(["voice", "add", "ann", str(odd), *common]) == 0
    record = json.loads((tmp_path / "voices" / "ann" / "voice.json").read_bytes())
    assert record["source"] == "?.wav"
    trial = ["voice", "try", "ann", "--out", str(tmp_path / "out.wav")]
    assert main([*trial, "--text", "hello \udcff", *common]) == 0
    for empty in ("", "  ", "...", "\udcff"):
        assert main([*trial, "--text", empty, *common]) == 2
        assert "nothing in it to speak" in capsys.readouterr().err


def test_blank_text_makes_no_icl_voice(
    common: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = str(write_wav(tmp_path / "long.wav", speechlike(10.0)))  # too long for ICL
    assert main(["voice", "add", "ann", recording, "--text", "  ", *common]) == 0
    assert "x-vector voice of 10.0 s" in capsys.readouterr().out


def test_wavs_that_do_not_know_their_length(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "x.wav", speechlike(3.0))
    whole, _ = read_wav(path)
    data = bytearray(path.read_bytes())
    for length in (0, 0xFFFFFFFF, 0x7FFFFFFF):
        data[40:44] = length.to_bytes(4, "little")
        path.write_bytes(data)
        np.testing.assert_array_equal(read_wav(path)[0], whole)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_what_has_no_end_is_not_read() -> None:
    with pytest.raises(UsageError, match="not a file"):
        read_wav(Path("/dev/zero"))
