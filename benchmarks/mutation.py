"""How many small faults in the core rooms the tests notice: mutation testing on a random sample.

    python -m benchmarks.mutation [--count 100] [--seed 1] [--rooms memory,verify] [--jobs 2]
                                  [--timeout-s 1800] [--json]

Every mutant is one change of one operator, number, comparison or branch of a file, made by cosmic-ray (extra
`mutation`) in a private copy of the repository; the tests of the file's room run until the first one fails, those
that name the file's module before the others. Changes of type annotations are left out, since nothing executes them.
A survivor is a place that no test holds to its word, or a change that keeps the behaviour: docs/development.md tells
of each that is known.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from benchmarks.table import Row, show

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "graph": ("tests/graph", "tests/rewrite", "tests/quantize"),
    "memory": ("tests/memory",),
    "program": ("tests/program", "tests/quantize"),
    "quantize": ("tests/quantize",),
    "rewrite": ("tests/rewrite", "tests/recipe"),
    "verify": ("tests/verify", "tests/quantize", "tests/report"),
}
"""The tests that are responsible for each room of `nnkit/`."""
_ALL_ROOMS = ("tests/test_frozen_dataclasses.py",)
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


def judge(mutant: Mutant, copy: Path, timeout_s: float) -> Row:
    """Make the mutant in `copy`, run its room's tests, and restore the file."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    file = copy / mutant.path
    source = file.read_text()
    changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    file.write_text(changed)
    try:
        survived = _tests_pass(copy, _nearest_first(copy, mutant), timeout_s)
    finally:
        file.write_text(source)
    change = [
        line.strip()
        for line in difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    outcome = "survived" if survived else "killed"
    return {"outcome": outcome, "place": f"{mutant.path}:{mutant.line}", "change": " -> ".join(change)}


def _nearest_first(copy: Path, mutant: Mutant) -> list[str]:
    """The files of the room's tests; those that name the mutant's module come first."""
    module = mutant.path.removesuffix(".py").replace("/", ".")
    files = [copy / name for name in _ALL_ROOMS]
    files += [file for room in ROOMS[mutant.room] for file in sorted((copy / room).rglob("test_*.py"))]
    near = [file for file in files if module in file.read_text()]
    return [str(file.relative_to(copy)) for file in (*near, *(file for file in files if file not in near))]


def _tests_pass(copy: Path, paths: Sequence[str], timeout_s: float) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'targets'}", "OMP_NUM_THREADS": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as tester:
        try:
            return tester.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:  # a loop that no longer ends is noticed, too
            tester.kill()
            return False


def copied_repository(folder: Path) -> Path:
    """The repository's own files in a new folder."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def judged(mutants: Sequence[Mutant], jobs: int, timeout_s: float, say: Callable[[str], None]) -> list[Row]:
    """A row per mutant, in order; each job has a copy of the repository of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for index in range(jobs):
            copies.put(copied_repository(Path(folder) / str(index)))
        for room in {mutant.room for mutant in mutants}:
            copy = copies.get()
            if not _tests_pass(copy, ROOMS[room], timeout_s):
                sys.exit(f"error: the tests of {room} fail without any mutant; mend them first")
            copies.put(copy)

        def one(mutant: Mutant) -> Row:
            copy = copies.get()
            try:
                row = judge(mutant, copy, timeout_s)
            finally:
                copies.put(copy)
            say(f"{row['outcome']}: {row['place']}: {row['change']}")
            return row

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout-s", type=float, default=1800.0, help="a mutant whose tests take longer is killed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    everything = [mutant for room in options.rooms.split(",") for mutant in mutants_of(room)]
    chosen = sampled(everything, options.count, random.Random(options.seed))
    rows = judged(chosen, options.jobs, options.timeout_s, partial(print, file=sys.stderr, flush=True))
    survivors = [row for row in rows if row["outcome"] == "survived"]
    title = f"{len(rows)} mutants: {len(rows) - len(survivors)} killed, {len(survivors)} survived"
    show(rows if options.json else survivors, as_json=options.json, title=title)


if __name__ == "__main__":
    main()
