"""Sums of reshaped values, taken before the reshapes.

A layer over one dimension becomes one over two between reshapes, and a residual sum stands between those. On the
values before them it is a layer among layers: in local memory on the cv18xx, where a reshape ends a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnkit.graph.view import Shape
from nnkit_tpu.lowering.repeated import needed
from nnkit_tpu.places import readers_of
from nnkit_tpu.program import TpuBinary, TpuOp, TpuReshape


def computed_before_reshapes(
    ops: Sequence[TpuOp], outputs: Sequence[str], shape: Callable[[str], Shape]
) -> tuple[tuple[TpuOp, ...], dict[str, Shape]]:
    """The ops with such sums, products ... before the reshapes, and the shapes of the values that are new.

    Only where both operands had one shape before and a reader goes back to it. shape: of a value.
    """
    readers = readers_of(ops)
    made: dict[str, TpuOp] = {}
    shapes: dict[str, Shape] = {}

    def known(name: str) -> Shape:
        return shapes.get(name) or shape(name)

    def source_of(name: str) -> str | None:
        """What was reshaped to the value, for the one op that reads it."""
        reshape = made.get(name)
        only = len(readers[name]) == 1 and name not in outputs
        return reshape.inputs[0] if only and isinstance(reshape, TpuReshape) and not reshape.tags else None

    for op in ops:
        made[op.output] = op
        if not isinstance(op, TpuBinary) or op.constant is not None or len(set(op.inputs)) != 2:
            continue
        left, right = (source_of(name) for name in op.inputs)
        if left is None or right is None or known(left) != known(right):
            continue
        after = {known(name) for name in (*op.inputs, op.output)}
        back = [each for each in readers.get(op.output, ()) if isinstance(each, TpuReshape)]
        if len(after) > 1 or all(known(each.output) != known(left) for each in back):
            continue
        before = f"{op.output}_unshaped"
        shapes[before] = known(left)
        del made[op.output]
        made[before] = replace(op, inputs=(left, right), output=before, range_of=op.range_of or op.output)
        made[op.output] = TpuReshape(name=f"{op.name}_shape", inputs=(before,), output=op.output)
    return needed(tuple(made.values()), outputs), shapes
