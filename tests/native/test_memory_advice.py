"""The memory plan says which key to turn, on any card; and damaged files cannot lead it astray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from duet_trio import cli
from duet_trio.config import Config, load
from duet_trio.doctor import engines
from duet_trio.engines import gguf
from duet_trio.lab.gguf_writer import GgufWriter
from duet_trio.lab.tiny_gguf import write_pair
from duet_trio.memory_plan import Measured, MemoryPlan, Row, plan
from duet_trio.memory_plan.machine import measure
from duet_trio.memory_plan.rows import VRAM_SPARE_MIB
from duet_trio.models.catalogue import LAPTOP_8GB

LAPTOP = Path(__file__).resolve().parents[2] / "config" / "laptop-8gb.toml"


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of the laptop are planned from what is published."""
    monkeypatch.setenv("DUET_MODELS", str(tmp_path / "models"))


def turned(changes: tuple[str, ...], *more: str) -> Config:
    """The laptop's configuration with an advice followed to the letter."""
    keys = [change.removesuffix(" (slower)").replace(" ", "") for change in changes]
    return load(LAPTOP, [*more, *keys])


def on_card(vram_mib: float, config: Config) -> MemoryPlan:
    return plan(config, measured=Measured("a card", vram_mib, 500.0, 64_000.0))


@pytest.mark.parametrize(
    ("card_mib", "keys"),
    [
        (7_300, ["swa_full"]),
        (7_000, ["swa_full", "sequences"]),
        (6_144, ["swa_full", "sequences", "context", "gpu_layers"]),
        (4_096, ["swa_full", "sequences", "context", "gpu_layers"]),
    ],
)
def test_following_the_advice_makes_it_fit(card_mib: int, keys: list[str]) -> None:
    own = on_card(card_mib, load(LAPTOP)).own_cure
    assert own is not None
    assert own.enough
    assert [change.split(" ")[0].removeprefix("llm.") for change in own.changes] == keys
    after = on_card(card_mib, turned(own.changes))
    assert after.vram_mib == pytest.approx(own.vram_mib)
    assert after.vram_mib + VRAM_SPARE_MIB <= card_mib
    assert list(engines.memory(turned(own.changes), after)) == []
    [finding] = engines.memory(load(LAPTOP), on_card(card_mib, load(LAPTOP)))
    assert (finding.verdict, finding.what) == ("BAD", "VRAM")
    assert f"{card_mib:,} there" in finding.detail
    assert all(change in finding.mend for change in own.changes)


def test_no_more_layers_leave_the_card_than_must() -> None:
    own = on_card(6_144, load(LAPTOP)).own_cure
    assert own is not None
    layers = int(own.changes[-1].split()[2])
    more = turned((*own.changes, f"llm.gpu_layers = {layers + 1}"))
    assert on_card(6_144, more).vram_mib + VRAM_SPARE_MIB > 6_144


def test_a_card_that_holds_it_needs_no_advice() -> None:
    planned = on_card(8_188, load(LAPTOP))
    assert planned.own_cure is not None
    assert planned.own_cure.changes == ()
    assert list(engines.memory(load(LAPTOP), planned)) == []
    assert (
        list(engines.memory(turned(()), on_card(planned.vram_mib + VRAM_SPARE_MIB, turned(()))))
        == []
    )
    assert list(engines.memory(turned(()), on_card(planned.vram_mib + 200, turned(())))) != []


def test_a_card_for_which_no_key_is_enough_is_told_so() -> None:
    [finding] = engines.memory(load(LAPTOP), on_card(2_048, load(LAPTOP)))
    assert "no key is enough: even with llm.swa_full = false and" in finding.mend
    assert finding.mend.endswith("take smaller models")


def test_the_reference_card_gets_a_way_to_fit() -> None:
    config = load(LAPTOP, ["llm.context=65536"])
    planned = plan(config, measured=Measured())
    assert planned.fits_vram is False
    assert planned.cure is not None
    assert f"to fit: {planned.cure}" in planned.render()
    assert plan(turned(planned.cure.changes, "llm.context=65536"), measured=Measured()).fits_vram


def test_no_context_is_planned_that_the_model_was_not_trained_for() -> None:
    trained = plan(load(LAPTOP, ["llm.context=131072"]), measured=Measured())
    absurd = plan(load(LAPTOP, [f"llm.context={10**15}"]), measured=Measured())
    assert absurd.vram_mib == trained.vram_mib
    assert absurd.cure is not None
    assert absurd.cure.enough
    assert "gpu_layers" not in str(absurd.cure), "a smaller context is enough"


