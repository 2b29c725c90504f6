"""Numbers that the results of matrix products and convolutions are multiplied by, in their weights.

The compiler takes a factor into the product right before it; between the two there often are reshapes and a
transposition, as of the query of an attention. In INT8 the integers are the same, and a layer less is computed.
Into a convolution it takes a factor behind a reshape, too, and in INT8 lacks the threshold of what it has made then.
Where a value has four axes, as one of several heads, a number that it is multiplied by comes as a depthwise
convolution; it is a number again. Reshapes of reshaped values that are left then are one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nnkit_tpu.compiler_thresholds import scaled_by
from nnkit_tpu.places import in_place_of
from nnkit_tpu.program import (
    FloatArray,
    TpuBinary,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReshape,
    TpuTensor,
)

_LEAST_FACTOR = 2.0**-7
"""Heads have larger ones. Smaller ones scale residual branches, whose threshold would be next to nothing."""


def as_numbers(graph: TpuGraph) -> TpuGraph:
    """The graph with a product with a number for every depthwise convolution that but multiplies by one."""
    ops = tuple(_by_a_number(op) if isinstance(op, TpuConv) else op for op in graph.ops)
    return graph if ops == graph.ops else replace(graph, ops=ops)


def factors_in_weights(graph: TpuGraph) -> TpuGraph:
    """The graph without such factors where something lies between them and their products."""
    reads = Counter((*graph.outputs, *(name for op in graph.ops for name in op.inputs)))
    made = {op.output: op for op in graph.ops}
    tensors, factors = dict(graph.tensors), set[str]()
    instead: dict[str, TpuOp] = {}  # by the value of the op in whose place it stands
    for op in graph.ops:
        factor = scaled_by(op)
        between = _way_to_product(made, op.inputs[0], reads) if factor and not op.tags else []
        if factor is None or len(between) < 2:
            continue
        factors.add(op.output)
        names = {each.output: f"{op.output}_times_{number}" for number, each in enumerate(between)}
        names[between[0].output] = op.output
        for each in between:
            scaled = _scaled(each, factor) if isinstance(each, TpuMatMul | TpuConv) else each
            instead[each.output] = replace(
                scaled,
                inputs=tuple(names.get(name, name) for name in each.inputs),
                output=names[each.output],
                range_of=op.range_of or op.output,
                origins=tuple(dict.fromkeys((*each.origins, *op.origins))),
            )
            tensors[names[each.output]] = TpuTensor(names[each.output], tensors.pop(each.output).shape)
    if not factors:
        return graph
    ops = tuple(instead.get(op.output, op) for op in graph.ops if op.output not in factors)
    return reshaped_once(replace(graph, tensors=tensors, ops=ops))


def _by_a_number(op: TpuConv) -> TpuOp:
    """The product with a number that a depthwise convolution is; the convolution where it computes more."""
    factors, shifted = op.weight.reshape(-1), op.bias is not None and np.any(op.bias)
    alike = op.is_of_channels() and np.all(factors == factors[0])
    if not alike or shifted or op.relu or abs(factors[0]) < _LEAST_FACTOR:
        return op
    return TpuBinary(
        **in_place_of(op),
        function="mul",
        constant=factors[:1].reshape((1,) * op.weight.ndim),
    )


def _way_to_product(made: dict[str, TpuOp], name: str, reads: Counter[str]) -> list[TpuOp]:
    """A product with constant weights, or a convolution, and what moves its result to the value, each read once; or
    nothing."""
    way: list[TpuOp] = []
    while (op := made.get(name)) is not None and reads[name] == 1 and not op.tags:
        way.append(op)
        if isinstance(op, TpuMatMul):
            return way if op.weight is not None and not op.relu else []
        if isinstance(op, TpuConv):
            return [] if op.relu or op.weight_scale or op.is_of_channels() else way
        if not isinstance(op, TpuReshape | TpuPermute):
            return []
        name = op.inputs[0]
    return []


def _scaled(op: TpuMatMul | TpuConv, factor: float) -> TpuMatMul | TpuConv:
    def times(values: FloatArray) -> FloatArray:
        return (values.astype(np.float64) * factor).astype(np.float32)

    bias = None if op.bias is None else times(op.bias)
    if isinstance(op, TpuConv):
        return replace(op, weight=times(op.weight), bias=bias)
    return replace(op, weight=None if op.weight is None else times(op.weight), bias=bias)


def reshaped_once(graph: TpuGraph) -> TpuGraph:
    """The graph with one reshape where one that is read once is reshaped again, and none where the shape stays."""
    reads = Counter((*graph.outputs, *(name for op in graph.ops for name in op.inputs)))
    made: dict[str, TpuOp] = {}
    same: dict[str, str] = {}
    for each in graph.ops:
        op = replace(each, inputs=tuple(same.get(name, name) for name in each.inputs))
        if isinstance(op, TpuReshape) and not op.tags:
            before = made.get(op.inputs[0])
            if isinstance(before, TpuReshape) and reads[before.output] == 1 and not before.tags:
                del made[before.output]
                op = replace(op, inputs=before.inputs)
            source = op.inputs[0]
            if graph.tensors[source].shape == graph.tensors[op.output].shape and op.output not in graph.outputs:
                same[op.output] = source
                reads[source] += reads[op.output] - 1
                continue
        made[op.output] = op
    names = {*graph.inputs, *made}
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in names}
    return replace(graph, tensors=tensors, ops=tuple(made.values()))
