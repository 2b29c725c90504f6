"""Kernels against plain integer loops, under the address and undefined-behaviour sanitizers.

They run in the project that GAP8 makes of a program, under a plan without reuse.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnkit.c.fixed.machine import CoreMachine
from nnkit.program import Program
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.runners import HostRunner, execute_on_host
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import random_values
from tests.c.fixed.random_ops import Random
from tests.gap8.plans import L1_BYTES, naive_plan

SANITIZE = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


def write(program: Program, folder: Path, *, blocks_per_chunk: int | None = None, cores: int = 8) -> Path:
    """The artifact of a program under the plan without reuse."""
    plan = naive_plan(program, cores, blocks_per_chunk)
    for name, content in emit_artifact(program, plan, CoreMachine(cores, L1_BYTES)).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def check_ops(r: Random, folder: Path) -> None:
    """All ops that were added."""
    program = r.program()
    check(program, write(program, folder))


def check(program: Program, folder: Path, *, parts: tuple[int, ...] = (1, 3, 8), seed: int = 0) -> None:
    """Run on random and on extreme inputs with several numbers of parts; every tensor must be right."""
    rng = np.random.default_rng(seed)
    inputs = [
        {name: random_values(rng, program.tensors[name], extreme) for name in program.inputs}
        for extreme in (False, True)
    ]
    expected = [plain_reference.run(program, sample) for sample in inputs]
    assert_telling(program, expected)
    binary = HostRunner("gcc", SANITIZE).compile(folder, folder, trace=True)
    for count in parts:
        results = execute_on_host(binary, folder, program, inputs, parts=count, trace=True)
        for sample, result in zip(expected, results, strict=True):
            for op in program.ops:
                np.testing.assert_array_equal(
                    result.tensors[op.output], sample[op.output], err_msg=f"{op.name} with {count} parts"
                )
            for name in program.outputs:
                np.testing.assert_array_equal(result.outputs[name], sample[name])


def assert_telling(program: Program, expected: list[dict[str, plain_reference.Values]]) -> None:
    """The expected values must not hide errors: most differ, few are at the ends of the range."""
    everything = 0
    at_ends = 0
    for op in program.ops:
        values = np.concatenate([sample[op.output].ravel() for sample in expected])
        fixed = program.tensors[op.output].fixed
        everything += values.size
        at_ends += int(np.count_nonzero((values == fixed.qmin) | (values == fixed.qmax)))
        assert values.size < 64 or np.unique(values).size > 2, op.name
    assert at_ends < 0.75 * everything
