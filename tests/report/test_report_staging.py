"""The output folder: whatever happens to a run, the last good build stays, or comes back."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nnkit import owned_folder
from nnkit.errors import ExitCode, UserFileError
from nnkit.report.staging import staged_build


def build(destination: Path, content: str, *, failed: bool = False) -> Path:
    with staged_build(destination) as staged:
        (staged.folder / "report.json").write_text(content)
        return staged.commit(failed=failed)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    """A destination with a good build in it."""
    place = tmp_path / "out" / "net" / "gap8"
    build(place, "good")
    return place


def holds(destination: Path) -> str:
    return (destination / "report.json").read_text()


def test_a_first_build_makes_the_folders(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "gap8"
    assert build(place, "first") == place
    assert holds(place) == "first"
    assert names(place.parent) == ["gap8"]
    assert place.stat().st_mode & 0o777 == 0o755


def test_nothing_of_the_last_build_is_mixed_with_the_new_one(destination: Path) -> None:
    (destination / "old.txt").write_text("")
    build(destination, "new")
    assert names(destination) == ["report.json"]
    assert holds(destination) == "new"
    assert names(destination.parent) == ["gap8"]


def test_a_failed_build_is_kept_beside_and_goes_with_the_next_good_one(destination: Path) -> None:
    place = build(destination, "bad", failed=True)
    assert place == destination.with_name("gap8.failed")
    assert (holds(destination), holds(place)) == ("good", "bad")
    build(destination, "worse", failed=True)
    assert (holds(destination), holds(place)) == ("good", "worse")
    build(destination, "new")
    assert names(destination.parent) == ["gap8"]
    assert holds(destination) == "new"


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_run_that_ends_early_leaves_no_trace(destination: Path, problem: type[BaseException]) -> None:
    def fail() -> None:
        with staged_build(destination) as staged:
            (staged.folder / "artifact").mkdir()
            (staged.folder / "report.json").write_text("half")
            raise problem

    with pytest.raises(problem):
        fail()
    assert names(destination.parent) == ["gap8"]
    assert holds(destination) == "good"


def test_a_run_that_does_not_commit_changes_nothing(destination: Path) -> None:
    with staged_build(destination) as staged:
        (staged.folder / "report.json").write_text("never")
    assert names(destination.parent) == ["gap8"]
    assert holds(destination) == "good"


def renames(monkeypatch: pytest.MonkeyPatch, hook: Callable[[Path, Path], None]) -> None:
    """Call `hook(from, to)` before every rename of a folder."""
    original = Path.rename

    def rename(self: Path, target: Path) -> Path:
        hook(self, Path(target))
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)


@pytest.mark.parametrize("problem", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_trouble_between_the_two_renames_puts_the_good_build_back(
    destination: Path, problem: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hook(source: Path, target: Path) -> None:
        if target == destination and ".new-" in source.name:
            assert not destination.exists()
            raise problem

    renames(monkeypatch, hook)
    with pytest.raises((UserFileError, KeyboardInterrupt)):
        build(destination, "new")
    assert names(destination.parent) == ["gap8"]
    assert holds(destination) == "good"


KILLED = """
import os, sys
from pathlib import Path
from nnkit.report.staging import staged_build

place = Path(sys.argv[1])
original = Path.rename

def rename(self, target):
    if ".new-" in self.name:
        os._exit(9)  # as a kill or a power cut between the two renames
    return original(self, target)

Path.rename = rename
with staged_build(place) as staged:
    (staged.folder / "report.json").write_text("new")
    staged.commit()
