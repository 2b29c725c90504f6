"""Folders that the next run removes where their owner is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nnkit.owned_folder import owned_folder, sweep, temporary_folder

_KILLED = """
import os, sys
from pathlib import Path
from nnkit.owned_folder import owned_folder
with owned_folder(Path(sys.argv[1]), "x-") as folder:
    (folder / "file").write_text("half")
    os.kill(os.getpid(), 9)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_is_the_user_s_alone_and_goes_at_the_end(tmp_path: Path) -> None:
    with owned_folder(tmp_path, "x-") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.with_name(f"{folder.name}.owner").read_text() == f"{os.getpid()}\n"
        with owned_folder(tmp_path, "x-") as other:
            assert (folder.is_dir(), other.is_dir(), folder != other) == (True, True, True)
    assert names(tmp_path) == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert len(names(tmp_path)) == 2
    rescued: list[str] = []
    sweep(tmp_path, "y-")
    assert len(names(tmp_path)) == 2
    sweep(tmp_path, "x-", rescue=lambda folder: rescued.append((folder / "file").read_text()))
    assert (names(tmp_path), rescued) == ([], ["half"])


def test_what_cannot_be_rescued_stays(tmp_path: Path) -> None:
    def cannot(folder: Path) -> None:
        raise OSError

    with owned_folder(tmp_path, "x-", rescue=cannot) as folder:
        pass
    assert folder.is_dir()
    sweep(tmp_path, "x-")
    assert names(tmp_path) == []


def test_links_and_other_files_of_the_name_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "x-link").symlink_to(tmp_path / "kept")
    (tmp_path / "x-link.owner").symlink_to(tmp_path / "kept")
    (tmp_path / "x-1.owner").mkdir()
    sweep(tmp_path, "x-")
    assert (tmp_path / "kept").is_dir()


def test_temporary_folders_follow_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder("nnkit-test-") as folder:
        assert folder.parent == tmp_path
