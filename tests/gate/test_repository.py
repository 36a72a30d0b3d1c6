"""What the README promises is there: files, targets, commands, example configurations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duet_trio.cli import COMMANDS
from duet_trio.config import load
from tests.gate.planted import HOME

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
