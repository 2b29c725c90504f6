"""What lies between the two products of a resize on the cv18xx, moved to lie around zero.

These chips have no unsigned values: of a map that is nowhere negative, as behind a ReLU, 8 bits use 7. The first of a
resize's products has a bias that takes half of the largest value away, and the second one that gives it back, as the
shares of every pixel add up to one. Between them there are twice as many steps then, for two biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.program import TpuConv, TpuGraph, TpuMatMul, TpuOp, TpuPermute


def centred_maps(graph: TpuGraph, ranges: Mapping[str, ValueRange]) -> TpuGraph:
    """The graph with such biases in the products of `enlarging.py`; ranges: by value, as they become thresholds."""
    changed: dict[str, TpuOp] = {}
    for op in graph.ops:
        if not isinstance(op, TpuMatMul) or op.weight is None or op.bias is not None:
            continue
        turned = graph.producer(op.inputs[0])
        first = graph.producer(turned.inputs[0]) if isinstance(turned, TpuPermute) else None
        if not isinstance(turned, TpuPermute) or not isinstance(first, TpuConv) or not _are_shares(op, first):
            continue
        known = ranges.get(first.range_of)
        if known is None or known.low < 0 or len(graph.consumers(first.output)) > 1:
            continue
        half = np.float32(known.high / 2)
        bias = np.full(len(first.weight), -half, np.float32)
        changed[first.output] = replace(first, bias=bias, within=float(half))
        changed[turned.output] = replace(turned, within=float(half))
        changed[op.output] = replace(op, bias=np.full(op.weight.shape[1], half, np.float32))
    ops = tuple(changed.get(op.output, op) for op in graph.ops)
    return replace(graph, ops=ops) if changed else graph


def _are_shares(second: TpuMatMul, first: TpuConv) -> bool:
    """Whether both are made up for a resize, in integers, and results are shares of values that add up to one."""
    made_up = first.range_of not in ("", first.output) and not {"hp"}.intersection((*first.tags, *second.tags))
    if not made_up or second.weight is None or first.bias is not None or first.group > 1:
        return False
    sums = (first.weight.sum(axis=(1, 2, 3)), second.weight.sum(axis=0))
    least = min(float(first.weight.min()), float(second.weight.min()))
    return least >= 0 and all(np.allclose(each, 1.0, atol=1e-5) for each in sums)
