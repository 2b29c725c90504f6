"""A ReLU that is an output of the network, behind a transposition: taken before it.

The compiler moves such a ReLU before the transposition, and into what is computed there, by itself. The value that
is left as the output has another name then, and a model that is asked for the network's output has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnkit.graph.view import Shape
from nnkit_tpu.program import TpuActivation, TpuOp, TpuPermute


def rectified_before_turned(
    ops: Sequence[TpuOp], outputs: Sequence[str], shape: Callable[[str], Shape]
) -> tuple[tuple[TpuOp, ...], dict[str, Shape]]:
    """The ops with such ReLUs first, and the shapes of the values that are new. shape: of a value."""
    made = {op.output: op for op in ops}
    shapes: dict[str, Shape] = {}
    for op in ops:
        turned = made.get(op.inputs[0])
        rectifies = isinstance(op, TpuActivation) and op.function == "relu" and op.output in outputs
        if not rectifies or not isinstance(turned, TpuPermute) or turned.output in outputs or op.tags or turned.tags:
            continue
        if sum(turned.output in each.inputs for each in ops) > 1:
            continue
        before = f"{op.output}_before"
        shapes[before] = shape(turned.inputs[0])
        made[turned.output] = replace(op, inputs=turned.inputs, output=before, range_of=op.output)
        made[op.output] = replace(turned, inputs=(before,), output=op.output)
    return tuple(made.values()), shapes
