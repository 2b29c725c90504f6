"""Names and docstrings say what a thing is: no variable is called `found`, no docstring starts in mid-sentence."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for room in ("nnkit", "targets") for path in (ROOT / room).rglob("*.py"))


def complaints(source: str) -> list[tuple[int, str]]:
    """Line and reason of every name that says nothing and of every docstring without a subject."""
    wrong = []
    nodes = list(ast.walk(ast.parse(source)))
    fields = [node.target for node in nodes if isinstance(node, ast.AnnAssign) and node.value is None]
    for node in nodes:
        named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields
        if named and node.id == "found":
            wrong.append((node.lineno, "a variable named `found`: name what it holds"))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.startswith("Of "):
                wrong.append((node.lineno, "a docstring that starts with `Of`: say what it is"))
    return wrong


def test_names_and_docstrings_are_plain():
    assert SOURCES
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {reason}"
        for path in SOURCES
        for line, reason in complaints(path.read_text())
    ]
    assert wrong == []


def test_both_are_noticed():
    source = 'def f():\n    """Of all."""\n    found = 1\n    return found\n'
    assert [line for line, _ in complaints(source)] == [2, 3]
