"""The README's table of configuration keys, made from ``duet_trio/config.py``.

``python -m tools.config_table`` checks that the README has it, ``--write`` puts it there. Names,
types and defaults come from the classes, each description from the comment behind its key: a key
without one is a finding, and so is a table that has fallen behind.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.findings import Finding, run_check

SOURCE = "duet_trio/config.py"
README = "README.md"
BEGIN, END = "<!-- configuration: begin -->", "<!-- configuration: end -->"
NAMES = {
    "str": "text", "int": "whole number", "float": "number", "bool": "true or false",
    "list[str]": "list of texts", "Port": "0 to 65535", "Positive": "number above 0",
    "NotNegative": "number, 0 or more", "Count": "whole number, 1 or more",
    "Share": "number from 0 to 1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one section, as the README shows it."""

    name: str
    kind: str
    default: str
    help: str
    line: int


@dataclass(frozen=True, slots=True)
class SectionTable:
    """One section with its keys; ``boards`` is named ``boards.<mac>``."""

    name: str
    help: str
    keys: tuple[Key, ...]


def check(root: Path) -> Iterator[Finding]:
    """Yield keys without a description, and the README's table if it is not the current one."""
    sections = read(root / SOURCE)
    for section in sections:
        for key in section.keys:
            if not key.help:
                yield Finding(SOURCE, key.line, f"{section.name}.{key.name} has no comment")
    text = (root / README).read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        yield Finding(README, 1, f"no place for the configuration ({BEGIN} … {END})")
    elif _placed(text, table(sections)) != text:
        line = text[: text.index(BEGIN)].count("\n") + 1
        yield Finding(README, line, "out of date; run 'python -m tools.config_table --write'")


def read(path: Path) -> list[SectionTable]:
    """The sections of ``Config`` in their order."""
    source = path.read_text(encoding="utf-8")
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    classes = {n.name: n for n in ast.parse(source).body if isinstance(n, ast.ClassDef)}
    sections = []
    for field in _fields(classes["Config"]):
        kind = ast.unparse(field.annotation)
        found = re.search(r"\w+Section", kind)
        if found is None:
            raise ValueError(f"{path}:{field.lineno}: Config holds sections only, not {kind}")
        name = _name(field) + (".<mac>" if kind.startswith("dict") else "")
        body = classes[found[0]]
        keys = tuple(_key(entry, comments) for entry in _fields(body))
        sections.append(SectionTable(name, ast.get_docstring(body) or "", keys))
    return sections


def table(sections: list[SectionTable]) -> str:
    """Markdown: one table per section."""
    lines: list[str] = []
    for section in sections:
        lines += [f"**`[{section.name}]`** {section.help}", ""]
        lines += ["| key | value | default | what it does |", "|---|---|---|---|"]
        for key in section.keys:
            cells = (f"`{key.name}`", key.kind, f"`{key.default}`", key.help)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def write(root: Path) -> None:
    """Put the current table into the README."""
    path = root / README
    text = path.read_text(encoding="utf-8")
    path.write_text(_placed(text, table(read(root / SOURCE))), encoding="utf-8")


def _placed(text: str, content: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def _fields(body: ast.ClassDef) -> list[ast.AnnAssign]:
    return [node for node in body.body if isinstance(node, ast.AnnAssign)]


def _name(field: ast.AnnAssign) -> str:
    return ast.unparse(field.target)


def _key(field: ast.AnnAssign, comments: dict[int, str]) -> Key:
    lines = range(field.lineno, (field.end_lineno or field.lineno) + 1)
    text = " ".join(comments[line] for line in lines if line in comments)
    return Key(_name(field), _kind(field.annotation), _default(field.value), text, field.lineno)


def _kind(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    bounds = re.fullmatch(r"Annotated\[int, Meta\(ge=(\d+), le=(\d+)\)\]", text)
    if bounds:
        return f"{bounds[1]} to {bounds[2]}"
    if text.startswith("Literal["):
        choices: list[str] = ast.literal_eval(text.removeprefix("Literal"))
        return " or ".join(f"`{choice}`" for choice in choices)
    return NAMES.get(text, text)


def _default(value: ast.expr | None) -> str:
    """The default as TOML writes it."""
    if isinstance(value, ast.Call):  # field(default_factory=lambda: …)
        value = next(word.value for word in value.keywords if word.arg == "default_factory")
        value = value.body if isinstance(value, ast.Lambda) else value
    if value is None:
        return "(must be given)"
    return json.dumps(ast.literal_eval(value), ensure_ascii=False)


def main() -> int:
    """Check, or with ``--write`` mend."""
    if "--write" in sys.argv[1:]:
        write(Path.cwd())
        return 0
    return run_check(check, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
