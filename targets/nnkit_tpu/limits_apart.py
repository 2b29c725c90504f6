"""Limits of a ReLU as ops of their own, for the cv18xx.

In BF16 the compiler makes two ops of one with a limited ReLU, and gives the limited values to one of its readers
alone: all others, and the output that the value may be, get them without the limit. Where a value is needed more
than once, it is written with a Clip of its own.

In an INT8 network the compiler takes such a Clip out again, as what reads the value in INT8 cuts it off there: the
value itself is then not limited where it lies, and cannot be shown (`unlike_inside`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnkit_tpu.program import TpuActivation, TpuGraph, TpuOp, TpuRectified


def limits_apart(graph: TpuGraph) -> TpuGraph:
    """A graph in BF16 with these Clips."""
    uses = Counter([*graph.outputs, *(name for op in graph.ops for name in op.inputs)])
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        limit, name = _limit(op), op.output
        if not np.isfinite(limit) or uses[name] < 2:
            ops.append(op)
            continue
        before = f"{name}_unlimited"
        tensors[before] = replace(graph.tensors[name], name=before)
        ops.append(_unlimited(op, before))
        clip = TpuActivation(name=name, inputs=(before,), output=name, function="clip", bounds=(0.0, limit))
        ops.append(clip)
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def unlike_inside(graph: TpuGraph, modes: Mapping[str, str]) -> set[str]:
    """The values of an INT8 network that do not lie there as they are read: without their limit in BF16, and before a
    limited ReLU of its own, which is cut off to what that gives. modes: precisions other than INT8, by value."""
    limited = [op for op in graph.ops if np.isfinite(_limit(op))]
    unlimited = {op.output for op in limited if modes.get(op.output) == "BF16"}
    return unlimited | {op.inputs[0] for op in limited if isinstance(op, TpuActivation)}


def _limit(op: TpuOp) -> float:
    """Where the op's ReLU ends; infinite without a limit."""
    if isinstance(op, TpuRectified):
        return op.upper_limit
    return op.bounds[1] if isinstance(op, TpuActivation) and op.function == "relu" else np.inf


def _unlimited(op: TpuOp, output: str) -> TpuOp:
    if isinstance(op, TpuRectified):
        return replace(op, output=output, relu_limit=-1.0)
    if isinstance(op, TpuActivation):
        return replace(op, output=output, bounds=(0.0, np.inf))
    raise AssertionError("an op with a limit")
