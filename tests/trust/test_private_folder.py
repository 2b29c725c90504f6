"""Folders that code is loaded from: owner and mode, of them and of all above."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnkit.c.host_compiler import host_compiler
from nnkit.calibrate.counting import WORTH_COMPILING, fastest_count, numpy_count
from nnkit.trust import make_private, why_not_private


def test_a_new_folder_is_its_owner_s_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert make_private(folder) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert why_not_private(folder / "not there yet") is None


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_what_others_may_write_is_not_private(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert "others may write" in str(why_not_private(tmp_path))
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o700)
    sticky = bool(mode & 0o1000)  # others may not rename what is below
    assert (why_not_private(inner) is None) == sticky


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert why_not_private(tmp_path / "link") is not None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_another_user_s_folder_is_not_private(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    assert "another user" in str(why_not_private(tmp_path))


def test_helpers_in_an_open_folder_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    assert fastest_count(WORTH_COMPILING) is not numpy_count
    (tmp_path / "other").mkdir()
    (tmp_path / "other").chmod(0o777)
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "other"))
    assert fastest_count(WORTH_COMPILING) is numpy_count
    assert not list((tmp_path / "other").rglob("*.so"))
