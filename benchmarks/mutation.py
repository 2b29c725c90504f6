"""How many small faults in the core rooms the tests notice: mutation testing on a random sample.

    python -m benchmarks.mutation [--count 100] [--seed 1] [--rooms memory,verify] [--jobs 2]
                                  [--mutant-seconds 300] [--session FILE] [--json]

Every mutant is one change of one operator, number, comparison or branch of a file, made by cosmic-ray (extra
`mutation`) in a private copy of the repository. The tests of the file's room run until the first one fails: those
that name the file's module, or the changed function, before the others. A test that fails is run without the mutant,
too: one that fails there says nothing and is left out. Changes of type annotations are left out, since nothing
executes them.

killed: a test failed. survived: all tests of the room passed; a place that no test holds to its word, or a change
that keeps the behaviour: docs/development.md tells of each that is known. undecided: the tests that ran in
`--mutant-seconds` of the processor passed, and there are more. not made: cosmic-ray could not make the change. With
`--session` each outcome is written down at once, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from benchmarks.mutants import ALL_ROOMS, ROOMS, ROOT, Mutant, mutants_of, sampled
from benchmarks.table import Row, show

_CLOCK = 40
"""By the clock the tests may take so many times as long as by the processor, for what waits instead of working."""
_PROCESS = "the tests' process"


@dataclass(frozen=True)
class TestRun:
    """What some tests said: how many passed, the first that failed (or ""), and whether all of them ran."""

    passed: int
    failed: str
    whole: bool


def run_tests(copy: Path, paths: Sequence[str], without: Sequence[str], seconds: float) -> TestRun:
    """The tests of `paths` but those of `without`, until one fails or `seconds` of the processor are over."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "benchmarks.mutation_watch",
    ]
    command += [f"--deselect={name}" for name in without]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "found.json"
        environment = os.environ | {
            "PYTHONPATH": f"{copy}:{copy / 'targets'}",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NNKIT_MUTANT_SECONDS": str(seconds),
            "NNKIT_MUTANT_FOUND": str(told),
        }
        tester = subprocess.Popen(
            [*command, *paths],
            cwd=copy,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            tester.wait(_CLOCK * seconds)
        except subprocess.TimeoutExpired:
            return TestRun(0, "", whole=False)
        finally:
            _end(tester)
        if not told.exists():  # the interpreter itself died, or imports no plugin
            return TestRun(0, _PROCESS, whole=True)
        found = json.loads(told.read_text())
        return TestRun(found["passed"], found["failed"], not found["over"])


def _end(tester: subprocess.Popen[bytes]) -> None:
    """The tests' process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(tester.pid, signal.SIGKILL)
    tester.wait()


def in_order_of_nearness(copy: Path, mutant: Mutant) -> tuple[list[str], list[str]]:
    """The files of the room's tests: those that name the changed module or function, nearest first; the others."""
    module = mutant.path.removesuffix(".py").replace("/", ".")
    function = _function_at((copy / mutant.path).read_text(), mutant.line)
    files = [copy / name for name in ALL_ROOMS]
    files += [file for room in ROOMS[mutant.room] for file in sorted((copy / room).rglob("test_*.py"))]
    near: dict[int, list[str]] = {}
    for file in files:
        text = file.read_text()
        marks = 2 * (module in text) + bool(function and function in text)
        near.setdefault(marks, []).append(str(file.relative_to(copy)))
    others = near.pop(0, [])
    return [name for marks in sorted(near, reverse=True) for name in near[marks]], others


def _function_at(source: str, line: int) -> str:
    """The name of the innermost function around a line; empty where there is none."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""


def copied_repository(folder: Path) -> Path:
    """The repository's own files in a new folder."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@dataclass
class Judge:
    """Mutants in copies of the repository, one a job; `broken`: tests that fail without any mutant."""

    copies: SimpleQueue[Path]
    seconds: float
    broken: set[str] = field(default_factory=set)
    _whole: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, mutant: Mutant) -> Row:
        """Make the mutant in a copy, run the tests of its room, and restore the file."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        copy = self.copies.get()
        file = copy / mutant.path
        source = file.read_text()
        place = f"{mutant.path}:{mutant.line}"
        try:
            changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
        except AttributeError:  # of an exception with a dotted name, which cosmic-ray cannot replace
            self.copies.put(copy)
            return {"outcome": "not made", "place": place, "change": mutant.operator, "passed": 0, "by": ""}
        try:
            outcome, passed, by = self._outcome(copy, mutant, source, changed)
        finally:
            file.write_text(source)
            self.copies.put(copy)
        change = [
            line.strip()
            for line in difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
            if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        return {"outcome": outcome, "place": place, "change": " -> ".join(change), "passed": passed, "by": by}

    def _outcome(self, copy: Path, mutant: Mutant, source: str, changed: str) -> tuple[str, int, str]:
        """The outcome, how many tests passed, and the test that failed."""
        file = copy / mutant.path
        passed, whole = 0, True
        for paths in in_order_of_nearness(copy, mutant):
            while paths:
                file.write_text(changed)
                run = run_tests(copy, paths, sorted(self.broken), self.seconds)
                if run.failed:
                    file.write_text(source)
                    if self._passes_alone(copy, run.failed):
                        return "killed", passed + run.passed, run.failed
                    continue
                passed, whole = passed + run.passed, run.whole
                break
            if not whole:
                break
        return ("survived" if whole else "undecided"), passed, ""

    def _passes_alone(self, copy: Path, test: str) -> bool:
        """Whether the test passes without a mutant; each is asked once."""
        with self._lock:
            if test in self._whole or test == _PROCESS:
                return True
            if test in self.broken:
                return False
        run = run_tests(copy, [test], [], self.seconds)
        with self._lock:
            (self.broken if run.failed else self._whole).add(test)
        return not run.failed


def _key(mutant: Mutant) -> str:
    """The mutant, and the text that it changes: another one once its file has changed."""
    digest = hashlib.sha256((ROOT / mutant.path).read_bytes()).hexdigest()[:16]
    return f"{mutant.path} {digest} {mutant.operator} {mutant.occurrence}"


def judged(mutants: Sequence[Mutant], jobs: int, seconds: float, session: Path | None) -> list[Row]:
    """A row per mutant, in order; rows of the session are not made again."""
    rows: dict[str, Row] = {}
    if session and session.exists():
        rows = {entry["key"]: entry["row"] for entry in map(json.loads, session.read_text().splitlines())}
    keys = {mutant: _key(mutant) for mutant in mutants}
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for index in range(jobs):
            copies.put(copied_repository(Path(folder) / str(index)))
        judge = Judge(copies, seconds)
        copy = copies.get()
        if (alone := run_tests(copy, ALL_ROOMS, [], seconds)).failed or not alone.whole:
            sys.exit(f"error: {alone.failed or ALL_ROOMS} without any mutant; mend that first")
        copies.put(copy)

        def one(mutant: Mutant) -> None:
            row = judge.judge(mutant)
            with lock:
                rows[keys[mutant]] = row
                done = sum(key in rows for key in keys.values())
                print(f"{done}/{len(mutants)} {_said(row)}", file=sys.stderr, flush=True)
                if session:
                    with session.open("a") as file:
                        file.write(json.dumps({"key": keys[mutant], "row": row}) + "\n")

        try:
            list(pool.map(one, [mutant for mutant in mutants if keys[mutant] not in rows]))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for name in sorted(judge.broken):
        print(f"left out, since it fails without any mutant: {name}", file=sys.stderr)
    return [rows[keys[mutant]] for mutant in mutants]


def _said(row: Row) -> str:
    by = f", by {row['by']}" if row["by"] else f", {row['passed']} tests passed"
    return f"{row['outcome']}: {row['place']}: {row['change']}{by}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--mutant-seconds",
        type=float,
        default=300.0,
        help="of the processor, for the near tests and for the others (300)",
    )
    parser.add_argument("--session", type=Path, metavar="FILE", help="remember what was judged, and go on from there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    everything = [mutant for room in options.rooms.split(",") for mutant in mutants_of(room)]
    chosen = sampled(everything, options.count, random.Random(options.seed))
    rows = judged(chosen, options.jobs, options.mutant_seconds, options.session)
    left = [row for row in rows if row["outcome"] != "killed"]
    survived = sum(row["outcome"] == "survived" for row in rows)
    title = (
        f"{len(rows)} mutants: {len(rows) - len(left)} killed, {survived} survived, {len(left) - survived} undecided"
    )
    show(rows if options.json else left, as_json=options.json, title=title)


if __name__ == "__main__":
    main()
