"""Thresholds of average pools on the cv18xx, with which their multipliers lose nothing.

The multiplier of an average has 7 bits and is cut off: all averages of all images may come out 1.6 % too small, twice
what one step of 8 bits is. The result's threshold is free: one that is wider by as much makes the multiplier whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnkit_tpu.arithmetic import joint_multipliers
from nnkit_tpu.compiler_thresholds import Threshold
from nnkit_tpu.program import TpuGraph, TpuPool

_STATED = 1e7  # thresholds are stated with seven decimals


def with_whole_multipliers(
    graph: TpuGraph, chosen: Mapping[str, Threshold], formats: Mapping[str, str]
) -> dict[str, Threshold]:
    """The thresholds, those of average pools as much wider as makes their multipliers whole.

    formats: by tensor, a name of the format that it shares with others. A pool whose result shares it with more than
    what is moved from it, as with other parts of a concatenation, keeps its threshold.
    """
    result = dict(chosen)
    makers = Counter(formats[op.output] for op in graph.ops if formats[op.output] != formats[op.inputs[0]])
    for op in graph.ops:
        root = formats[op.output]
        if not isinstance(op, TpuPool) or op.function != "average" or makers[root] != 1:
            continue
        source, own = result[op.inputs[0]].value, result[op.output].value
        pixels = op.window.kernel_h * op.window.kernel_w
        (multiplier,), shift = joint_multipliers(np.array([source / (pixels * own)]))
        if not multiplier:
            continue
        wider = math.floor(source * 2.0**shift / (pixels * multiplier) * _STATED) / _STATED
        for name in (name for name in graph.tensors if formats[name] == root):
            result[name] = replace(result[name], value=max(wider, own))
    return result
