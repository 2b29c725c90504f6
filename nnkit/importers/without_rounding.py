"""A quantised network whose values are not rounded, so that two spellings of it can be compared as floats.

Where a sum lies half between two integers, the last bit of a float decides which one QuantizeLinear takes, and
operators of different operator sets differ by that bit.
"""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from nnkit.importers.tidy import constants_to_initializers

Steps = frozenset[tuple[bytes, ...]]
"""Scales and zero points."""


def without_rounding(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, Steps]:
    """A copy without what QuantizeLinear and DequantizeLinear do one behind the other, and their steps."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    constants_to_initializers(model.graph)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    rounded = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    steps: set[tuple[bytes, ...]] = set()
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in rounded:
            continue
        source = rounded[node.input[0]]
        if source.input[0] in constants:
            continue
        for each in (source, node):
            read = [constants[name] for name in each.input[1:] if name in constants]
            steps.add(tuple(numpy_helper.to_array(tensor).tobytes() for tensor in read))
        node.CopyFrom(helper.make_node("Identity", [source.input[0]], list(node.output), node.name))
    return model, frozenset(steps)
