"""Which small faults `benchmarks.mutation` makes: every one of the core rooms, and a random sample."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "graph": ("tests/graph", "tests/rewrite", "tests/quantize"),
    "memory": ("tests/memory",),
    "program": ("tests/program", "tests/quantize"),
    "quantize": ("tests/quantize", "tests/program"),
    "rewrite": ("tests/rewrite", "tests/recipe"),
    "verify": ("tests/verify", "tests/quantize", "tests/report"),
}
"""The tests that are responsible for each room of `nnkit/`."""
ALL_ROOMS = ("tests/test_frozen_dataclasses.py",)
"""Tests that hold something of every room."""

_GENERATED = ("kernels_numba.py",)  # runs with the extra `solver` only


@dataclass(frozen=True)
class Mutant:
    """One change: the file below the root, cosmic-ray's operator, which of its places, and where that is."""

    room: str
    path: str
    operator: str
    occurrence: int
    line: int
    column: int


def mutants_of(room: str) -> list[Mutant]:
    """Every mutant of the room's files, those of annotations left out."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [(name, get_operator(name)) for name in operator_names()]
    plain = [(name, kind()) for name, kind in operators if not kind.arguments()]
    mutants = []
    for path in sorted((ROOT / "nnkit" / room).rglob("*.py")):
        if path.name in _GENERATED:
            continue
        source = path.read_text()
        silent = _lines_not_executed(source)
        nodes = list(ast_nodes(get_ast(source)))
        for name, operator in plain:
            places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            mutants += [
                Mutant(room, str(path.relative_to(ROOT)), name, occurrence, *start)
                for occurrence, start in enumerate(places)
                if not any(begin <= start < end for begin, end in silent)
            ]
    return mutants


def sampled(mutants: Sequence[Mutant], count: int, chance: random.Random) -> list[Mutant]:
    """One mutant at each of `count` places: a place with many possible changes is not likelier than another."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for mutant in mutants:
        places.setdefault((mutant.path, mutant.line, mutant.column), []).append(mutant)
    drawn = chance.sample(sorted(places), min(count, len(places)))
    return [chance.choice(places[place]) for place in drawn]


def _lines_not_executed(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Spans (line, column) of annotations and type aliases."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
            if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation):
                parts.append(node.value)
        for part in parts:
            if part is not None:
                end = (part.end_lineno or part.lineno, part.end_col_offset or 0)
                spans.append(((part.lineno, part.col_offset), end))
    return spans
