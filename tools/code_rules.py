"""Rules that no linter has: ``python -m tools.code_rules``.

* A broad ``except`` (bare, ``Exception``, ``BaseException``, also in ``contextlib.suppress``) is
  allowed only at the supervision borders listed here: places whose whole purpose is to end one
  thing and keep the rest alive. Everywhere else it would hide a defect. One that tidies up and
  ends with a plain ``raise`` hides nothing.
* No ``hasattr``: what an object is must be known from its type.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.findings import Finding, python_files, relative, run_check

#: File → functions (qualified by class) that are supervision borders.
BORDERS: dict[str, set[str]] = {
    # An answer's own fault ends only that answer.
    "duet_trio/session/conversation.py": {"Conversation._run_answer"},
    # One connection's defect must not reach another's.
    "duet_trio/server/boards.py": {"Boards.serve"},
    "duet_trio/server/http_server.py": {"HttpServer.serve"},
    # The search for faults: whatever a scenario raises is what it looks for.
    "duet_trio/lab/run.py": {"run_scenario"},
    # The worker's job loop: whatever an engine raises is told to the parent.
    "duet_trio/engines/job_runner.py": {"RunningJob._final"},
    "duet_trio/engines/worker_loop.py": {"_run_adapter"},
    # A value that cannot be written costs its event's fields, not the trace.
    "duet_trio/trace/recorder.py": {"FileRecorder._encode"},
    # onnxruntime's errors share no base but Exception.
    "duet_trio/engines/silero.py": {"SileroDetector.__init__"},
}

BROAD = {"Exception", "BaseException"}


def check(root: Path) -> Iterator[Finding]:
    """Yield every broad ``except`` outside the borders and every ``hasattr``."""
    for path in python_files(root):
        name = relative(root, path)
        tree = ast.parse(path.read_text(encoding="utf-8"), name)
        for node, function in _walk(tree, ""):
            if isinstance(node, ast.ExceptHandler):
                border = function in BORDERS.get(name, set())
                if _is_broad(node.type) and not border and not _passes_on(node):
                    where = function or "module level"
                    yield Finding(name, node.lineno, f"broad except in {where}: {ADVICE}")
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func).rpartition(".")[2]
                if called == "suppress" and any(map(_is_broad, node.args)):
                    yield Finding(name, node.lineno, "suppress() of everything: name the errors")
                if called == "hasattr":
                    yield Finding(name, node.lineno, "hasattr: give the object a type instead")


ADVICE = "name the errors, or list a supervision border in tools/code_rules.py"


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """Every node with the qualified name of the function or class around it."""
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{function}.{child.name}" if function else child.name
        yield child, function
        yield from _walk(child, inside)


def _passes_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    ways_out = (ast.Return, ast.Break, ast.Continue)
    leaves = any(isinstance(node, ways_out) for node in ast.walk(handler))
    return isinstance(last, ast.Raise) and last.exc is None and not leaves


def _is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(ast.unparse(one).rpartition(".")[2] in BROAD for one in kinds)


if __name__ == "__main__":
    sys.exit(run_check(check, "Check broad excepts and hasattr."))
