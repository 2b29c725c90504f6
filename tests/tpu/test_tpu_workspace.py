"""The compiler's folder: logs of failures stay, a full disk is told as one."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import ExitCode, NnkitError, ToolError, UserFileError
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.toolchain import Toolchain, room, run_tpuc_opt
from nnkit_tpu.toolchain.workspace import compiler_folder


def _toolchain(folder: Path, script: str) -> Toolchain:
    compiler = folder / "bin" / "tpuc-opt"
    compiler.parent.mkdir()
    compiler.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    compiler.chmod(0o755)
    return Toolchain(folder, "managed", "0")


def _failure(toolchain: Toolchain) -> NnkitError:
    with pytest.raises(NnkitError) as caught, compiler_folder() as folder:
        run_tpuc_opt(toolchain, [], folder, log_name="a.log", what="placing layers", in_integers=True)
    assert not folder.exists()
    return caught.value


def test_the_log_of_a_failure_outlives_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    error = _failure(_toolchain(tmp_path, "echo 'loc(\"conv_3\"): error: no room'; echo more; exit 1"))
    assert error.exit_code == ExitCode.TOOL
    assert error.where == "conv_3"
    assert "tag the layer `hp`" in error.remedy
    (kept,) = (tmp_path / "cache" / "logs").iterdir()
    assert str(kept) in error.remedy
    assert kept.read_text(encoding="utf-8") == 'loc("conv_3"): error: no room\nmore\n'


def test_an_empty_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    error = _failure(replace(_toolchain(tmp_path, "sleep 600"), timeout_s=0.1))
    assert error.remedy == "raise `compiler_timeout_s` of the target's options"
    assert not (tmp_path / "cache").exists()


def test_only_the_latest_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    logs = tmp_path / "cache" / "logs"
    logs.mkdir(parents=True)
    for index in range(30):
        old = logs / f"tpuc-opt-{index}.log"
        old.write_text("old", encoding="utf-8")
        os.utime(old, (index, index))
    _failure(_toolchain(tmp_path, "echo new; exit 1"))
    kept = {each.read_text(encoding="utf-8") for each in logs.iterdir()}
    assert kept == {"old", "new\n"}
    assert len(list(logs.iterdir())) == 20
    assert not (logs / "tpuc-opt-0.log").exists()


def test_a_failure_is_told_where_the_log_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    error = _failure(_toolchain(tmp_path, "echo 'error: no such pass'; exit 1"))
    assert isinstance(error, ToolError)
    assert "no such pass" in error.reason
    assert "could not be kept" in error.remedy


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written to the folder of temporary files, as the system says of its full device."""
    monkeypatch.setattr(room.tempfile, "TemporaryFile", partial(Path("/dev/full").open, "wb"))


@pytest.mark.usefixtures("full")
def test_a_full_folder_of_temporary_files_is_named(tmp_path: Path) -> None:
    error = _failure(_toolchain(tmp_path, "exit 1"))
    assert isinstance(error, UserFileError)
    assert "TMPDIR" in error.remedy
    for code in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(UserFileError, match="temporary files cannot be written"), compiler_folder():
            raise OSError(code, os.strerror(code))
    with pytest.raises(UserFileError, match="no room is left"), compiler_folder():
        raise ToolError("the TPU compiler has no place for temporary files")


@pytest.mark.usefixtures("full")
def test_a_chip_model_without_room_is_not_blamed(tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="no room is left"):  # the file is no model, which is not told instead
        run_on_chip_model(_toolchain(tmp_path, "exit 0"), tmp_path / "none.bmodel", "bm1684x", {"x": np.zeros(4)})


def test_a_full_disk_elsewhere_is_left_to_others() -> None:
    with pytest.raises(OSError, match="No space"), compiler_folder():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
