"""The 8 GB laptop's configuration: each key explained, its files in the catalogue, figures true."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from duet_trio.config import load
from duet_trio.memory_plan import Measured, Row, plan
from duet_trio.models.catalogue import LAPTOP_8GB

LAPTOP = Path(__file__).resolve().parents[2] / "config" / "laptop-8gb.toml"
TEXT = LAPTOP.read_text(encoding="utf-8")
GB = 2**20 / 1e9  # of a MiB


def test_every_key_is_explained_where_it_stands() -> None:
    keys = re.findall(r"^[a-z_]+ *=.*$", TEXT, re.MULTILINE)
    assert len(keys) > 30
    assert [line for line in keys if not re.search(r"# .*\w", line)] == []


def test_what_was_asked_for() -> None:
    config = load(LAPTOP)
    assert (config.llm.engine, config.llm.gpu, config.llm.gpu_layers) == ("llama", True, -1)
    assert (config.tts.engine, config.tts.gpu) == ("qwen", True)
    assert (config.asr.engine, config.llm.overlap) == ("whisper", False)


def test_its_files_are_those_that_a_pull_brings() -> None:
    tree = msgspec.toml.decode(TEXT)
    brought = {f"{{models}}/{LAPTOP_8GB.name}/{file.path}" for file in LAPTOP_8GB.files}
    named = [value for section in tree.values() for value in section.values()]
    named = [value for value in named if isinstance(value, str) and "{models}" in value]
    assert len(named) == 5
    for value in named:
        assert value in brought or any(path.startswith(f"{value}/") for path in brought)
    size = sum(file.size for file in LAPTOP_8GB.files) / 1e9
    assert f"# {size:.1f} GB; goes on" in TEXT


def rows(*more: str) -> dict[str, Row]:
    planned = plan(load(LAPTOP, more), measured=Measured())
    return {f"{row.owner} {row.what.split(',')[0]}": row for row in planned.rows}


def test_the_figures_in_its_remarks_are_the_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUET_MODELS", str(tmp_path))
    base, small = rows(), rows("llm.swa_full=false")
    layers, tables = base["llm 42 of 42 layers"], base["llm token tables"]
    assert f"all of them, {layers.vram_mib * GB:.1f} GB" in TEXT
    assert f"stay in RAM ({tables.ram_mib * GB:.1f} GB)" in TEXT
    more = (base["llm KV cache"].vram_mib - small["llm KV cache"].vram_mib) * GB
    assert f"sliding layers: {more:.2f} GB more" in TEXT
