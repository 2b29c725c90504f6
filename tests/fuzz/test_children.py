"""A job of the service among hostile files, and that a command which runs one of them is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fuzz import children
from fuzz.hostile import AVAILABLE, fill

if not AVAILABLE:
    pytest.skip("folders are watched on Linux", allow_module_level=True)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> children.Seeds:
    return children.seeds(tmp_path_factory.mktemp("children"))


def test_a_job_runs_nothing_of_what_was_sent(given: children.Seeds, tmp_path: Path) -> None:
    children.try_command(given, "job", ":", tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sys.path.insert(0, ''); import dask", "dask was imported"),
        ("import os, shutil; os.system(shutil.which('gcc', path=os.curdir))", "hostile/gcc"),
        ("open('.numba_config.yaml').close()", "hostile/.numba_config.yaml"),
        (
            "from importlib.metadata import distributions; [*distributions(path=['.'])][0].entry_points",
            "entry_points.txt",
        ),
        ("sys.exit(3)", "ended with code 3"),
    ],
)
def test_a_command_that_opens_a_hostile_file_or_fails_is_found(
    line: str, said: str, given: children.Seeds, tmp_path: Path
) -> None:
    (tmp_path / "start.py").write_text(f"import sys\ntry:\n    {line}\nexcept Exception:\n    pass\n")
    with pytest.raises(AssertionError, match=said):
        children.try_command(dataclasses.replace(given, scripts=tmp_path), "targets list", "", tmp_path / "place")


def test_files_are_drawn(tmp_path: Path) -> None:
    from random import Random

    fill(tmp_path, keep=0.5, chance=Random(1))
    assert 40 < len(list(tmp_path.iterdir())) < 90
