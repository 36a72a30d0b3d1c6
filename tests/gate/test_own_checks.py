"""Each rule of our own checks, shown by a tree that breaks just that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.planted import HOME, clean_tree, module, put
from tools import code_rules, config_table, layering, text_rules
from tools.findings import Check, Finding

OWN_CHECKS: tuple[Check, ...] = (
    layering.check,
    text_rules.check,
    code_rules.check,
    config_table.check,
)

# (file, its text, words of the one finding)
LAYERING = {
    "upward": (
        "duet_trio/wire/ota.py",
        module("from duet_trio.session import answer"),
        "layer 1 imports duet_trio.session.answer of layer 3",
    ),
    "upward, relative and inside a function": (
        "duet_trio/wire/ota.py",
        '"""M."""\n\n\ndef f() -> object:\n    from ..session import answer\n\n    return answer\n',
        "layer 1 imports duet_trio.session.answer of layer 3",
    ),
    "upward, by name": (
        "duet_trio/wire/ota.py",
        '"""M."""\n\nLATE = "duet_trio.session.answer"\n',
        "layer 1 imports duet_trio.session.answer of layer 3",
    ),
    "sideways": (
        "duet_trio/board/client.py",
        module("from duet_trio import server"),
        "imports duet_trio.server of its own layer 4",
    ),
    "board and more than the wire": (
        "duet_trio/board/client.py",
        module("from duet_trio import speech"),
        "board/ may use only",
    ),
    "session and an adapter": (
        "duet_trio/session/answer.py",
        module("from duet_trio.engines.adapters import llama"),
        "adapters run in worker processes only",
    ),
    "session and the scripted engines": (
        "duet_trio/session/answer.py",
        module("from duet_trio.engines.scripted import Script"),
        "session/ may not know it",
    ),
    "session and faults": (
        "duet_trio/session/answer.py",
        module("from duet_trio.faults import plan"),
        "of its own layer 3",
    ),
    "a package without a layer": (
        "duet_trio/extra/__init__.py",
        '"""E."""\n',
        "duet_trio.extra has no layer",
    ),
    "a module without a layer": (
        "duet_trio/extra.py",
        '"""E."""\n',
        "duet_trio.extra has no layer",
    ),
    "an engine library outside an adapter": (
        "duet_trio/session/answer.py",
        module("import llama_cpp"),
        "engine libraries belong into",
    ),
    "an event loop in the wire": (
        "duet_trio/wire/ota.py",
        module("import trio"),
        "wire/ is pure",
    ),
    "a clock in speech": (
        "duet_trio/speech/pace.py",
        module("from time import monotonic"),
        "speech/ is pure",
    ),
    "another event loop": (
        "duet_trio/server/app.py",
        module("import asyncio"),
        "runs on trio alone",
    ),
    "trio in the worker process, through another module": (
        "duet_trio/engines/worker.py",
        module("from duet_trio.engines import client"),
        "the worker process loads this",
    ),
}

CODE = {
    "bare except": ("try:\n    pass\nexcept:\n    pass\n", "broad except in module level"),
    "except Exception": (
        "def f() -> None:\n    try:\n        pass\n    except Exception:\n        pass\n",
        "broad except in f",
    ),
    "except* among others": (
        "try:\n    pass\nexcept* (OSError, builtins.BaseException):\n    pass\n",
        "broad except in module level",
    ),
    "a way past the raise": (
        "def f() -> None:\n    try:\n        pass\n    except BaseException as error:\n"
        "        if error.args:\n            return\n        raise\n",
        "broad except in f",
    ),
    "suppress everything": ("with contextlib.suppress(Exception):\n    pass\n", "suppress()"),
    "hasattr": ('print(hasattr(1, "real"))\n', "hasattr"),
}

TEXT = {
    "registry": ("See https://" + "py" + "pi.org/project/trio.\n", "package registry"),
    "another registry": ("https://registry.npm" + "js.org\n", "package registry"),
    "a home": ('PATH = "' + "/ho" + 'me/someone/models"\n', "one machine only"),
    "a work folder": ("cd " + "/wo" + "rk/main\n", "one machine only"),
    "a Windows home": ("C:" + "\\Us" + "ers\\someone\n", "one machine only"),
    "unfinished": ("# TO" + "DO: later\n", "unfinished work"),
}


def findings(root: Path) -> list[Finding]:
    """What all of our own checks say about a tree."""
    return sorted({finding for check in OWN_CHECKS for finding in check(root)})


def test_clean_tree_has_no_finding(tmp_path: Path) -> None:
    assert findings(clean_tree(tmp_path)) == []


@pytest.mark.parametrize("case", LAYERING)
def test_layering(case: str, tmp_path: Path) -> None:
    clean_tree(tmp_path)
    put(tmp_path, "duet_trio/engines/adapters/llama.py", module("import llama_cpp"))
    put(tmp_path, "duet_trio/engines/scripted.py", '"""S."""\n\n\nclass Script:\n    """S."""\n')
    put(tmp_path, "duet_trio/engines/client.py", module("import trio"))
    put(tmp_path, "duet_trio/faults/plan.py", module())
    assert findings(tmp_path) == []
    name, text, words = LAYERING[case]
    put(tmp_path, name, text)
    [finding] = findings(tmp_path)
    assert words in finding.message


def test_commands_may_use_what_they_start(tmp_path: Path) -> None:
    clean_tree(tmp_path)
    put(
        tmp_path, "duet_trio/wire/command.py", module("import trio", "from duet_trio import server")
    )
    assert findings(tmp_path) == []


@pytest.mark.parametrize("case", CODE)
def test_code_rules(case: str, tmp_path: Path) -> None:
    text, words = CODE[case]
    put(clean_tree(tmp_path), "duet_trio/speech/bad.py", text)
    [finding] = findings(tmp_path)
    assert words in finding.message
    assert finding.path == "duet_trio/speech/bad.py"


def test_tidying_up_on_the_way_out_is_allowed(tmp_path: Path) -> None:
    text = "try:\n    pass\nexcept BaseException:\n    print()\n    raise\n"
    put(clean_tree(tmp_path), "duet_trio/speech/good.py", text)
    assert findings(tmp_path) == []


def test_borders_are_functions_that_exist() -> None:
    for name, functions in code_rules.BORDERS.items():
        text = (HOME / name).read_text(encoding="utf-8")
        for function in functions:
            assert f"def {function.rpartition('.')[2]}(" in text, f"{name}: {function}"


@pytest.mark.parametrize("case", TEXT)
def test_text_rules(case: str, tmp_path: Path) -> None:
    text, words = TEXT[case]
    put(clean_tree(tmp_path), "notes.txt", f"first line\n{text}")
    [finding] = findings(tmp_path)
    assert words in finding.message
    assert (finding.path, finding.line) == ("notes.txt", 2)


def test_addresses_and_relative_paths_are_no_machine_paths(tmp_path: Path) -> None:
    folder = "work"
    text = f"http://ADDRESS:8003/{folder}/x, a/{folder}/b, ~/{folder}/c, duet_trio/home/x/y\n"
    put(clean_tree(tmp_path), "notes.txt", text)
    assert findings(tmp_path) == []


def test_key_without_description(tmp_path: Path) -> None:
    config = clean_tree(tmp_path) / "duet_trio/config.py"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('    path: str = ""  #', '    path: str = ""\n    #'), "utf-8")
    config_table.write(tmp_path)
    [finding] = findings(tmp_path)
    assert finding.message == "trace.path has no comment"


def test_table_that_has_fallen_behind(tmp_path: Path) -> None:
    config = clean_tree(tmp_path) / "duet_trio/config.py"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("websocket_port: Port = 8000", "websocket_port: Port = 8001"))
    [finding] = findings(tmp_path)
    assert "out of date" in finding.message
    config_table.write(tmp_path)
    assert findings(tmp_path) == []


def test_readme_without_a_place_for_the_table(tmp_path: Path) -> None:
    put(clean_tree(tmp_path), "README.md", "# Nothing\n")
    [finding] = findings(tmp_path)
    assert "no place for the configuration" in finding.message
