"""``duet doctor`` looks for the voices that a configuration names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duet_trio.config import Config, load
from duet_trio.doctor.engines import native_voice
from duet_trio.engines.native.loading import describe_pair
from duet_trio.engines.native.voice_store import VoiceStore
from duet_trio.lab.tiny_gguf import Pair, write_pair
from tests.native.support import add_voice, libqwen, speechlike


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


def config(pair: Pair, folder: Path, *more: str) -> Config:
    keys = {"engine": "qwen", "library": libqwen(), "model": pair.talker, "codec": pair.codec}
    sets = [f"tts.{key}={value}" for key, value in keys.items()]
    return load(None, [*sets, f"tts.voices={folder}", *more])


def voices(wanted: Config) -> list[str]:
    return [str(found) for found in native_voice(wanted) if found.what == "voice"]


def test_every_place_that_names_a_voice_is_looked_at(pair: Pair, tmp_path: Path) -> None:
    wanted = config(
        pair, tmp_path, "tts.voice=ann", "voice.name=bob", 'boards."11:22:33:44:55:66".voice=cy'
    )
    ann, bob, cy = voices(wanted)
    for name, line in (("ann", ann), ("bob", bob), ("cy", cy)):
        assert line.startswith(f"BAD   voice: voice '{name}': not in {tmp_path}")
        assert f"duet voice add {'NAME'} ref.wav" in line
    assert voices(config(pair, tmp_path)) == []


def test_a_voice_that_is_there_but_made_for_another_model(pair: Pair, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    record = add_voice(store, "ann", speechlike(3.0))
    (line,) = voices(config(pair, tmp_path, "tts.voice=ann"))
    assert line == "ok    voice: 'ann': x-vector of 3.0 s, will be made for this model at start"
    (line,) = voices(config(pair, tmp_path, "voice.name=ann"))
    assert line.startswith("BAD   voice: 'ann' has not been made for this model; run: duet voice")
    identity = describe_pair(pair.talker, pair.codec).identity
    (tmp_path / ".made").mkdir()
    np.savez(tmp_path / ".made" / f"{record.key}-{identity}.npz", embedding=np.ones(4))
    (line,) = voices(config(pair, tmp_path, "voice.name=ann"))
    assert line == "ok    voice: 'ann': x-vector of 3.0 s"


def test_a_speaker_of_the_model_needs_no_clone(tmp_path: Path) -> None:
    custom = write_pair(tmp_path / "custom", kind="custom_voice")
    speaker = describe_pair(custom.talker, custom.codec).speakers[0]
    (line,) = voices(config(custom, tmp_path / "voices", f"tts.voice={speaker}"))
    assert line == f"ok    voice: '{speaker}' is a speaker of the model"


def test_without_its_model_only_the_model_is_blamed(pair: Pair, tmp_path: Path) -> None:
    add_voice(VoiceStore(tmp_path), "ann", speechlike(3.0))
    lost = config(pair, tmp_path, "tts.voice=ann", f"tts.model={tmp_path / 'none.gguf'}")
    assert voices(lost) == ["ok    voice: 'ann': x-vector of 3.0 s"]
