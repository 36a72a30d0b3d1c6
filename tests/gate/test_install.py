"""The installer decides which step to run; pip itself is played by a recorder."""

from __future__ import annotations

import os
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tools import install

PYPROJECT = """
[build-system]
requires = ["hatchling>=1.27"]
[project]
dependencies = ["trio>=0.33"]
[project.optional-dependencies]
llama = ["llama-cpp-python==0.3.36"]
test = ["pytest>=8"]
"""

VENV = "install --upgrade pip"
LLAMA = "install --force-reinstall"
BUILD = "wheel --no-deps"
REQUIREMENTS = "install --constraint"
PROJECT = "install --no-build-isolation"


class Machine:
    """A checkout, a cache, and a pip that notes what it is asked and does the visible part."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "checkout"
        self.cache = root / "cache"
        self.calls: list[str] = []
        self.constraints = ""
        self.requirements: list[str] = []
        self.flags = ""
        self.breaks_at = ""
        (self.root / "native").mkdir(parents=True)
        (self.root / "duet_trio").mkdir()
        self.put("pyproject.toml", PYPROJECT)
        self.put("native/voice.c", "int one;\n")
        monkeypatch.setenv("DUET_CACHE", str(self.cache))
        monkeypatch.delenv("DUET_LLAMA_FLAGS", raising=False)
        monkeypatch.setattr(venv, "create", self._create)
        monkeypatch.setattr(install.Installer, "_usable", lambda installer: True)
        monkeypatch.setattr(install, "need_compiler", lambda: None)
        machine = self

        def pip(
            installer: install.Installer, *words: str, environment: dict[str, str] | None = None
        ) -> None:
            machine.pip(installer, words, environment or {})

        monkeypatch.setattr(install.Installer, "_pip", pip)

    def put(self, name: str, text: str) -> None:
        """Write a file of the checkout."""
        (self.root / name).write_text(text, encoding="utf-8")

    def run(self, *extras: str, force: bool = False) -> list[str]:
        """Install; the pip calls it took, each by its first two words."""
        self.calls.clear()
        install.Installer(self.root, list(extras or ("llama", "test"))).run(force)
        return [call for call in self.calls if not call.endswith(".whl")]

    def pip(
        self, installer: install.Installer, words: tuple[str, ...], environment: dict[str, str]
    ) -> None:
        """Note the call; leave what the real one would leave."""
        call = " ".join(words[:2])
        self.calls.append(" ".join(words[:3]) if words[1] == "--upgrade" else call)
        if self.breaks_at and call.startswith(self.breaks_at):
            raise install.SetUpError("'pip …' failed")
        if call == REQUIREMENTS:
            self.constraints = Path(words[2]).read_text(encoding="utf-8")
            self.requirements = list(words[3:])
        elif call == BUILD:
            self.flags = environment["CMAKE_ARGS"]
            with zipfile.ZipFile(Path(words[words.index("--wheel-dir") + 1], "l.whl"), "w") as it:
                it.writestr("llama_cpp.py", "")
        elif call == PROJECT:
            installer.script.touch()
            self.put("duet_trio/_voice.so", "built")

    def _create(self, folder: Path, *, with_pip: bool) -> None:
        assert with_pip
        scripts = folder / ("Scripts" if os.name == "nt" else "bin")
        scripts.mkdir(parents=True)
        (scripts / ("python.exe" if os.name == "nt" else "python")).touch()
        (folder / "pyvenv.cfg").write_text("version = 3.11.7\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which nothing was installed yet."""
    return Machine(tmp_path, monkeypatch)


def test_first_run_does_everything_and_the_second_nothing(machine: Machine) -> None:
    assert machine.run() == [VENV, BUILD, LLAMA, REQUIREMENTS, PROJECT]
    assert machine.run() == []
    assert machine.calls == []


def test_what_pip_is_asked_for(machine: Machine) -> None:
    machine.run()
    assert machine.requirements == ["trio>=0.33", "pytest>=8", "hatchling>=1.27", "editables"]
    assert "torch" in machine.constraints
    assert "-DGGML_NATIVE=OFF" in machine.flags


