"""Layers that read the same weights: the stripes of one layer, the steps of a recurrence. They are stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from nnkit.program import Conv2d, Convolution, OpBase, Program


def first_with_same_weights(program: Program) -> list[int]:
    """By op: the first op whose weights are stored as the same bytes; its own number where there is none."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(_stored_weights(op, program), index) for index, op in enumerate(program.ops)]


def _stored_weights(op: OpBase, program: Program) -> Hashable:
    """Equal only for ops whose blocks hold the same bytes, however a kernel packs them for channels and width."""
    if not isinstance(op, Convolution):
        return op.name
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    state = hashlib.sha256(op.weight.astype("<i4").tobytes() + op.bias.astype("<i4").tobytes())
    leaky = op.stage.leaky
    window = op.window
    return (
        type(op),
        state.hexdigest(),
        (op.weight.shape, op.weight_bits, op.bias_shift, op.groups, op.accumulator),
        (op.stage.shift, None if leaky is None else (leaky.slopes.tobytes(), leaky.shift)),
        (window.kernel_h, window.kernel_w, window.stride_w, window.dilation_w),
        (x.shape[0], x.shape[-1], x.format, y.elements == y.shape[0]),
        op.accumulate if isinstance(op, Conv2d) else "",
    )
