"""The generated C under every dialect, without a warning; the PMSIS port compiled and run through stub headers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.c.fixed.machine import CoreMachine
from nnkit.program import Program
from nnkit_gap8.emit import emit_artifact
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16
from tests.c.fixed.random_ops import Random, everything
from tests.gap8.artifacts import DIALECTS, STRICT, compile_only, has, sources, write_artifact
from tests.gap8.plans import L1_BYTES, naive_plan

STUB = Path(__file__).parent / "pmsis_stub"


@pytest.fixture(scope="module")
def program() -> Program:
    return everything(5)


@pytest.fixture(scope="module")
def artifact(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_artifact(program, tmp_path_factory.mktemp("artifact"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_warning_in_any_dialect(dialect: str, artifact: Path, tmp_path: Path) -> None:
    compiler = DIALECTS[dialect]
    if not has(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    files = [*sources(artifact), artifact / "host/nnkit_port_host.c", artifact / "host/main.c"]
    for trace in ((), ("-DNNKIT_TRACE",)):
        assert compile_only((*compiler, "-O1", *trace), files, [artifact, artifact / "host"], tmp_path) == ""


def test_warnings_are_errors_here(tmp_path: Path) -> None:
    """The check above can fail: a narrowing conversion is noticed."""
    bad = tmp_path / "bad.c"
    bad.write_text("short f(int x);\nshort f(int x) { return x; }\n")
    assert "conversion" in compile_only(("gcc", "-std=c90"), [bad], [], tmp_path)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_pmsis_port_calls_what_the_sdk_declares(compiler: str, artifact: Path, tmp_path: Path) -> None:
    if not has(compiler):
        pytest.skip(f"no {compiler}")
    command = (compiler, "-std=gnu99", "-DNNKIT_PORT_PARALLEL")
    includes = [artifact, artifact / "pmsis", STUB]
    assert (
        compile_only(command, [artifact / "pmsis/nnkit_port_pmsis.c", *sources(artifact)], includes, tmp_path) == ""
    )
    # The SDK's pmsis_kickoff takes a function as `void *`, which ISO C does not know.
    relaxed = [flag for flag in STRICT if flag != "-pedantic"]
    assert compile_only(command, [artifact / "pmsis/main.c"], includes, tmp_path, relaxed) == ""


def test_pmsis_port_runs_the_network(tmp_path: Path) -> None:
    """Eight cores in the wrong order, weights that arrive only when waited for: the outputs are still right.

    The example application runs on an empty input and prints the first outputs.
    """
    r = Random(3)
    x = r.fresh((4, 9, 9), S16)
    for y in (S16, S8):
        r._conv(x, y, r.window(9, 9), 8)
        r._conv(x, y, r.window(9, 9, most=1), 8)
    program = r.program()
    write_artifact(program, tmp_path, naive_plan(program, 8, blocks_per_chunk=1))
    files = [*sources(tmp_path), *sorted((tmp_path / "pmsis").glob("*.c")), STUB / "pmsis_host.c"]
    command = ["gcc", "-std=gnu99", "-g", "-fsanitize=address,undefined", "-DNNKIT_PORT_PARALLEL"]
    command += [f"-I{tmp_path}", f"-I{tmp_path / 'pmsis'}", f"-I{STUB}", "-o", str(tmp_path / "app")]
    subprocess.run([*command, *map(str, files)], check=True)
    done = subprocess.run([str(tmp_path / "app")], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "status 0" in done.stdout
    expected = plain_reference.run(program, {x: np.zeros((4, 9, 9), dtype=np.int64)})
    for name in program.outputs:
        for index, value in enumerate(expected[name].ravel()[:8]):
            assert f"{name}[{index}] = {value}\n" in done.stdout


def test_makefiles_build_the_host_side(artifact: Path, tmp_path: Path) -> None:
    if not has("make"):
        pytest.skip("no make")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(artifact), str(copy)], check=True)
    subprocess.run(["make", "-s", "CFLAGS=-O0"], cwd=copy / "host", check=True)
    assert (copy / "host" / "net").exists()


def test_the_same_program_gives_the_same_bytes(program: Program) -> None:
    plan, machine = naive_plan(program, 8), CoreMachine(8, L1_BYTES)
    assert emit_artifact(program, plan, machine) == emit_artifact(everything(5), plan, machine)


def test_no_heap_and_no_variables_in_the_network(artifact: Path, tmp_path: Path) -> None:
    """Objects of the network hold code and constants only, and call no allocator: contexts are re-entrant."""
    if not has("nm"):
        pytest.skip("no nm")
    for file in sources(artifact):
        target = tmp_path / f"{file.stem}.o"
        subprocess.run(["gcc", "-O1", "-fno-pie", f"-I{artifact}", "-c", str(file), "-o", str(target)], check=True)
        symbols = subprocess.run(["nm", str(target)], capture_output=True, text=True, check=True).stdout
        kinds = {line.split()[-2] for line in symbols.splitlines()}
        assert not kinds & set("BbDdCGgSs"), symbols
        assert "malloc" not in symbols


def test_hostile_names_stay_in_comments_and_identifiers(tmp_path: Path) -> None:
    """Layer and tensor names may hold anything: they must neither end a comment nor break a macro."""
    r = Random(4)
    x = r.builder.input('in */ int x = "1"; /* \\', (2, 4, 4), S16)
    r.outputs.append("while")
    r.builder.tensor("while", (3, 4, 4), S16)
    r.outputs.clear()
    r._conv(x, S16, r.window(4, 4, most=1, pads=False), 3)
    program = r.program()
    write_artifact(program, tmp_path, name="1 net*/ \\u0041")
    files = [*sources(tmp_path), tmp_path / "host/main.c"]
    assert compile_only(("gcc", "-std=c90"), files, [tmp_path, tmp_path / "host"], tmp_path) == ""
