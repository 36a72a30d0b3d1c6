"""What the README promises is there: files, targets, commands, example configurations."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from duet_trio.cli import COMMANDS
from duet_trio.config import load
from tests.gate.planted import HOME
from tools.layering import LAYERS

README = (HOME / "README.md").read_text(encoding="utf-8")
CONFIGURATIONS = sorted((HOME / "config").glob("*.toml"))


def test_every_path_in_the_readme_exists() -> None:
    paths = set(re.findall(r"`((?:config|tools|duet_trio|tests|native)/[\w./-]+)`", README))
    assert paths
    assert [path for path in sorted(paths) if not (HOME / path).exists()] == []


def test_every_target_in_the_readme_exists() -> None:
    makefile = (HOME / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE))
    assert {first or second for first, second in named} <= targets
    assert {"demo", "test", "check", "install"} <= targets


def test_every_command_in_the_readme_exists() -> None:
    named = set(re.findall(r"(?:/|\\|`)duet (\w+)", README))
    assert "serve" in named
    assert named <= {command.name for command in COMMANDS}


def test_every_package_stands_in_the_table_of_layers() -> None:
    rows = dict(re.findall(r"^\| ([0-5]) \| (.*?) \|", README, re.MULTILINE))
    places = [(name, layer) for name, layer in LAYERS.items() if re.fullmatch("[a-z]\\w*", name)]
    assert len(places) > 15
    assert [name for name, layer in places if f"`{name}`" not in rows[str(layer)]] == []


def test_every_dependency_is_explained() -> None:
    project = msgspec.toml.decode((HOME / "pyproject.toml").read_bytes())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(one for name in extras if name != "test" for one in extras[name]),
    ]
    packages = [re.split(r"[=<>~]", one)[0] for one in wanted]
    assert "trio" in packages
    table = README.partition("## Dependencies, and why each")[2].partition("\n\n**")[0]
    assert [one for one in packages if not re.search(rf"\b{one}\b(?!-)", table)] == []


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_example_configurations_are_valid_and_listed(path: Path) -> None:
    if load_as_configuration(path):
        assert f"`config/{path.name}`" in README


def load_as_configuration(path: Path) -> bool:
    """Load it strictly; fault plans and modelled cards, which are TOML files too, are none."""
    text = path.read_text(encoding="utf-8")
    if "[[fault]]" in text or "[card]" in text:
        return False
    load(path)
    return True
