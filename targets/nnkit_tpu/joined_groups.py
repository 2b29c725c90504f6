"""Convolutions of many small groups, as convolutions of fewer and larger ones, on the BM chips.

Such a chip multiplies as many channels at once as it has lanes (in 16 bits half as many), and takes the groups of a
convolution one after another: twelve of 16 channels take as long as twelve of 64. Groups that lie beside one another
are joined as long as their channels fit the lanes; the weights between one group's inputs and another's results are
zeros. Every sum stays what it was, and the model does not grow: the compiler fills each group's weights up to the
lanes anyway.

In INT8 this also keeps from most of what the compiler cannot do outside of layer groups: see
`layer_group/lone_convolutions.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnkit_tpu.chips import chip_named
from nnkit_tpu.program import Mode, TpuConv, TpuGraph, TpuOp


def joined_groups(graph: TpuGraph, chip: str, mode: Mode) -> TpuGraph:
    """The float graph with groups of convolutions joined; mode: of convolutions without integers of their own."""
    if chip_named(chip).is_cv:
        return graph
    ops = tuple(_joined(op, _channels_at_once(op, chip_named(chip).lanes, mode)) for op in graph.ops)
    return graph if all(a is b for a, b in zip(ops, graph.ops, strict=True)) else replace(graph, ops=ops)


def _channels_at_once(op: TpuOp, lanes: int, mode: Mode) -> int:
    """Channels that the chip multiplies at once in the precision of a convolution; 0 in float32, and of other ops."""
    if not isinstance(op, TpuConv):
        return 0
    if op.weight_scale:
        return lanes
    if mode == "F32":
        return 0
    return lanes if mode == "INT8" and "hp" not in op.tags else lanes // 2


def _joined(op: TpuOp, channels: int) -> TpuOp:
    """The op with as many groups in one as `channels` hold; a depthwise convolution, which is another unit's, as it
    is."""
    if not channels or not isinstance(op, TpuConv) or op.group == 1:
        return op
    inputs, outputs = op.weight.shape[1], op.weight.shape[0] // op.group
    if inputs == outputs == 1:
        return op
    fits = [n for n in range(2, op.group + 1) if op.group % n == 0 and n * max(inputs, outputs) <= channels]
    if not fits:
        return op
    joined = fits[-1]
    of_group = op.weight.reshape(-1, joined, outputs, inputs, *op.weight.shape[2:])
    weight = np.zeros((len(of_group), joined, outputs, joined, *of_group.shape[3:]), op.weight.dtype)
    for each in range(joined):
        weight[:, each, :, each] = of_group[:, each]
    shape = (op.weight.shape[0], joined * inputs, *op.weight.shape[2:])
    return replace(op, weight=weight.reshape(shape), group=op.group // joined, joined=joined)