def test_an_advised_context_has_room_for_the_longest_answer() -> None:
    sets = ["llm.context=16384", "llm.max_tokens=3000"]
    own = on_card(5_300, load(LAPTOP, sets)).own_cure
    assert own is not None
    (context,) = [change for change in own.changes if "context" in change]
    assert context == "llm.context = 6144"
    assert all(
        "context = 8192" in one.change or "context" not in one.change
        for one in on_card(5_300, load(LAPTOP, sets)).advice
    )


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ways to turn the keys are tried: a vocabulary takes long to read."""
    pair = write_pair(tmp_path / "pair")
    read: list[Path] = []
    real = gguf.read

    def counted(path: Path, what: str = "model") -> gguf.Gguf:
        read.append(path)
        return real(path, what)

    monkeypatch.setattr(gguf, "read", counted)
    sets = [f"tts.model={pair.talker}", f"tts.codec={pair.codec}", "llm.context=99999"]
    on_card(3_000, load(LAPTOP, sets))
    assert sorted(read) == sorted([pair.talker, pair.codec])


# What a machine says of itself.


def smi(folder: Path, output: bytes) -> list[str]:
    script = folder / "smi.py"
    script.write_text(f"import sys; sys.stdout.buffer.write({output!r})")
    return [sys.executable, str(script)]


@pytest.mark.parametrize(
    ("output", "name", "total"),
    [
        (b"NVIDIA X, Ti, 8188, 700\n", "NVIDIA X, Ti", 8188.0),
        (b"N\xffVIDIA, 8188, 700\n", "N\ufffdVIDIA", 8188.0),
        (b"First, 8188, 700\nSecond, 4096, 1\n", "First", 8188.0),
        (b"NVIDIA GB10, [N/A], [N/A]\n", "NVIDIA GB10", None),
        (b"\n", "", None),
        (b"one, two, three, four\n", "one, two", None),
    ],
)
def test_whatever_nvidia_smi_says(
    tmp_path: Path, output: bytes, name: str, total: float | None
) -> None:
    said = measure(smi(tmp_path, output))
    assert (said.gpu_name, said.vram_total_mib) == (name, total)


def test_a_card_that_does_not_say_its_memory_is_still_a_card() -> None:
    said = Measured(gpu_name="NVIDIA GB10")
    planned = plan(load(LAPTOP), measured=said)
    assert "this card (NVIDIA GB10): nvidia-smi does not say what it has" in planned.render()
    assert "no NVIDIA card" not in planned.render()
    [note] = engines.memory(load(LAPTOP), planned)
    assert (note.verdict, note.detail) == (
        "note",
        "NVIDIA GB10 does not say what it has (nvidia-smi)",
    )


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in")
def test_the_command_shows_real_use_beside_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in = tmp_path / "nvidia-smi"
    stand_in.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 3050, 4096, 700'\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = ["server.http_port=0", "server.websocket_port=0", f"server.state_dir={tmp_path}"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert cli.main(["doctor", "--config", str(LAPTOP), *words]) == 1
    out = capsys.readouterr().out
    assert "this card (NVIDIA GeForce RTX 3050): 700 of 4,096 MiB in use now (nvidia-smi)" in out
    assert "BAD   VRAM: 7,038 MiB planned, 4,096 there" in out
    assert "llm.gpu_layers = 0 (slower)" in out


# Files that lie.

Fill = Callable[[GgufWriter], None]


def weights(file: GgufWriter) -> None:
    file.u32("llama.block_count", 2)
    for name in ("blk.0.a", "blk.1.a", "blk.x.a", "blk", "blk.77.a"):
        file.tensor(f"{name}", np.zeros((4, 64), np.float32))


LIES: dict[str, Fill] = {
    "no layers": lambda file: None,
    "layers without end": lambda file: file.u32("llama.block_count", 2**32 - 1),
    "a text": lambda file: file.text("llama.block_count", "many"),
    "not finite": lambda file: file.f32("llama.block_count", float("inf")),
}


def planned_for(tmp_path: Path, fill: Fill, *more: str) -> MemoryPlan:
    file = GgufWriter("llama")
    file.u32("llama.embedding_length", 64)
    fill(file)
    file.tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    path = tmp_path / "lie.gguf"
    file.write(path)
    sets = [f"llm.model={path}", "asr.engine=scripted", "tts.engine=scripted", *more]
    return plan(load(None, sets), measured=Measured())


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_language_model_is_not_counted(tmp_path: Path, lie: str) -> None:
    planned = planned_for(tmp_path, LIES[lie])
    (missing,) = planned.missing
    assert "no language model, or damaged" in missing
    assert planned.fits_vram is None


@pytest.mark.parametrize(
    "more",
    [
        lambda file: None,
        lambda file: file.texts("llama.attention.head_count_kv", ["a", "b"]),
        lambda file: file.numbers("llama.attention.head_count_kv", [-1, 2**31 - 1]),
        lambda file: file.u32("llama.attention.head_count", 0),
        lambda file: file.u32("tokenizer.ggml.tokens", 5),
        lambda file: (
            file.u32("llama.attention.sliding_window", 512),
            file.texts("llama.attention.sliding_window_pattern", ["a", "b"]),
        ),
    ],
)
def test_odd_heads_end_in_no_traceback(tmp_path: Path, more: Fill) -> None:
    def fill(file: GgufWriter) -> None:
        weights(file)
        more(file)

    planned = planned_for(tmp_path, fill, "llm.gpu_layers=1")
    assert planned.missing == ()
    assert planned.render()


def test_the_two_files_of_the_voice_exchanged_or_named_by_folder(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    swapped = load(LAPTOP, [f"tts.model={pair.codec}", f"tts.codec={pair.talker}"])
    assert "no talker in it" in str(plan(swapped, measured=Measured()).missing)
    twice = load(LAPTOP, [f"tts.model={pair.talker}", f"tts.codec={pair.talker}"])
    assert "no codec in it" in str(plan(twice, measured=Measured()).missing)
    none = load(LAPTOP, ["tts.model="])
    assert "tts.model is empty" in str(plan(none, measured=Measured()).missing)
    folder = load(LAPTOP, [f"tts.model={pair.talker.parent}", "tts.codec="])
    planned = plan(folder, measured=Measured())
    (models,) = [row for row in planned.rows if (row.owner, row.what) == ("tts", "models")]
    size = pair.talker.stat().st_size + pair.codec.stat().st_size
    assert models.vram_mib == pytest.approx(size / 2**20)
    empty = load(LAPTOP, [f"tts.model={tmp_path}", "tts.codec="])
    assert "no GGUF files in it" in str(plan(empty, measured=Measured()).missing)
    tone = plan(load(LAPTOP, ["tts.library=tone"]), measured=Measured())
    assert tone.missing == ()
    assert sum(row.vram_mib for row in tone.rows if row.owner == "tts") == 0


def test_layers_on_the_card_bring_the_desktop_with_them() -> None:
    sets = ["llm.gpu=false", "tts.gpu=false"]
    with_layers = plan(load(LAPTOP, sets), measured=Measured())
    without = plan(load(LAPTOP, [*sets, "llm.gpu_layers=0"]), measured=Measured())
    assert with_layers.rows[-1].vram_mib == 600
    assert without.vram_mib == 0


# RAM, and what is assumed.


def test_ram_that_is_short_is_told_with_the_keys_that_save_it() -> None:
    config = load(LAPTOP, ["llm.gpu_layers=0"])
    planned = plan(config, measured=Measured(ram_total_mib=8_000.0))
    found = {finding.what: finding for finding in engines.memory(config, planned)}
    assert found["RAM"].verdict == "BAD"
    assert "8,000 there" in found["RAM"].detail
    assert "llm.swa_full = false" in found["RAM"].mend
    assert "gpu_layers" not in found["RAM"].mend
    enough = plan(config, measured=Measured(ram_total_mib=planned.ram_mib + 1))
    assert [finding.what for finding in engines.memory(config, enough)] == ["VRAM"]  # no card
    on_card = plan(load(LAPTOP), measured=Measured(ram_total_mib=4_000.0))
    found = {finding.what: finding for finding in engines.memory(load(LAPTOP), on_card)}
    assert found["RAM"].mend == "take smaller models"


@pytest.mark.parametrize(
    ("ram_mib", "words"),
    [
        (15_300, "of 16,384 MiB; fits, 1,084 MiB remain"),
        (15_400, "of 16,384 MiB; too tight: 1024 MiB should stay free"),
        (16_500, "of 16,384 MiB; does not fit, 116 MiB too much"),
    ],
)
def test_the_verdict_on_ram(ram_mib: float, words: str) -> None:
    planned = MemoryPlan(rows=(Row("llm", "x", 0.0, ram_mib),))
    assert planned.fits_ram is ("; fits" in words)
    assert f"RAM: {ram_mib:,} {words}" in planned.render()


def test_what_is_assumed_says_so_and_is_counted() -> None:
    planned = plan(load(LAPTOP), measured=Measured())
    assumed = {(row.owner, row.what): row for row in planned.rows if row.note == "assumed"}
    assert assumed["machine", "system and desktop"] == Row(
        "machine", "system and desktop", 600.0, 3_500.0, "assumed"
    )
    assert {("llm", "process"), ("tts", "process"), ("machine", "server")} <= assumed.keys()
    (whisper,) = [row for row in planned.rows if row.owner == "asr"]
    (model,) = [f for f in LAPTOP_8GB.files if f.path == "whisper-small/model.bin"]
    assert whisper.ram_mib == pytest.approx(model.size / 2**20 + 150)


def test_a_voice_that_is_made_at_start_brings_its_encoders(tmp_path: Path) -> None:
    pair = write_pair(tmp_path)
    sets = [f"tts.model={pair.talker}", f"tts.codec={pair.codec}"]
    rows = plan(load(LAPTOP, [*sets, "tts.voice=ann"]), measured=Measured()).rows
    (encoders,) = [row for row in rows if row.what == "voice encoders"]
    size = gguf.read(pair.talker).weight_bytes(lambda name: name.startswith("spk_enc."))
    size += gguf.read(pair.codec).weight_bytes(lambda name: name.startswith("tok_enc."))
    assert size > 0
    assert encoders.vram_mib == pytest.approx(size / 2**20)
    assert not [row for row in plan(load(LAPTOP, sets)).rows if row.what == "voice encoders"]
