"""The tests that judge a mutant: nearest first, and the tests' own faults are not taken for the mutant's."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import pytest

from benchmarks import mutation
from benchmarks.mutants import Mutant

MUTANT = Mutant("memory", "nnkit/memory/sizes.py", "core/NumberReplacer", 0, 2, 11)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of one module and three files of tests."""
    files = {
        "nnkit/memory/sizes.py": "def rounded(size):\n    return size + 1\n",
        "tests/test_frozen_dataclasses.py": "def test_all(): pass\n",
        "tests/memory/test_a_far.py": "def test_far(): pass\n",
        "tests/memory/test_b_function.py": "from x import rounded\n",
        "tests/memory/test_c_module.py": "import nnkit.memory.sizes\nnnkit.memory.sizes.rounded\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_tests_that_name_the_place_come_first(copy: Path) -> None:
    near, others = mutation.in_order_of_nearness(copy, MUTANT)
    assert near == ["tests/memory/test_c_module.py", "tests/memory/test_b_function.py"]
    assert others == ["tests/test_frozen_dataclasses.py", "tests/memory/test_a_far.py"]


@pytest.mark.parametrize(
    ("alone", "near", "outcome"),
    [
        ("", mutation.TestRun(3, "test_c", True), ("killed", 3, "test_c")),
        ("test_c", mutation.TestRun(3, "test_c", True), ("survived", 10, "")),  # it fails without the mutant, too
        ("", mutation.TestRun(4, "", False), ("undecided", 4, "")),
        ("", mutation.TestRun(4, "", True), ("survived", 9, "")),
    ],
)
def test_outcomes(
    copy: Path, monkeypatch: pytest.MonkeyPatch, alone: str, near: mutation.TestRun, outcome: tuple[str, int, str]
) -> None:
    def run_tests(copy: Path, paths: list[str], without: list[str], seconds: float) -> mutation.TestRun:
        if "changed" not in (copy / MUTANT.path).read_text():
            return mutation.TestRun(0, alone, True)
        if paths[0].endswith("test_c_module.py") and not without:
            return near
        return mutation.TestRun(5, "", True)

    monkeypatch.setattr(mutation, "run_tests", run_tests)
    judge = mutation.Judge(SimpleQueue(), 1.0)
    assert judge._outcome(copy, MUTANT, "whole", "changed") == outcome
