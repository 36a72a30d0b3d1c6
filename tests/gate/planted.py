"""A small tree that passes every check, to plant one fault in."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.config_table import BEGIN, END, write

HOME = Path(__file__).resolve().parent.parent.parent


def clean_tree(root: Path) -> Path:
    """Make the tree below ``root``: our settings and configuration, one module per layer."""
    shutil.copy(HOME / "pyproject.toml", root)
    put(root, "README.md", f"# A tree\n\n{BEGIN}\n{END}\n")
    for name in ("__init__", "errors", "config", "events"):
        put(root, f"duet_trio/{name}.py", (HOME / f"duet_trio/{name}.py").read_text("utf-8"))
    for package in ("wire", "speech", "engines", "session", "server", "board"):
        put(root, f"duet_trio/{package}/__init__.py", f'"""The package {package}."""\n')
    put(root, "duet_trio/wire/ota.py", module("from duet_trio.errors import PeerError"))
    put(
        root, "duet_trio/session/answer.py", module("import trio", "from duet_trio.wire import ota")
    )
    put(root, "cffi_build.py", '"""Nothing to build."""\n')
    put(root, "tools/__init__.py", '"""No tools."""\n')
    put(root, "tests/test_nothing.py", "def test_nothing() -> None:\n    assert 1 + 1 == 2\n")
    write(root)
    return root


def module(*imports: str) -> str:
    """A module with these imports, each used."""
    names = [line.rpartition(" ")[2].partition(".")[0] for line in imports]
    external = [line for line in imports if "duet_trio" not in line]
    own = [line for line in imports if "duet_trio" in line]
    blocks = ["\n".join(block) for block in (external, own) if block]
    used = f"USED = [{', '.join(names)}]\n" if names else ""
    return '"""A module."""\n\n' + "\n\n".join([*blocks, used])


def put(root: Path, name: str, text: str) -> None:
    """Write one file of the tree."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
