"""Who may import whom: ``python -m tools.layering``.

A module of ``duet_trio`` imports from its own package and from lower layers, nothing else. The
table below is the whole rule; a package that is not in it is a finding, so none can slip past.
Imports inside functions count, and so do names of our modules in string constants, which is
how a module is imported late (``importlib.import_module``) or started (``python -m``).
"""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.findings import Finding, python_files, relative, run_check

PACKAGE = "duet_trio"
OUR_MODULE = re.compile(rf"{PACKAGE}(\.\w+)+")

#: Module or package below `PACKAGE` → its layer; the longest name that fits counts. Modules
#: named ``command`` belong to the command line (`TOP`), wherever they lie.
LAYERS = {
    "": 0, "errors": 0, "config": 0, "events": 0, "filelock": 0,
    "wire": 1, "speech": 1, "trace": 1, "opus": 1,
    "engines": 2,
    "session": 3, "faults": 3,
    "server": 4, "board": 4,
    "cli": 5, "__main__": 5, "demo": 5, "bench": 5, "doctor": 5, "models": 5, "voices": 5,
    "lab": 5, "memory_plan": 5,
    # Where model files lie is asked by the adapters; fetching them is for the command line.
    "models.paths": 1, "models.catalogue": 1, "models.model_set": 1,
    # Commands that are no ``command`` module.
    "server.boards_command": 5, "server.say": 5,
}  # fmt: skip
TOP = 5

#: Within a layer packages do not see each other, except in these two,
OPEN_LAYERS = {0, TOP}
#: and except for these: a trace is replayed and judged with the rules that made it, and faults
#: stand in for what a session is given (a session never knows).
SIDEWAYS = {("trace", "speech"), ("faults", "session")}

#: Package → the only modules of lower layers that it may use (with what lies below them). The
#: simulated board is the other end of the wire: code that it shared would share its faults.
ONLY = {"board": ("", "errors", "config", "events", "wire", "opus")}
#: Package → what it may not use although it is lower. Sessions know what an engine is, not
#: which one, nor that it may be a script.
NOT_USED = {"session": ("engines.adapters", "engines.scripted", "engines.worker")}

#: Imported by each other and by the programs of worker processes only: they bring engines into
#: the process.
ADAPTERS = "duet_trio.engines.adapters"
WORKERS = {
    "duet_trio.engines.worker",
    "duet_trio.engines.native.maker",
    "duet_trio.engines.containers",
}
ENGINE_LIBRARIES = {
    "av", "ctranslate2", "faster_whisper", "gruut", "llama_cpp", "onnxruntime", "piper", "torch",
    "transformers",
}  # fmt: skip
#: The one exception: Silero's model runs in the main process, one thread, 0.1 ms a chunk.
LIBRARY_EXCEPTIONS = {"duet_trio.engines.silero": {"onnxruntime"}}

#: Pure packages: no event loop, no clock, no logging, no sockets.
PURE = ("wire", "speech")
NOT_PURE = {"datetime", "logging", "socket", "threading", "time", "trio", "trio_websocket"}
#: Another event loop beside trio.
NEVER = {"anyio", "asyncio"}
#: The worker process starts in 40 ms because it has none of these, not even through others.
NOT_IN_WORKER = {"hypercorn", "quart", "quart_trio", "trio", "trio_websocket"}


@dataclass(frozen=True, slots=True)
class Import:
    """One import: what (a dotted name), where, and whether it happens when the file is loaded."""

    name: str
    line: int
    at_load: bool


def check(root: Path) -> Iterator[Finding]:
    """Yield everything that the rules above forbid."""
    graph: dict[str, list[Import]] = {}
    paths: dict[str, str] = {}
    for path in python_files(root, PACKAGE):
        module = module_name(root, path)
        paths[module] = relative(root, path)
        graph[module] = list(imports_of(path, module))
    for module, imports in graph.items():
        for line, message in _judge(module, imports, graph.keys()):
            yield Finding(paths[module], line, message)
    yield from _worker_closure(graph, paths)


def module_name(root: Path, path: Path) -> str:
    """``duet_trio/wire/ota.py`` → ``duet_trio.wire.ota``; a package is named as itself."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, module: str) -> Iterator[Import]:
    """All imports of a file, relative ones resolved, ``from a import b`` as ``a.b``."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node, at_load in _walk(tree, at_load=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, at_load)
        elif isinstance(node, ast.Constant) and OUR_MODULE.fullmatch(str(node.value)):
            yield Import(str(node.value), node.lineno, at_load=False)