"""


def test_a_run_killed_between_the_two_renames_loses_nothing_for_good(destination: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(destination)], check=False)
    assert done.returncode == 9
    assert not destination.exists()  # the one moment that two renames cannot cover
    with pytest.raises(ValueError, match="this run fails too"), staged_build(destination):
        raise ValueError("this run fails too")
    assert holds(destination) == "good"
    assert names(destination.parent) == ["gap8"]


def test_what_other_runs_have_in_the_making_is_left_alone(destination: Path) -> None:
    other = destination.parent / ".gap8.new-other"
    other.mkdir()
    older = destination.parent / ".gap8.new-killed"
    older.mkdir()
    two_days_ago = older.stat().st_mtime - 2 * 24 * 3600
    os.utime(older, (two_days_ago, two_days_ago))
    elsewhere = destination.parent / ".gap8b.new-killed"
    elsewhere.mkdir()
    os.utime(elsewhere, (two_days_ago, two_days_ago))
    build(destination, "new")
    assert names(destination.parent) == [".gap8.new-other", ".gap8b.new-killed", "gap8"]


def test_a_build_that_appears_between_the_renames_gives_way(
    destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 0

    def hook(source: Path, target: Path) -> None:
        nonlocal times
        if target == destination and ".new-" in source.name and times < 3:
            times += 1
            destination.mkdir()
            (destination / "report.json").write_text("another run's")

    renames(monkeypatch, hook)
    build(destination, "new")
    assert times == 3
    assert holds(destination) == "new"
    assert names(destination.parent) == ["gap8"]


def commit_often(place: str, mark: str, count: int) -> None:
    for _ in range(count):
        with staged_build(Path(place)) as staged:
            for name in ("a", "b"):
                (staged.folder / name).write_text(mark)
            staged.commit()


def test_runs_side_by_side_leave_one_whole_build(tmp_path: Path) -> None:
    place = tmp_path / "gap8"
    context = multiprocessing.get_context("spawn" if sys.platform == "darwin" else "fork")
    runs = [context.Process(target=commit_often, args=(str(place), mark, 40)) for mark in ("first", "second")]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert [run.exitcode for run in runs] == [0, 0]
    assert names(tmp_path) == ["gap8"]
    assert (place / "a").read_text() == (place / "b").read_text()


def said(caught: pytest.ExceptionInfo[UserFileError], *words: str) -> None:
    assert caught.value.exit_code == ExitCode.USER
    for word in words:
        assert word in str(caught.value)
    assert "--out" in caught.value.remedy


def test_a_parent_that_cannot_be_written(destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended: permissions do not stop root, who often runs tests."""

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(owned_folder, "locked_file", refuse)
    with pytest.raises(UserFileError) as caught, staged_build(destination):
        pytest.fail("entered")
    said(caught, "Permission denied", str(destination))


@pytest.mark.parametrize("file", ["out", "out/net", "out/net/gap8"])
def test_a_file_in_the_way_stays(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("mine")
    with pytest.raises(UserFileError) as caught, staged_build(tmp_path / "out/net/gap8"):
        pytest.fail("entered")
    said(caught, str(tmp_path / "out"))
    assert (tmp_path / file).read_text() == "mine"


def test_a_file_in_the_way_of_a_failed_build_stays(destination: Path) -> None:
    (destination.parent / "gap8.failed").write_text("mine")
    with pytest.raises(UserFileError) as caught:
        build(destination, "bad", failed=True)
    said(caught, "gap8.failed", "in the way")
    assert (destination.parent / "gap8.failed").read_text() == "mine"
    assert names(destination.parent) == ["gap8", "gap8.failed"]


def test_a_full_disk_is_the_users_to_know(destination: Path) -> None:
    with pytest.raises(UserFileError) as caught, staged_build(destination):
        raise OSError(errno.ENOSPC, "No space left on device")  # write() knows no file name
    said(caught, "No space left on device", str(destination))
    assert holds(destination) == "good"


def test_a_file_of_the_build_that_cannot_be_written(destination: Path) -> None:
    with pytest.raises(UserFileError) as caught, staged_build(destination) as staged:
        (staged.folder / "missing" / "x").write_text("")
    said(caught, str(destination))


def test_other_file_errors_stay_what_they_are(destination: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), staged_build(destination):
        (tmp_path / "elsewhere").read_text()


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
def test_a_link_is_replaced_and_what_it_names_stays(destination: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.move(destination, moved)
    destination.symlink_to(moved)
    build(destination, "new")
    assert holds(destination) == "new"
    assert holds(moved) == "good"
    assert names(destination.parent) == ["gap8"]
