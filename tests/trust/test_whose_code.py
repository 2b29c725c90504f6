"""Programs that recipes name and code of builds from elsewhere are run only where the user says so."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from small_project import RECIPE, write_project
from typer.testing import CliRunner

from nnkit.c.host_compiler import host_compiler
from nnkit.cli import app
from nnkit.errors import NnkitError, UsageError, UserFileError
from nnkit.recipe import RecipePath
from nnkit.trust import refuse_programs
from nnkit_nnie.mapper.run import find_mapper
from nnkit_nnie.options import Mapper, NnieOptions

MAPPER = f"#!{sys.executable}\nimport pathlib, sys\npathlib.Path(sys.argv[0] + '.ran').touch()\nsys.exit(1)\n"


def invoke(*words: object) -> NnkitError | None:
    error = CliRunner().invoke(app, [str(word) for word in words]).exception
    assert error is None or isinstance(error, NnkitError), error
    return error


@pytest.fixture
def naming_a_program(tmp_path: Path) -> tuple[Path, Path]:
    """A recipe that names a program, and that program."""
    program = tmp_path / "nnie_mapper_12"
    program.write_text(MAPPER)
    program.chmod(0o755)
    options = "nnie: {chip: hi3516cv500, outside_limits: custom, mapper: {path: nnie_mapper_12}}"
    return write_project(tmp_path, RECIPE.replace("gap8: {}", options)), program


def test_a_recipe_s_program_is_run_with_trust_alone(naming_a_program: tuple[Path, Path], tmp_path: Path) -> None:
    recipe, program = naming_a_program
    ran = program.with_name(program.name + ".ran")
    for command in (["check", recipe], ["plan", recipe, "--no-cache"]):
        assert invoke(*command) is None
    error = invoke("run", recipe, "--no-cache", "--out", tmp_path / "out")
    assert isinstance(error, UsageError)
    assert "names a program" in error.reason
    assert error.where.startswith(str(recipe))
    assert "--trust" in error.remedy
    assert not ran.exists()
    error = invoke("run", recipe, "--no-cache", "--out", tmp_path / "out", "--trust")
    assert error is not None
    assert "mapper" in error.reason
    assert ran.exists()


def test_ci_trusts_no_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_programs([("a", "r.yaml:1:1")], trusted=True)
    monkeypatch.setenv("CI", "true")
    refuse_programs([], trusted=True)
    with pytest.raises(UsageError, match="not for CI"):
        refuse_programs([("a", "r.yaml:1:1")], trusted=True)


def test_a_program_that_is_not_run_needs_no_trust() -> None:
    path = RecipePath.of("x")
    assert NnieOptions(chip="hi3516cv500", mapper=Mapper(path=path)).programs() == (path,)
    assert NnieOptions(chip="hi3516cv500", mapper=Mapper(path=path, run=False)).programs() == ()


def test_the_configuration_names_programs(tmp_path: Path, config: Path) -> None:
    program = tmp_path / "mine"
    config.mkdir()
    (config / "config.yaml").write_text(f"programs: {{nnie_mapper_12: {program}}}\n")
    options = NnieOptions(chip="hi3516cv500")
    with pytest.raises(UserFileError, match="no program"):
        find_mapper(options)
    program.write_text(MAPPER)
    program.chmod(0o755)
    assert find_mapper(options) == str(program)


def test_code_of_builds_is_run_where_they_were_made(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    recipe = write_project(tmp_path)
    assert invoke("run", recipe, "--no-cache", "--no-qemu", "--out", tmp_path / "out") is None
    build = tmp_path / "out/small/gap8"

    def simulate(*more: str, on: str = "host") -> NnkitError | None:
        image = tmp_path / "images/0.png"
        return invoke("simulate", build, "--input", image, "--output", tmp_path / "y.npy", "--on", on, *more)

    def bench(*more: str) -> NnkitError | None:
        return invoke("bench", build, "--on", "rv32", *more)

    assert simulate() is None
    assert (config / "own_builds.key").stat().st_mode & 0o777 == 0o600
    received = tmp_path / "received"
    shutil.copytree(build, received)

    def without_mark() -> None:
        run = json.loads((build / "run.json").read_text())
        (build / "run.json").write_text(json.dumps(run | {"made_here": "0" * 64}))

    without_mark()
    assert isinstance(simulate(), UsageError)
    assert simulate("--trust") is None
    assert simulate(on="program") is None
    assert "made by you" in str(bench())
    monkeypatch.setenv("CI", "1")
    assert "not for CI" in str(bench("--trust"))
    assert "not for CI" in str(simulate("--trust"))
    monkeypatch.delenv("CI")

    shutil.copy(received / "run.json", build / "run.json")
    assert simulate() is None
    (build / "artifact/more.h").write_text("")
    assert "more.h was added" in str(simulate())
    (build / "artifact/more.h").unlink()
    source = next((build / "artifact").glob("*.c"))
    source.write_text(source.read_text() + "/* */\n")
    for options in ((), ("--trust",)):
        assert isinstance(simulate(*options), UserFileError)


def test_another_user_s_key_makes_no_own_build(tmp_path: Path, config: Path) -> None:
    from nnkit.trust import made_here, mark_of_report

    for name in ("report.json", "recipe.yaml"):
        (tmp_path / name).write_text("{}")
    mark = mark_of_report(tmp_path)
    assert made_here(tmp_path, mark)
    assert not made_here(tmp_path, None)
    (tmp_path / "recipe.yaml").write_text("{a: b}")
    assert not made_here(tmp_path, mark)
    (tmp_path / "recipe.yaml").write_text("{}")
    (config / "own_builds.key").chmod(0o666)
    assert not made_here(tmp_path, mark)
    (config / "own_builds.key").unlink()
    assert not made_here(tmp_path, mark)