def _walk(node: ast.AST, *, at_load: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it runs when the file is loaded (no function, no TYPE_CHECKING)."""
    for child in ast.iter_child_nodes(node):
        inside = at_load
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = False
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inside = False
        yield child, inside
        yield from _walk(child, at_load=inside)


def _head(module: str) -> str:
    """``duet_trio.wire.ota`` → ``wire``; the package itself → the empty string."""
    return module.split(".")[1] if "." in module else ""


def layer_of(module: str) -> int | None:
    """The layer of one of our modules; None if the table does not know it."""
    if module.split(".")[2:] and module.rpartition(".")[2] == "command":
        return TOP
    parts = module.split(".")[1:]
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1)) if parts else [""]
    return next((LAYERS[name] for name in names if name in LAYERS), None)


def _judge(
    module: str, imports: Iterable[Import], known: Iterable[str]
) -> Iterator[tuple[int, str]]:
    if layer_of(module) is None:
        yield 1, f"{module} has no layer; give it one in tools/layering.py"
        return
    for item in imports:
        if item.name.split(".")[0] == PACKAGE:
            reason = _internal(module, _existing(item.name, known))
        else:
            reason = _external(module, item.name.split(".")[0])
        if reason:
            yield item.line, reason


def _existing(name: str, known: Iterable[str]) -> str:
    """The module in ``a.b.c`` where c may be a class or function."""
    return name if name in known or "." not in name else name.rpartition(".")[0]


def _internal(module: str, target: str) -> str | None:
    here, there = layer_of(module), layer_of(target)
    if there is None or here is None:
        return f"imports {target}, which has no layer"
    if _is_in(target, ADAPTERS) and module not in WORKERS and not _is_in(module, ADAPTERS):
        return f"imports {target}: adapters run in worker processes only"
    if _head(module) == _head(target) and there <= here:
        return None
    if there > here:
        return f"layer {here} imports {target} of layer {there}: imports go downward only"
    sideways = here in OPEN_LAYERS or (_head(module), _head(target)) in SIDEWAYS
    if there == here and not sideways:
        return f"imports {target} of its own layer {here}: imports go downward only"
    only = ONLY.get(_head(module)) if here != TOP else None
    if only is not None and not any(_is_in(target, _full(name)) for name in only):
        return f"imports {target}: {_head(module)}/ may use only {', '.join(filter(None, only))}"
    for name in NOT_USED.get(_head(module), ()):
        if here != TOP and _is_in(target, _full(name)):
            return f"imports {target}: {_head(module)}/ may not know it"
    return None


def _external(module: str, library: str) -> str | None:
    if library in NEVER:
        return f"imports {library}: this project runs on trio alone"
    allowed = _is_in(module, ADAPTERS) or library in LIBRARY_EXCEPTIONS.get(module, set())
    if library in ENGINE_LIBRARIES and not allowed:
        return f"imports {library}: engine libraries belong into {ADAPTERS}"
    if _head(module) in PURE and layer_of(module) != TOP and library in NOT_PURE:
        return f"imports {library}: {_head(module)}/ is pure (no event loop, clock or logging)"
    return None


def _full(name: str) -> str:
    return f"{PACKAGE}.{name}" if name else PACKAGE


def _is_in(module: str, package: str) -> bool:
    if package == PACKAGE:  # the bare package means its __init__ alone
        return module == PACKAGE
    return module == package or module.startswith(package + ".")


def _worker_closure(graph: dict[str, list[Import]], paths: dict[str, str]) -> Iterator[Finding]:
    """Follow what is loaded with the worker and its adapters, through our own modules."""
    starts = [name for name in graph if name in WORKERS or _is_in(name, ADAPTERS)]
    seen = set(starts)
    queue = deque(starts)
    while queue:
        module = queue.popleft()
        for item in graph[module]:
            if not item.at_load:
                continue
            if item.name.split(".")[0] in NOT_IN_WORKER:
                message = f"imports {item.name.split('.')[0]}, and the worker process loads this"
                yield Finding(paths[module], item.line, message)
            parts = _existing(item.name, graph).split(".")
            for name in (".".join(parts[:n]) for n in range(1, len(parts) + 1)):
                if name in graph and name not in seen:
                    seen.add(name)
                    queue.append(name)


if __name__ == "__main__":
    sys.exit(run_check(check, "Check which module imports which."))
