"""The memory plan: against llama.cpp's and libqwen's own logs, and for the 8 GB laptop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from duet_trio.config import Config, TtsSection, load
from duet_trio.engines import gguf
from duet_trio.lab.tiny_gguf import write_pair
from duet_trio.memory_plan import Measured, MemoryPlan, Row, plan
from duet_trio.memory_plan.llm import kv_mib, layers_of
from duet_trio.memory_plan.machine import measure
from duet_trio.memory_plan.published import published_head
from duet_trio.memory_plan.tts import plan_qwen
from duet_trio.models.catalogue import LAPTOP_8GB
from duet_trio.models.paths import locate
from tests.native.big_models import gemma_4_e4b, qwen_codec, qwen_talker_17b
from tests.native.support import tts_settings

HOME = Path(__file__).resolve().parents[2]
LAPTOP = HOME / "config" / "laptop-8gb.toml"
UNKNOWN = Measured()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    gemma_4_e4b(folder / "gemma.gguf")
    for kind in ("Q8_0", "Q4_K", "BF16"):
        qwen_talker_17b(folder / f"talker-{kind}.gguf", kind)
    qwen_codec(folder / "codec.gguf")
    (folder / "whisper").mkdir()
    (folder / "whisper" / "model.bin").write_bytes(bytes(1_000_000))
    return folder


def laptop(files: Path, *more: str, talker: str = "Q4_K") -> Config:
    return load(
        LAPTOP,
        [
            f"llm.model={files / 'gemma.gguf'}",
            f"tts.model={files / f'talker-{talker}.gguf'}",
            f"tts.codec={files / 'codec.gguf'}",
            f"asr.model={files / 'whisper'}",
            *more,
        ],
    )


def row(planned: MemoryPlan, owner: str, beginning: str) -> Row:
    (found,) = [r for r in planned.rows if r.owner == owner and r.what.startswith(beginning)]
    return found


def test_gemma_4_layers_slide_and_share(files: Path) -> None:
    layers = layers_of(gguf.read(files / "gemma.gguf"))
    kept = [layer for layer in layers if layer.kv_values]
    assert (len(layers), len(kept)) == (42, 24)
    assert sum(layer.sliding for layer in kept) == 20
    # llama.cpp's log: 3072 cells, 20 layers, 120.00 MiB.
    sliding = sum(layer.kv_values for layer in kept if layer.sliding)
    assert sliding * 2 * 3072 / 2**20 == 120.0


def test_kv_follows_context_sequences_and_swa_full(files: Path) -> None:
    head = gguf.read(files / "gemma.gguf")
    per_sequence = 64 + 30  # 4 full layers x 4096 positions, 20 sliding ones x 768
    base = laptop(files, "llm.swa_full=false").llm
    assert kv_mib(head, base) == 2 * per_sequence
    assert kv_mib(head, laptop(files, "llm.swa_full=false", "llm.sequences=1").llm) == per_sequence
    assert kv_mib(head, laptop(files, "llm.swa_full=true").llm) == 2 * (64 + 160)
    half = laptop(files, "llm.swa_full=false", "llm.context=2048").llm
    assert kv_mib(head, half) == 2 * (32 + 30)


def test_libqwen_figures_meet_its_own_load_log(files: Path) -> None:
    planned = plan(laptop(files, talker="Q8_0"), measured=UNKNOWN)
    talker = row(planned, "tts", "talker").vram_mib + row(planned, "tts", "text emb").vram_mib
    assert talker == pytest.approx(1765, rel=0.01)
    assert row(planned, "tts", "code predictor").vram_mib == pytest.approx(177, rel=0.05)
    assert row(planned, "tts", "KV cache").vram_mib == pytest.approx(896, abs=3)
    assert "no engine has a switch" in row(planned, "tts", "KV cache").note
    assert row(planned, "tts", "text embedding").note == "no engine has a switch to save this"
    assert row(planned, "tts", "text embedding").vram_mib == pytest.approx(315, rel=0.01)


def test_file_sizes_are_what_libqwen_loads(tmp_path: Path) -> None:
    pair = write_pair(tmp_path)
    code = (
        "import json, sys\n"
        "from duet_trio.engines.native.loading import open_engine\n"
        "open_engine(json.loads(sys.argv[1])).native.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(tts_settings(pair))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = [float(size) for size in re.findall(r"Loaded \d+ tensors, ([\d.]+) MB", done.stderr)]
    assert len(loaded) == 7
    section = TtsSection(engine="qwen", model=str(pair.talker), codec=str(pair.codec))
    rows = plan_qwen(gguf.read(pair.talker), gguf.read(pair.codec), section)
    parts = ("talker", "text embedding", "code predictor", "codec decoder")
    planned = sum(row.ram_mib for row in rows if row.what in parts)
    assert planned == pytest.approx(sum(loaded), rel=0.02)


def test_the_laptop_fits(files: Path) -> None:
    planned = plan(laptop(files), measured=UNKNOWN)
    assert planned.missing == ()
    assert (planned.fits_vram, planned.fits_ram) == (True, True)
    assert 6_000 < planned.vram_mib < 7_700
    assert row(planned, "llm", "42 of 42 layers").ram_mib == 0
    assert row(planned, "llm", "token tables").ram_mib > 2_500
    text = planned.render()
    assert text.startswith("memory, planned, not measured")
    assert "of 8,188 MiB; fits" in text
    assert "to turn" not in text


def test_what_does_not_fit_says_which_key_to_turn(files: Path) -> None:
    planned = plan(laptop(files, "llm.context=16384", talker="BF16"), measured=UNKNOWN)
    assert planned.fits_vram is False
    text = planned.render()
    assert "does not fit" in text
    turns = {advice.change.split(" =")[0].split(":")[0]: advice for advice in planned.advice}
    assert {"tts.model", "llm.swa_full", "llm.sequences", "llm.gpu_layers"} <= turns.keys()
    smaller = plan(
        laptop(files, "llm.context=16384", "llm.swa_full=false", talker="BF16"), measured=UNKNOWN
    )
    assert planned.vram_mib - smaller.vram_mib == pytest.approx(turns["llm.swa_full"].vram_mib)
    assert "to turn: llm.swa_full = false: saves " in text
    savings = [advice.vram_mib for advice in planned.advice]
    assert savings == sorted(savings, reverse=True)


def test_without_files_it_plans_from_what_is_published(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUET_MODELS", str(tmp_path))
    planned = plan(load(LAPTOP), measured=UNKNOWN)
    assert planned.missing == ()
    assert len(planned.published) == 4
    assert "not there, from its published size: llm.model = " in planned.render()
    there = plan(laptop(files), measured=UNKNOWN)
    assert planned.vram_mib == pytest.approx(there.vram_mib, rel=0.02)
    for file in LAPTOP_8GB.files:
        head = published_head(tmp_path / "laptop-8gb" / file.path)
        if head is not None:
            assert head.weight_bytes() == pytest.approx(file.size, rel=0.02)


def test_unknown_files_that_are_not_there_are_listed_and_nothing_is_promised() -> None:
    config = load(LAPTOP, ["llm.model=/no/a.gguf", "tts.codec=/no/b.gguf", "asr.model=/no/c"])
    planned = plan(config, measured=UNKNOWN)
    assert len(planned.missing) == 3
    assert planned.fits_vram is None
    assert "cannot say whether all of it fits: files are missing" in planned.render()
    assert "not counted: llm.model = /no/a.gguf" in planned.render()


def test_nothing_on_the_card_needs_no_card(tmp_path: Path, files: Path) -> None:
    pair = write_pair(tmp_path)
    planned = plan(
        laptop(
            files,
            "llm.gpu=false",
            "llm.gpu_layers=0",
            "tts.gpu=false",
            f"tts.model={pair.talker}",
            f"tts.codec={pair.codec}",
        ),
        measured=UNKNOWN,
    )
    assert planned.vram_mib == 0
    assert planned.ram_mib > 5_000
    assert "no NVIDIA card seen" in planned.render()


def test_part_of_the_layers_on_the_card(files: Path) -> None:
    whole = plan(laptop(files), measured=UNKNOWN)
    part = plan(laptop(files, "llm.gpu_layers=20"), measured=UNKNOWN)
    layers = row(part, "llm", "20 of 42 layers")
    assert layers.vram_mib + layers.ram_mib == pytest.approx(row(whole, "llm", "42 of 42").vram_mib)
    # Only the layers below 24 keep K and V, and the last 20 go to the card: 22 and 23.
    assert row(part, "llm", "KV").vram_mib < row(part, "llm", "KV").ram_mib


def fake_smi(tmp_path: Path, output: str, code: int = 0) -> list[str]:
    script = tmp_path / "smi.py"
    script.write_text(f"import sys; sys.stdout.write({output!r}); sys.exit({code})")
    return [sys.executable, str(script)]


def test_what_nvidia_smi_says(tmp_path: Path) -> None:
    said = measure(fake_smi(tmp_path, "NVIDIA GeForce RTX 4060 Laptop GPU, 8188, 7448\n"))
    assert said.gpu_name == "NVIDIA GeForce RTX 4060 Laptop GPU"
    assert (said.vram_total_mib, said.vram_used_mib) == (8188, 7448)
    rendered = MemoryPlan(rows=(Row("llm", "x", 1),), measured=said).render()
    assert "7,448 of 8,188 MiB in use now (nvidia-smi)" in rendered
    for output, code in (("", 9), ("NVIDIA GB10, [N/A], [N/A]\n", 0), ("No devices", 6)):
        assert measure(fake_smi(tmp_path, output, code)).vram_total_mib is None
    assert measure(["/nowhere/nvidia-smi"]).vram_total_mib is None
    assert (measure(["/nowhere/nvidia-smi"]).ram_total_mib or 0) > 500


@pytest.mark.models
def test_kv_and_weights_are_what_llama_cpp_allocates() -> None:
    model = locate("llm", "")
    code = (
        "import ctypes, llama_cpp as l\n"
        "@l.llama_log_callback\n"
        "def log(level, text, user): print(text.decode(), end='')\n"
        "l.llama_log_set(log, ctypes.c_void_p(0))\n"
        f"m = l.llama_model_load_from_file({str(model)!r}.encode(),"
        " l.llama_model_default_params())\n"
        "p = l.llama_context_default_params()\n"
        "p.n_ctx, p.n_seq_max, p.kv_unified = 2 * 1536, 2, False\n"
        "p.n_batch = p.n_ubatch = 256\n"
        "c = l.llama_init_from_model(m, p)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    def logged(what: str) -> float:
        (line,) = [line for line in done.stdout.splitlines() if what in line]
        return float(line.split("=")[1].split()[0])

    config = load(None, ["llm.context=1536", "llm.sequences=2", "llm.gpu_layers=0"])
    planned = plan(config, measured=UNKNOWN)
    weights = row(planned, "llm", "0 of 30").ram_mib + row(planned, "llm", "token").ram_mib
    assert weights == pytest.approx(logged("model buffer size"), rel=0.01)
    assert row(planned, "llm", "KV cache").ram_mib == logged("KV buffer size")
    compute = row(planned, "llm", "compute").ram_mib
    assert compute == pytest.approx(logged("compute buffer size"), rel=0.35)
