"""Kernels of affine integers against the simulator: random shapes, pads, strides, dilations, groups, types."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from random_affine_ops import RandomOps

from nnkit.boards import BOARDS
from nnkit.program.affine import AffineProgram
from nnkit.program.inputs import stress_inputs
from nnkit.runner import Runner
from nnkit.simulate import simulate
from nnkit_ansi_c.board_runner import BoardRunner
from nnkit_ansi_c.integer_emit import emit_integer_library
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.integer_runner import IntegerHostRunner
from nnkit_ansi_c.options import AnsiCOptions


def has_avx2() -> bool:
    """Whether this machine runs what is written for hosts with AVX2."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and " avx2 " in info.read_text()


def library(program: AffineProgram, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    emit_integer_library(IntegerNetwork.of(program), AnsiCOptions(precision="int8"), folder)
    return folder


def check(program: AffineProgram, folder: Path, runners: Sequence[Runner]) -> None:
    given = stress_inputs(program, 2)
    artifact = library(program, folder)
    expected = [simulate(program, values) for values in given]
    for runner in runners:
        for wanted, result in zip(expected, runner.run(artifact, program, given, trace=True), strict=True):
            for op in program.ops:
                assert np.array_equal(result.tensors[op.output], wanted[op.output]), f"{runner.name}: {op}"
            for name in program.outputs:
                assert np.array_equal(result.outputs[name], wanted[name]), f"{runner.name}: {name}"


def convolutions(bits: int) -> AffineProgram:
    draw = RandomOps(bits)
    for kind, slopes in itertools.product(("plain", "depthwise", "transposed"), (False, False, False, True)):
        draw.conv(bits=bits, transposed=kind == "transposed", depthwise=kind == "depthwise", slopes=slopes)
    return draw.program(f"convolutions{bits}")


def others(bits: int) -> AffineProgram:
    draw = RandomOps(100 + bits)
    draw.pool("max", bits=bits)
    draw.pool("average", bits=bits)
    draw.pool("average", bits=bits, by_count=True)
    draw.add(bits=bits)
    draw.add(bits=bits, slopes=True)
    draw.mul(bits=bits, by_channel=True)
    draw.mul(bits=bits, by_channel=False)
    draw.activation(bits=bits)
    for axis in range(3):
        draw.softmax(bits=bits, axis=axis)
        draw.log_softmax(bits=bits, axis=axis)
    draw.embedding(bits=bits)
    draw.softmax(bits=bits, axis=0, rank=1)
    draw.softmax(bits=bits, axis=1, rank=2)
    draw.log_softmax(bits=bits, axis=1, rank=2)
    for rank in (2, 3, 4):
        draw.matmul(bits=bits, rank=rank)
        draw.normalize(bits=bits, rank=rank)
    draw.lookup(bits=bits)
    draw.concat()
    for move in ("reshape", "reshape", "upsample", "transpose", "slice", "pad"):
        draw.move(move)
    return draw.program(f"others{bits}")


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("made", [convolutions, others])
def test_every_kernel_equals_the_simulator(made, bits: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    program = made(bits)
    runners: list[Runner] = [IntegerHostRunner(flags=SANITIZERS)]
    if has_avx2():
        runners.append(IntegerHostRunner(flags=("-O1", "-mavx2")))
    if bits == 8 and BOARDS["cortex-m4"].missing() is None:
        runners.append(BoardRunner(BOARDS["cortex-m4"], contract="exact"))
    check(program, tmp_path / "library", runners)
