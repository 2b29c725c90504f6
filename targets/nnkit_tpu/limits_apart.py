"""Limits of a ReLU as ops of their own, for the cv18xx.

In BF16 the compiler makes two ops of one with a limited ReLU, and gives the limited values to one of its readers
alone: all others, and the output that the value may be, get them without the limit. A concatenation takes a ReLU
behind it in, and leaves the limit out. There, and where a value is needed more than once, the limit is a Clip of its
own: behind a convolution's ReLU, in front of one that is an op.

The Clip ends below at minus the limit: in an INT8 network the compiler takes a Clip from 0 for a limited ReLU again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.places import known_as
from nnkit_tpu.program import TpuActivation, TpuConcat, TpuGraph, TpuOp, TpuRectified


def limits_apart(graph: TpuGraph, ranges: dict[str, ValueRange] | None, modes: dict[str, str], mode: str) -> TpuGraph:
    """The graph with these Clips; what is new gets ranges and modes. mode: of the whole network."""
    uses = Counter([*graph.outputs, *(name for op in graph.ops for name in op.inputs)])
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        limit, name = _limit(op), op.output
        taken_in = isinstance(op, TpuActivation) and isinstance(graph.producer(op.inputs[0]), TpuConcat)
        if not np.isfinite(limit) or modes.get(name, mode) != "BF16" or (uses[name] < 2 and not taken_in):
            ops.append(op)
            continue
        between = f"{name}_unlimited" if isinstance(op, TpuRectified) else f"{name}_limited"
        tensors[between] = replace(graph.tensors[name], name=between)
        known_as(between, name, ranges, modes)
        if isinstance(op, TpuRectified):
            ops += [replace(op, output=between, relu_limit=-1.0), _clip(between, limit, name)]
        else:
            relu = TpuActivation(name=name, inputs=(between,), output=name, function="relu", bounds=(0.0, np.inf))
            ops += [_clip(op.inputs[0], limit, between), relu]
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def _limit(op: TpuOp) -> float:
    """Where the op's ReLU ends; infinite without a limit."""
    if isinstance(op, TpuRectified):
        return op.upper_limit
    is_relu = isinstance(op, TpuActivation) and op.function in ("relu", "clip") and op.bounds[0] == 0.0
    return op.bounds[1] if isinstance(op, TpuActivation) and is_relu else np.inf


def _clip(given: str, limit: float, result: str) -> TpuActivation:
    return TpuActivation(name=result, inputs=(given,), output=result, function="clip", bounds=(-limit, limit))
