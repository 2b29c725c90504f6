"""Installation and failures of the vendor's toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import ExitCode, ToolError
from nnkit_tpu.toolchain import Toolchain, find_toolchain, install, require_toolchain, run_tpuc_opt
from nnkit_tpu.toolchain.install import read_installation
from nnkit_tpu.toolchain.log import read_failure


def test_absent_toolchain_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert find_toolchain() is None
    with pytest.raises(ToolError) as caught:
        require_toolchain()
    assert caught.value.remedy == "nnkit doctor --install tpu"


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "tpu_mlir.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(ToolError, match="SHA-256"):
        install(wheel)
    assert find_toolchain() is None
    assert not [p for p in (tmp_path / "cache" / "toolchains").iterdir() if p.is_dir()]


def test_an_installation_with_a_short_file_counts_as_absent(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for file in tpu_toolchain.root.rglob("*"):
        if file.is_file():
            link = copy / file.relative_to(tpu_toolchain.root)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    assert read_installation(copy) is not None
    (copy / "bin" / "tpuc-opt").unlink()
    (copy / "bin" / "tpuc-opt").write_bytes(b"cut")
    assert read_installation(copy) is None


def test_a_compiler_failure_is_a_message_with_the_log(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_text('module { %0 = "top.Nothing"() : () -> none }\n', encoding="utf-8")
    with pytest.raises(ToolError) as caught:
        run_tpuc_opt(tpu_toolchain, ["bad.mlir", "--init"], tmp_path, log_name="bad.log", what="reading")
    assert caught.value.exit_code == ExitCode.TOOL
    assert "top.Nothing" in caught.value.reason
    assert str(tmp_path / "bad.log") in caught.value.remedy
    assert "\n" not in caught.value.reason


def test_a_log_without_a_failure_tells_of_none() -> None:
    assert read_failure("==----==\nRun TopoSortPass :\n") is None
