"""What moves stored integers: reshapes, transposes, slices, pads, nearest upsampling.

The op itself is asked where each element of its output comes from; the C is loops over constant steps where those
indices have them, and a table of indices otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Call, Code, Kernel, Table, View, logical, physical, suffix
from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineMove, AffineTensor

_AXES = 6


def move_code(op: AffineMove, source: AffineTensor, output: AffineTensor) -> Code:
    """A view where nothing moves; otherwise one call. Raises Refused for more elements than 2^31."""
    if source.elements >= 1 << 31 or output.elements >= 1 << 31:
        raise Refused("it has more than 2^31 elements")
    origins = _origins(op, source, output)
    if np.array_equal(origins, np.arange(source.elements)):
        return (View(op.inputs[0], op.output),)
    axes = _axes(origins) if origins.min() >= 0 else None
    variant = (("x", suffix(source)),)
    if axes is None:
        numbers = {"count": output.elements, "pad_value": op.pad_value}
        kernel = Kernel("move", "gather", variant)
        return (Call(kernel, numbers, op.inputs, op.output, {"map": Table("ints", origins)}),)
    counts = [1] * (_AXES - len(axes)) + [count for count, _ in axes]
    steps = [0] * (_AXES - len(axes)) + [step for _, step in axes]
    targets = [int(np.prod(counts[axis + 1 :])) for axis in range(_AXES)]
    numbers = {"x_start": int(origins[0]), "y_start": 0}
    for axis in range(_AXES):
        numbers |= {f"n{axis}": counts[axis], f"s{axis}": steps[axis], f"t{axis}": targets[axis]}
    return (Call(Kernel("move", "move", variant), numbers, op.inputs, op.output),)


def _origins(op: AffineMove, source: AffineTensor, output: AffineTensor) -> NDArray[np.int64]:
    """For each element of the output, as it lies in memory, the index of the element it comes from; -1: padding."""
    indices = logical(np.arange(source.elements), source.shape)[None]
    marked = replace(op, pad_value=-1)
    return physical(marked.moved(indices, output.shape)[0]).reshape(-1).astype(np.int64)


def _axes(origins: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """(count, step) of nested loops that run through these indices, outermost first; None for more than there are."""
    axes: list[tuple[int, int]] = []
    while origins.size > 1:
        if len(axes) == _AXES:
            return None
        steps = np.diff(origins)
        different = np.flatnonzero(steps != steps[0])
        run = int(different[0]) + 1 if different.size else origins.size
        while run > 1:
            if origins.size % run == 0:
                rows = origins.reshape(-1, run)
                if np.array_equal(rows, rows[:, :1] + steps[0] * np.arange(run)):
                    break
            run -= 1
        if run == 1:
            return None
        axes.insert(0, (run, int(steps[0])))
        origins = origins[::run]
    return axes
