"""Layers of a program with fewer channels and rows, each as a program of its own.

What decides a kernel and its way through a layer stays: formats, window, padding, groups, output stage, fused pool.
The input keeps its size modulo the strides, so that the same rows and columns are left unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Sizes:
    """How small a layer becomes.

    inputs, outputs, groups: channels of a convolution, in each group, and its groups.
    rows, columns: of its outputs; pooled_columns: of those behind a fused pool. padded: those that come from padding
    count. as_it_is: a layer of so few elements is not made smaller.
    """

    inputs: int
    outputs: int
    groups: int
    rows: int
    columns: int
    pooled_columns: int
    padded: bool
    as_it_is: int


SMALL = Sizes(inputs=2, outputs=5, groups=5, rows=5, columns=5, pooled_columns=5, padded=False, as_it_is=600)
"""All ways through a kernel: four outputs are computed together, and one is left."""
FEW_ROWS = replace(SMALL, rows=3)
"""The same ways: a first, a middle and a last row."""
LEAST = Sizes(inputs=1, outputs=1, groups=2, rows=1, columns=5, pooled_columns=2, padded=True, as_it_is=60)
"""All arithmetic of a kernel, with as few products as can be."""


def small_programs(program: Program) -> Iterator[tuple[OpBase, Program | None]]:
    """Each different layer with a program of its smaller self; None for a large layer of another kind."""
    seen: set[str] = set()
    for op in program.ops:
        small = smaller(op, program, SMALL)
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


def smaller(op: OpBase, program: Program, sizes: Sizes) -> Program | None:
    """The layer as a program of its own, made as small as `sizes` says; None for a large layer of another kind."""
    shapes = [program.tensors[name].shape for name in op.inputs]
    if sum(program.tensors[name].elements for name in (*op.inputs, op.output)) <= sizes.as_it_is:
        return _program(op, program, shapes, program.tensors[op.output].shape)
    if any(len(shape) != 3 for shape in shapes):
        return None
    if isinstance(op, Conv2d):
        return _small_convolution(op, program, shapes[0], sizes)
    if isinstance(op, Pool):
        height, width = _small_sides(shapes[0], (op.window,), sizes)
        out = (sizes.outputs, *op.window.output_hw(height, width))
        return _program(op, program, [(sizes.outputs, height, width)], out)
    if isinstance(op, Concat):
        parts = [(sizes.inputs + i, 3, 5) for i in range(len(shapes))]
        return _program(op, program, parts, (sum(part[0] for part in parts), 3, 5))
    if isinstance(op, Upsample):
        return _program(op, program, [(3, 3, 5)], (3, 3 * op.scale_h, 5 * op.scale_w))
    if isinstance(op, Add | Mul | Activation) and len(set(shapes)) == 1:
        own = replace(op, stage=_small_stage(op.stage, sizes.outputs))
        return _program(own, program, [(sizes.outputs, 3, 5)] * len(shapes), (sizes.outputs, 3, 5))
    return None


def _small_convolution(op: Conv2d, program: Program, shape: tuple[int, ...], sizes: Sizes) -> Program:
    outputs, inputs = op.weight.shape[0] // op.groups, op.weight.shape[1]
    groups, inputs = min(op.groups, sizes.groups), min(inputs, sizes.inputs)
    outputs = min(outputs, sizes.outputs)
    windows = (op.window, op.pool.window) if op.pool else (op.window,)
    height, width = _small_sides(shape, windows, replace(sizes, columns=sizes.pooled_columns) if op.pool else sizes)
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


def _small_sides(shape: tuple[int, ...], windows: tuple[Window, ...], sizes: Sizes) -> tuple[int, int]:
    """Height and width for the outputs of these windows, one behind the other; never more than there are."""

    def needed(spans: list[int], strides: list[int], pads: list[int], side: int, outputs: int) -> int:
        wanted = outputs
        for span, stride, pad in zip(reversed(spans), reversed(strides), reversed(pads), strict=True):
            wanted = max(1, (wanted - 1) * stride + span - (pad if sizes.padded else 0))
        step = int(np.prod(strides))
        return min(side, wanted + (side - wanted) % step)

    return (
        needed(
            [w.span_h for w in windows],
            [w.stride_h for w in windows],
            [w.pad_top + w.pad_bottom for w in windows],
            shape[1],
            sizes.rows,
        ),
        needed(
            [w.span_w for w in windows],
            [w.stride_w for w in windows],
            [w.pad_left + w.pad_right for w in windows],
            shape[2],
            sizes.columns,
        ),
    )


def _program(op: OpBase, program: Program, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> Program:
    """A program of one layer, whose inputs are x0, x1 ..., and whose output is y."""
    names = tuple(f"x{i}" for i in range(len(inputs)))
    tensors: dict[str, Tensor] = {}
    for own, old, shape in zip((*names, "y"), (*op.inputs, op.output), (*inputs, output), strict=True):
        tensors[own] = replace(program.tensors[old], name=own, shape=shape)
    return Program("net", tensors, (replace(op, name="layer", inputs=names, output="y"),), names, ("y",))