def test_changed_source_builds_the_project_only(machine: Machine) -> None:
    machine.run()
    machine.put("native/voice.c", "int two;\n")
    assert machine.run() == [PROJECT]
    assert machine.run() == []


def test_lost_native_part_is_built_again(machine: Machine) -> None:
    machine.run()
    (machine.root / "duet_trio/_voice.so").unlink()
    assert machine.run() == [PROJECT]


def test_changed_requirement(machine: Machine) -> None:
    machine.run()
    machine.put("pyproject.toml", PYPROJECT.replace("trio>=0.33", "trio>=0.34"))
    assert machine.run() == [REQUIREMENTS, PROJECT]
    assert "trio>=0.34" in machine.requirements


def test_second_checkout_takes_the_wheel_from_the_cache(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run()
    other = Machine(tmp_path / "other", monkeypatch)
    monkeypatch.setenv("DUET_CACHE", str(machine.cache))
    assert other.run() == [VENV, LLAMA, REQUIREMENTS, PROJECT]


def test_other_flags_are_another_wheel(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.run()
    monkeypatch.setenv("DUET_LLAMA_FLAGS", "-DGGML_CUDA=ON")
    assert machine.run() == [BUILD, LLAMA]
    assert machine.flags == "-DGGML_CUDA=ON"
    monkeypatch.delenv("DUET_LLAMA_FLAGS")
    assert machine.run() == [LLAMA]  # the first one is still in the cache


def test_damaged_wheel_in_the_cache_is_built_again(machine: Machine) -> None:
    machine.run()
    [wheel] = machine.cache.rglob("*.whl")
    wheel.write_bytes(b"half a wheel")
    assert machine.run(force=True) == [VENV, BUILD, LLAMA, REQUIREMENTS, PROJECT]


def test_failure_is_resumed_where_it_happened(machine: Machine) -> None:
    machine.breaks_at = REQUIREMENTS
    with pytest.raises(install.SetUpError):
        machine.run()
    machine.breaks_at = ""
    assert machine.run() == [REQUIREMENTS, PROJECT]


def test_interrupted_build_leaves_no_wheel(machine: Machine) -> None:
    machine.breaks_at = BUILD
    with pytest.raises(install.SetUpError):
        machine.run()
    assert list(machine.cache.rglob("*.whl")) == []
    machine.breaks_at = ""
    assert machine.run() == [BUILD, LLAMA, REQUIREMENTS, PROJECT]


def test_unreadable_stamp_means_everything(machine: Machine) -> None:
    machine.run()
    machine.put(".venv/duet-install.json", "{ half")
    assert machine.run() == [VENV, LLAMA, REQUIREMENTS, PROJECT]


def test_without_llama_nothing_is_compiled_for_it(machine: Machine) -> None:
    assert machine.run("test") == [VENV, REQUIREMENTS, PROJECT]


def test_unknown_extra(machine: Machine) -> None:
    with pytest.raises(install.SetUpError, match="no extra named nonsense"):
        machine.run("nonsense")


def test_old_python_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install.py"])
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert install.main() == 1
    error = capsys.readouterr().err
    assert "is too old" in error
    assert error.count("\n") == 1


def test_an_interrupt_is_one_line(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(installer: install.Installer, force: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(install.Installer, "run", interrupt)
    monkeypatch.setattr(sys, "argv", ["install.py", "--root", str(machine.root), "--extras", ""])
    assert install.main() == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_no_compiler_is_told_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(install.SetUpError, match="apt-get install gcc"):
        install.need_compiler()


def test_failing_pip_shows_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    installer = install.Installer(tmp_path, [])
    installer.python = Path(sys.executable)
    with pytest.raises(install.SetUpError, match="pip nonsense"):
        installer._pip("nonsense", "words")
    assert "nonsense" in capsys.readouterr().err
