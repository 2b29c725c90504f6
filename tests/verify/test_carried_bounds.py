"""What the bound of a layer without values lets its readers be off by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from program_builder import ProgramBuilder

from nnkit.program import Program
from nnkit.simulate import simulate_op
from nnkit.target import Contract, RunResult
from nnkit.verify.artifact import compare_artifact
from nnkit.verify.carried_bounds import carried

SHAPE = (2, 3, 4)


def chain() -> Program:
    """x -> once = 2 x -> twice = once + x -> out = twice + twice, so out = 6 x."""
    net = ProgramBuilder()
    x = net.input(*SHAPE, name="x")
    twice = net.add(net.add(x, x, name="once"), x, name="twice")
    return net.build(net.add(twice, twice, name="out"))


def test_a_sum_is_off_by_what_both_of_its_operands_are() -> None:
    program = chain()
    op = program.producer("twice_v")
    assert op is not None
    x = np.arange(24, dtype=np.int64).reshape(SHAPE)
    first = np.zeros(SHAPE)
    first.flat[5] = 2
    result = simulate_op(program, op, [2 * x, x])
    off = carried(program, op, [2 * x, x], result, {"once_v": first, "x": 1.0})
    assert np.array_equal(off, first + 1)
    assert not carried(program, op, [2 * x, x], result, {"out_v": 9.0}).any()


class WithoutTwo:
    """`once` may be off by one, and no values of it and of `twice` come back; the output is off by so much."""

    name, emulated = "fake", False
    contract: Contract = "bounded"
    layer_by_layer: Literal[True] = True

    def __init__(self, off: int) -> None:
        self.off = off

    def missing(self) -> str | None:
        return None

    def bound(self, program: Program, tensor: str) -> float:
        return 1.0 if tensor == "once_v" else 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        out = 6 * inputs[0]["x"]
        out.flat[3] += self.off
        return [RunResult({"out_v": out}, {"out_v": out}, absorbed=frozenset({"once_v", "twice_v"}))]


@pytest.mark.parametrize(("off", "mismatches"), [(0, 0), (2, 0), (-2, 0), (3, 1)])
def test_it_goes_through_all_layers_without_values(off: int, mismatches: int) -> None:
    """One at `once` is one at `twice`, and two where that is added to itself."""
    x = np.arange(24, dtype=np.int64).reshape(SHAPE)
    verdict = compare_artifact(WithoutTwo(off), Path(), chain(), [{"x": x}])
    assert verdict.mismatches == mismatches


def test_values_stay_within_their_type() -> None:
    program = chain()
    op = program.producer("out_v")
    assert op is not None
    dtype = program.tensors["twice_v"].format.dtype
    x = np.full(SHAPE, np.iinfo(dtype).max, dtype)
    off = carried(program, op, [x, x], simulate_op(program, op, [x, x]), {"twice_v": 1.0})
    assert off.max() <= 2.0
