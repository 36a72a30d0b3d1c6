"""The doctor on healthy and on broken installations."""

from __future__ import annotations

import importlib.metadata
import socket
from pathlib import Path

import pytest

from duet_trio import cli, doctor, memory_plan, opus
from duet_trio.config import Config, load
from duet_trio.doctor import engines, machine
from duet_trio.doctor.finding import Finding
from duet_trio.errors import MissingLibraryError

SCRIPTED = (
    "asr.engine=scripted",
    "llm.engine=scripted",
    "tts.engine=scripted",
    "server.http_port=0",
    "server.websocket_port=0",
)


def scripted(tmp_path: Path, *more: str) -> Config:
    """A configuration that needs no model and no port."""
    return load(None, [*SCRIPTED, f"server.state_dir={tmp_path / 'state'}", *more])


def bad(config: Config) -> list[Finding]:
    """What has to be mended."""
    return [finding for finding in doctor.examine(config) if finding.verdict == "BAD"]


def test_scripted_engines_need_nothing_more(tmp_path: Path) -> None:
    assert bad(scripted(tmp_path)) == []
    assert not (tmp_path / "state").exists()  # it only looks


def test_exit_codes_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [*SCRIPTED, f"server.state_dir={tmp_path}"]
    healthy = [word for setting in settings for word in ("--set", setting)]
    assert cli.main(["doctor", *healthy]) == 0
    assert capsys.readouterr().out.endswith("all is there\n")
    broken = [*healthy, "--set", "tts.engine=piper", "--set", f"tts.model={tmp_path / 'v.onnx'}"]
    assert cli.main(["doctor", *broken]) == 1
    out = capsys.readouterr().out
    assert f"BAD   tts: piper model: {tmp_path / 'v.onnx'} is missing;" in out
    assert out.endswith("1 to mend\n")


def test_missing_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("soxr", "gruut"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert [finding.what for finding in bad(scripted(tmp_path))] == ["soxr"]
    (tmp_path / "voice.onnx").write_bytes(b"voice")
    piper = scripted(tmp_path, "tts.engine=piper", f"tts.model={tmp_path / 'voice.onnx'}")
    found = {finding.what: finding for finding in bad(piper)}
    assert set(found) == {"soxr", "gruut"}
    assert "make install" in found["gruut"].mend


def test_no_libopus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise MissingLibraryError("libopus not found; install it")

    monkeypatch.setattr(machine, "load_opus", missing)
    [finding] = bad(scripted(tmp_path))
    assert str(finding) == "BAD   libopus: libopus not found; install it"
    assert opus.find_libopus()  # here it is there


def test_taken_port(tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        number = server.getsockname()[1]
        config = scripted(tmp_path, "server.host=127.0.0.1", f"server.websocket_port={number}")
        [finding] = bad(config)
    assert f"port {number}: taken on 127.0.0.1" in str(finding)
    assert "server.websocket_port" in finding.mend
    assert bad(config) == []  # free again, and the doctor holds nothing


def test_host_that_is_not_ours(tmp_path: Path) -> None:
    # 192.0.2.0/24 is reserved for documentation: no machine has it.
    finding = machine.port("192.0.2.1", 8003, "http_port")
    assert finding.verdict == "BAD"
    assert "taken" not in finding.detail


def test_state_folder_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_text("x")
    [finding] = bad(scripted(tmp_path))
    assert finding.what == "server.state_dir"
    assert "is a file" in finding.detail


def test_processor_without_avx2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse4_2 avx fma f16c bmi2\n")
    [finding] = machine.processor(Config(), cpuinfo)
    assert "has no avx2" in finding.detail
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx avx2 fma f16c bmi2\n")
    assert list(machine.processor(Config(), cpuinfo)) == []


def test_remote_engines_need_no_files(tmp_path: Path) -> None:
    config = scripted(tmp_path, "llm.engine=openai", "llm.base_url=http://127.0.0.1:1/v1")
    assert bad(config) == []


def test_native_voice_that_is_not_there(tmp_path: Path) -> None:
    no_library, no_model = bad(scripted(tmp_path, "tts.engine=qwen", "tts.model=/no/talker.gguf"))
    assert "tts.library is empty" in no_library.detail
    assert "/no/talker.gguf is missing" in no_model.detail


def test_native_voice_with_something_else_in_its_file(tmp_path: Path) -> None:
    for name in ("talker.gguf", "codec.gguf", "libqwen.so"):
        (tmp_path / name).write_bytes(b"not what the name says")
    settings = (f"tts.{key}={tmp_path / name}" for key, name in (
        ("model", "talker.gguf"), ("codec", "codec.gguf"), ("library", "libqwen.so")))  # fmt: skip
    [finding] = bad(scripted(tmp_path, "tts.engine=qwen", *settings))
    assert "talker.gguf" in finding.detail


LAPTOP = Path(__file__).parents[2] / "config" / "laptop-8gb.toml"


def test_the_plan_of_the_laptop_before_its_models_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DUET_MODELS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    settings = ["server.http_port=0", "server.websocket_port=0", f"server.state_dir={tmp_path}"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert cli.main(["doctor", "--config", str(LAPTOP), *words]) == 1
    out = capsys.readouterr().out
    assert "gemma-4-E4B_q4_0-it.gguf is missing; fetch it with: duet models pull laptop-8gb" in out
    assert "note  VRAM: no NVIDIA card seen" in out
    assert "memory, planned, not measured (MiB)" in out
    assert "VRAM     RAM" in out
    assert out.count("not there, from its published size: ") == 4
    assert "of 8,188 MiB; fits" in out
    assert "of 16,384 MiB; fits" in out


def test_a_plan_larger_than_this_card(tmp_path: Path) -> None:
    config = load(LAPTOP, [f"server.state_dir={tmp_path}"])
    small = memory_plan.Measured("a small card", 6_144.0, 500.0, 64_000.0)
    [finding] = engines.memory(config, memory_plan.plan(config, measured=small))
    assert finding.verdict == "BAD"
    assert finding.what == "VRAM"
    assert "6,144 there" in finding.detail
    assert "llm.swa_full = false" in finding.mend
    large = memory_plan.Measured("a large card", 24_000.0, 500.0, 64_000.0)
    assert list(engines.memory(config, memory_plan.plan(config, measured=large))) == []


def test_scripted_engines_have_no_plan(tmp_path: Path) -> None:
    assert engines.memory_plan(scripted(tmp_path)) is None
    assert list(engines.memory(scripted(tmp_path), None)) == []


def test_damaged_speech_detection_path(tmp_path: Path) -> None:
    [finding] = bad(scripted(tmp_path, f"vad.model={tmp_path / 'none.onnx'}"))
    assert finding.what == "speech detection"
