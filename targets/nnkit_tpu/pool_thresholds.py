"""Thresholds of averages and sums over axes on the cv18xx, with which their multipliers lose nothing.

The multiplier of an average has 7 bits and is cut off: all averages of all images may come out 1.6 % too small, twice
what one step of 8 bits is. The result's threshold is free: one that is wider by as much makes the multiplier whole.
Means and sums over axes have such multipliers, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnkit_tpu.arithmetic import joint_multipliers
from nnkit_tpu.compiler_thresholds import Threshold
from nnkit_tpu.program import TpuGraph, TpuOp, TpuPool, TpuReduce

_STATED = 1e7  # thresholds are stated with seven decimals
_ABOVE = 1.0 + 2.0**-21  # times the whole number: the compiler computes in float32, and cuts off


def with_whole_multipliers(
    graph: TpuGraph, chosen: Mapping[str, Threshold], formats: Mapping[str, str]
) -> dict[str, Threshold]:
    """The thresholds, those of averages and sums over axes as much wider as makes their multipliers whole.

    formats: by tensor, a name of the format that it shares with others. An op whose result shares it with more than
    what is moved from it, as with other parts of a concatenation, keeps its threshold.
    """
    result = dict(chosen)
    makers = Counter(formats[op.output] for op in graph.ops if formats[op.output] != formats[op.inputs[0]])
    for op in graph.ops:
        root, values = formats[op.output], _values(op, graph.tensors[op.inputs[0]].shape)
        if values is None or makers[root] != 1:
            continue
        source, own = result[op.inputs[0]].value, result[op.output].value
        (multiplier,), shift = joint_multipliers(np.array([source / (values * own)]))
        if not multiplier:
            continue
        whole = math.floor(source * 2.0**shift / (values * multiplier * _ABOVE) * _STATED) / _STATED
        for name in (name for name in graph.tensors if formats[name] == root):
            result[name] = replace(result[name], value=whole)
    return result


def _values(op: TpuOp, shape: Sequence[int]) -> int | None:
    """What the op divides a sum by that its multiplier rescales; None: it has no such multiplier."""
    if isinstance(op, TpuPool) and op.function == "average":
        return op.window.kernel_h * op.window.kernel_w
    return op.divisor(shape) if isinstance(op, TpuReduce) and op.function in ("mean", "sum") else None
