"""The affine scheme on the cluster: equal to the simulator in every value, however the tiles are cut and shared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_affine_ops import RandomOps

from nnkit.memory.plan import Region
from nnkit.program.affine import AffineProgram
from nnkit.program.inputs import stress_inputs
from nnkit.runner import Runner
from nnkit.simulate import simulate
from nnkit_gap8.affine_cluster import AffineCluster
from nnkit_gap8.affine_emit import emit_affine_artifact
from nnkit_gap8.affine_plan import AFFINE_STACK_BYTES, AffinePlan, affine_plan
from nnkit_gap8.emit import CONTEXT_BYTES
from nnkit_gap8.gvsoc_runner import GvsocRunner
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.runners import HostRunner, Rv32Runner
from nnkit.c.fixed.machine import CoreMachine
from tests.gap8.artifacts import has


def planned(program: AffineProgram, l1_bytes: int, l2_bytes: int = 1 << 20) -> AffinePlan:
    regions = Region("l1", l1_bytes), Region("l2", l2_bytes), Region("l3", 8 << 20)
    machine = MemoryMachine(*regions, context_bytes=CONTEXT_BYTES, stack_bytes=AFFINE_STACK_BYTES)
    return affine_plan(program, machine, None, cluster=AffineCluster(program, CoreMachine(8, l1_bytes)))


def written(plan: AffinePlan, folder: Path) -> Path:
    for path, content in emit_affine_artifact(plan).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def check(program: AffineProgram, artifact: Path, runner: Runner, samples: int = 2) -> None:
    given = stress_inputs(program, samples)
    traced = not isinstance(runner, GvsocRunner)
    for values, result in zip(given, runner.run(artifact, program, given, trace=traced), strict=True):
        expected = simulate(program, values)
        for op in program.ops if traced else ():
            assert np.array_equal(result.tensors[op.output], expected[op.output]), f"{runner.name}: {op.name}"
        for name in program.outputs:
            assert np.array_equal(result.outputs[name], expected[name]), name


def drawn(seed: int, bits: tuple[int, ...] = (8, 16)) -> AffineProgram:
    draw = RandomOps(seed)
    for each in bits:
        draw.conv(bits=each)
        draw.conv(bits=each)
        draw.conv(bits=each, depthwise=True)
        draw.conv(bits=each, transposed=True)
        draw.conv(bits=each, depthwise=True, slopes=True)
        draw.pool("max", bits=each)
        draw.add(bits=each)
        draw.activation(bits=each)
    return draw.program("net")
