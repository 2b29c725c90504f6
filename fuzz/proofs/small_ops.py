"""Layers of a program with fewer channels and rows, each as a program of its own.

What decides a kernel and its way through a layer stays: formats, window, padding, groups, output stage, fused pool.
The input keeps its size modulo the strides, so that the same rows and columns are left unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    Mul,
    OpBase,
    OutputStage,
    Pool,
    Program,
    Tensor,
    Upsample,
    Window,
)

INPUT_CHANNELS, OUTPUT_CHANNELS, GROUPS = 2, 5, 5
OUTPUTS = 5
"""Outputs along each side: four are computed together, and one is left."""
AS_IT_IS_ELEMENTS = 600
"""Layers of so few elements are not made smaller."""


def small_programs(program: Program) -> Iterator[tuple[OpBase, Program | None]]:
    """Each different layer with a program of its smaller self; None for a large layer of another kind."""
    seen: set[str] = set()
    for op in program.ops:
        small = _small(op, program)
        if small is None:
            yield op, None
            continue
        signature = _signature(small)
        if signature not in seen:
            seen.add(signature)
            yield op, small


def _signature(program: Program) -> str:
    """What two layers have in common whose proofs would be the same: all but names, weights and clips."""
    op = program.ops[0]
    fields = {name: value for name, value in vars(op).items() if name in _SHAPING}
    shapes = [(t.shape, t.format) for t in program.tensors.values()]
    stage = getattr(op, "stage", None)
    return repr((type(op).__name__, fields, shapes, stage and (stage.shift, stage.leaky is not None)))


_SHAPING = ("window", "groups", "pool", "accumulate", "accumulator", "weight_bits", "shifts", "shift", "pad_value")


def _small(op: OpBase, program: Program) -> Program | None:
    shapes = [program.tensors[name].shape for name in op.inputs]
    if sum(program.tensors[name].elements for name in (*op.inputs, op.output)) <= AS_IT_IS_ELEMENTS:
        return _program(op, program, shapes, program.tensors[op.output].shape)
    if any(len(shape) != 3 for shape in shapes):
        return None
    if isinstance(op, Conv2d):
        return _small_convolution(op, program, shapes[0])
    if isinstance(op, Pool):
        height, width = _small_sides(shapes[0], (op.window,))
        out = (OUTPUT_CHANNELS, *op.window.output_hw(height, width))
        return _program(op, program, [(OUTPUT_CHANNELS, height, width)], out)
    if isinstance(op, Concat):
        parts = [(INPUT_CHANNELS + i, 3, 5) for i in range(len(shapes))]
        return _program(op, program, parts, (sum(part[0] for part in parts), 3, 5))
    if isinstance(op, Upsample):
        return _program(op, program, [(3, 3, 5)], (3, 3 * op.scale_h, 5 * op.scale_w))
    if isinstance(op, Add | Mul | Activation) and len(set(shapes)) == 1:
        own = replace(op, stage=_small_stage(op.stage, OUTPUT_CHANNELS))
        return _program(own, program, [(OUTPUT_CHANNELS, 3, 5)] * len(shapes), (OUTPUT_CHANNELS, 3, 5))
    return None


def _small_convolution(op: Conv2d, program: Program, shape: tuple[int, ...]) -> Program:
    outputs, inputs = op.weight.shape[0] // op.groups, op.weight.shape[1]
    groups, inputs = min(op.groups, GROUPS), min(inputs, INPUT_CHANNELS)
    outputs = min(outputs, OUTPUT_CHANNELS)
    height, width = _small_sides(shape, (op.window, *([op.pool.window] if op.pool else [])))
    own = replace(
        op,
        weight=np.ascontiguousarray(op.weight[: groups * outputs, :inputs]),
        bias=op.bias[: groups * outputs],
        groups=groups,
        stage=_small_stage(op.stage, groups * outputs),
    )
    sides = op.window.output_hw(height, width)
    if op.pool:
        sides = op.pool.window.output_hw(*sides)
    return _program(own, program, [(groups * inputs, height, width)], (groups * outputs, *sides))


def _small_stage(stage: OutputStage, channels: int) -> OutputStage:
    if stage.leaky is None or stage.leaky.slopes.size == 1:
        return stage
    return replace(stage, leaky=replace(stage.leaky, slopes=stage.leaky.slopes[:channels]))


def _small_sides(shape: tuple[int, ...], windows: tuple[Window, ...]) -> tuple[int, int]:
    """Height and width for OUTPUTS outputs of these windows, one behind the other; never more than there are."""

    def needed(spans: list[int], strides: list[int], side: int) -> int:
        wanted = OUTPUTS
        for span, stride in zip(reversed(spans), reversed(strides), strict=True):
            wanted = (wanted - 1) * stride + span
        step = int(np.prod(strides))
        return min(side, wanted + (side - wanted) % step)

    return (
        needed([w.span_h for w in windows], [w.stride_h for w in windows], shape[1]),
        needed([w.span_w for w in windows], [w.stride_w for w in windows], shape[2]),
    )


def _program(op: OpBase, program: Program, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> Program:
    """A program of one layer, whose inputs are x0, x1 ..., and whose output is y."""
    names = tuple(f"x{i}" for i in range(len(inputs)))
    tensors: dict[str, Tensor] = {}
    for own, old, shape in zip((*names, "y"), (*op.inputs, op.output), (*inputs, output), strict=True):
        tensors[own] = replace(program.tensors[old], name=own, shape=shape)
    return Program("net", tensors, (replace(op, name="layer", inputs=names, output="y"),), names, ("y",))
