"""Which C compiler this machine has changes `run.json` and no other file of a build."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nnie_stn_project
import pytest
import small_project

from nnkit.target import load_target

from .conftest import Command, fingerprint, report_of

COMPILERS = ("gcc", "clang")


def small(folder: Path) -> None:
    small_project.write_project(folder, small_project.RECIPE.replace("gap8: {}", "gap8: {}\n  ansi_c: {}"))


def with_cpu_segment(folder: Path) -> None:
    """Its transformer runs as C on the CPU."""
    nnie_stn_project.project(folder)


@pytest.mark.parametrize(
    ("project", "runners"),
    [(small, {"gap8": "host", "ansi_c": "host"}), (with_cpu_segment, {"nnie": "cpu_c"})],
)
def test_gcc_and_clang_give_the_same_builds(
    tmp_path: Path, nnkit: Command, project: Callable[[Path], None], runners: dict[str, str]
) -> None:
    for compiler in COMPILERS:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not on PATH (apt-get install {compiler})")
    project(tmp_path)
    for compiler in COMPILERS:
        done = nnkit("run", "recipe.yaml", "--out", compiler, "--no-qemu", "--no-cache", env={"CC": compiler})
        assert done.code == 0, done.err
    for target, runner in runners.items():
        builds = [next((tmp_path / compiler).glob(f"*/{target}")) for compiler in COMPILERS]
        for build in builds:
            verdicts = {each["how"]: each for each in report_of(build)["verify"]["program_vs_artifact"]}
            assert verdicts[runner]["values"] > 0  # the code did run here
        versions = {json.loads((build / "run.json").read_text())["tools"]["C compiler"] for build in builds}
        assert len(versions) == 2
        first, second = map(fingerprint, builds)
        assert any(name.endswith(".nnpkg") for name in first)
        assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == {"run.json"}


def test_the_report_names_the_tools_that_its_figures_come_from() -> None:
    """The rv32 compiler gives GAP8's code size; of the ANSI C library a build compiles nothing for a board."""
    named = {target: [t.name for t in load_target(target).tools() if t.in_report] for target in ("gap8", "ansi_c")}
    assert "riscv64-unknown-elf-gcc" in named["gap8"]
    assert named["ansi_c"] == []
