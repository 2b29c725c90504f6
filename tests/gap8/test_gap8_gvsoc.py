"""The simulated cluster as a runner: with the simulator where it is installed, and with a fake that misbehaves."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.errors import DoesNotFitError, ToolError
from nnkit.program import Program, Window
from nnkit_gap8.gvsoc_runner import COMMAND_VARIABLE, GvsocRunner, gvsoc_tool
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.target import Gap8Target
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16, U8
from tests.c.fixed.random_ops import Random
from tests.gap8.artifacts import has, random_inputs
from tests.gap8.clusters import cluster_options, write_cluster_artifact
from tests.gap8.test_gap8_cluster import tiled_layers

needs_compiler = pytest.mark.skipif(not has("riscv64-unknown-elf-gcc"), reason="no rv32 compiler")
needs_gvsoc = pytest.mark.skipif(
    GvsocRunner().missing() is not None, reason=f"CI cannot install it: {GvsocRunner().missing()}"
)

FAKE = """
import pathlib, shutil, signal, os, sys, time
mode, expected, elf = sys.argv[1:]
assert pathlib.Path(elf).read_bytes()[:4] == b"\\x7fELF"
assert pathlib.Path("weights.bin").exists() and pathlib.Path("inputs.bin").exists()
if mode == "hang":
    time.sleep(60)
if mode == "trap":
    sys.exit(99)
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if mode != "silent":
    data = bytearray(pathlib.Path(expected).read_bytes())
    if mode == "wrong":
        data[0] ^= 1
    pathlib.Path("outputs.bin").write_bytes(data[:-2] if mode == "short" else data)
    pathlib.Path("measures.txt").write_text("cycles 1234 0\\nop 0 1000\\n" if mode != "garbled" else "cycles many\\n")
"""


def one_layer() -> Program:
    r = Random(8)
    r._conv(r.fresh((4, 10, 10), S16), S16, Window(3, 3), 8)
    return r.program()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Builds one layer, puts the fake simulator in place of the real one, and runs it in a mode."""
    program = one_layer()
    artifact = tmp_path / "artifact"
    write_cluster_artifact(program, artifact, cluster_options())
    sample = random_inputs(program, 0)
    expected = plain_reference.run(program, sample)
    (tmp_path / "expected.bin").write_bytes(
        b"".join(_bytes(program, name, expected[name]) for name in program.outputs)
    )
    (tmp_path / "fake.py").write_text(FAKE)

    def run(mode: str, timeout_s: float = 60.0) -> tuple[Any, Mapping[str, NDArray[Any]]]:
        command = [sys.executable, str(tmp_path / "fake.py"), mode, str(tmp_path / "expected.bin")]
        monkeypatch.setenv(COMMAND_VARIABLE, shlex.join(command))
        return GvsocRunner(timeout_s=timeout_s).run(artifact, program, [sample], trace=False)[0], expected

    return run


def _bytes(program: Program, name: str, values: NDArray[Any]) -> bytes:
    return values.astype(program.tensors[name].fixed.dtype.newbyteorder("<")).tobytes()


@needs_compiler
def test_what_the_simulator_leaves_is_read(fake: Any) -> None:
    result, expected = fake("success")
    np.testing.assert_array_equal(result.outputs["out0"], expected["out0"])
    assert result.measured["cycles"] == 1234
    assert result.measured[next(key for key in result.measured if key.startswith("cycles:"))] == 1000


@needs_compiler
def test_wrong_values_are_seen(fake: Any) -> None:
    result, expected = fake("wrong")
    assert int((result.outputs["out0"] != expected["out0"]).sum()) == 1


@needs_compiler
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("trap", "a core trapped"),
        ("crash", "SIGSEGV"),
        ("silent", "has not written it"),
        ("short", "bytes of output"),
        ("garbled", "cannot be read"),
    ],
)
def test_a_simulator_that_fails_is_told(fake: Any, mode: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        fake(mode)


@needs_compiler
def test_a_simulator_that_hangs_is_stopped(fake: Any) -> None:
    with pytest.raises(ToolError, match="did not end within"):
        fake("hang", timeout_s=0.5)


def test_without_a_simulator_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(COMMAND_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gvsoc is not on PATH" in (GvsocRunner().missing() or "")
    assert gvsoc_tool().found is None
    monkeypatch.setenv(COMMAND_VARIABLE, "/nowhere/gvsoc --flag")
    assert "NNKIT_GVSOC names /nowhere/gvsoc" in (GvsocRunner().missing() or "")


def test_only_a_build_for_the_cluster_runs_there() -> None:
    target = Gap8Target()
    assert "gvsoc" not in {runner.name for runner in target.runners(Gap8Options())}
    assert "gvsoc" in {runner.name for runner in target.runners(cluster_options())}
    assert "gvsoc" in {tool.name for tool in target.tools()}


@needs_compiler
def test_what_is_more_than_the_chip_s_l2_is_refused(tmp_path: Path) -> None:
    program = one_layer()
    write_cluster_artifact(program, tmp_path, cluster_options())
    script = tmp_path / "pulp" / "link.ld"
    assert "LENGTH = 512K" in script.read_text()
    script.write_text(script.read_text().replace("LENGTH = 512K", "LENGTH = 6K"))
    with pytest.raises(DoesNotFitError, match=r"are [\d,]+ bytes more than the chip's L2") as refusal:
        GvsocRunner().run(tmp_path, program, [random_inputs(program, 0)], trace=False)
    assert "`memory: {l2: " in refusal.value.remedy


@needs_gvsoc
@needs_compiler
@pytest.mark.parametrize("parts", [8, 3])
def test_packed_layers_on_the_simulated_cluster(parts: int, tmp_path: Path) -> None:
    """Encodings, DMA, barriers and L3: every output of every kind of tiled layer."""
    program = tiled_layers(7)
    write_cluster_artifact(program, tmp_path, cluster_options(8 << 10, l2_bytes=400 << 10))
    sample = random_inputs(program, 0, extreme=True)
    result = GvsocRunner(parts=parts).run(tmp_path, program, [sample], trace=False)[0]
    expected = plain_reference.run(program, sample)
    for name in program.outputs:
        np.testing.assert_array_equal(result.outputs[name], expected[name], err_msg=name)
    assert result.measured["cycles"] > 0


@needs_gvsoc
@needs_compiler
@pytest.mark.parametrize("fixed", [S16, S8, U8])
def test_cycles_are_the_same_in_every_run(fixed: Any, tmp_path: Path) -> None:
    r = Random(9)
    r._conv(r.fresh((8, 12, 12), fixed), fixed, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), 16, weight_bits=fixed.bits)
    program = r.program()
    write_cluster_artifact(program, tmp_path, cluster_options())
    sample = random_inputs(program, 0)
    runs = [GvsocRunner().run(tmp_path, program, [sample], trace=False)[0].measured for _ in range(2)]
    assert runs[0] == runs[1]
