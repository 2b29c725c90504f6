"""Limits of a ReLU as ops of their own, for the cv18xx.

In BF16 the compiler makes two ops of one with a limited ReLU, and gives the limited values to one of its readers
alone: all others, and the output that the value may be, get them without the limit. Where a value is needed more
than once, it is written with a Clip of its own.

That ends below at minus the limit, where nothing is: in an INT8 network the compiler takes a Clip from 0 for a
limited ReLU again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.program import TpuActivation, TpuGraph, TpuOp, TpuRectified


def limits_apart(graph: TpuGraph, ranges: dict[str, ValueRange] | None, modes: dict[str, str], mode: str) -> TpuGraph:
    """The graph with these Clips; what is new gets ranges and modes. mode: of the whole network."""
    uses = Counter([*graph.outputs, *(name for op in graph.ops for name in op.inputs)])
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        limit, name = _limit(op), op.output
        if not np.isfinite(limit) or modes.get(name, mode) != "BF16" or uses[name] < 2:
            ops.append(op)
            continue
        before = f"{name}_unlimited"
        tensors[before] = replace(graph.tensors[name], name=before)
        if ranges is not None and name in ranges:
            ranges[before] = ranges[name]
        if name in modes:
            modes[before] = modes[name]
        ops.append(_unlimited(op, before))
        clip = TpuActivation(name=name, inputs=(before,), output=name, function="clip", bounds=(-limit, limit))
        ops.append(clip)
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def _limit(op: TpuOp) -> float:
    """Where the op's ReLU ends; infinite without a limit."""
    if isinstance(op, TpuRectified):
        return op.upper_limit
    is_relu = isinstance(op, TpuActivation) and op.function in ("relu", "clip") and op.bounds[0] == 0.0
    return op.bounds[1] if isinstance(op, TpuActivation) and is_relu else np.inf


def _unlimited(op: TpuOp, output: str) -> TpuOp:
    if isinstance(op, TpuRectified):
        return replace(op, output=output, relu_limit=-1.0)
    if isinstance(op, TpuActivation):
        return replace(op, output=output, function="relu", bounds=(0.0, np.inf))
    raise AssertionError("an op with a limit")
