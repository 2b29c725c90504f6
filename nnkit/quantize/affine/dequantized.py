"""The float network that a quantised one stands for, to be quantised anew by a target that has other integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.graph import Model
from nnkit.quantize.affine.qdq_import import read_qdq

if TYPE_CHECKING:
    import onnx

_UPPER = 6.0  # of Relu6


def dequantized(model: Model) -> Model:
    """The network without its roundings; weights and biases are the numbers that their integers stand for.

    What quantisation itself cuts off stays cut off: what is negative, and what is above 6 where a format ends there,
    as writers of QDQ models leave Relu and Relu6 out. Other ends of formats are those of calibration and go.

    Raises ModelError where the network is not quantised, or a scale is computed at run time.
    """
    import onnx

    parts = read_qdq(model.proto())
    proto = parts.float_model
    nodes = [node for each in proto.graph.node for node in _bounded(each, parts.ranges, proto.graph)]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    shaped = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    return replace(model, onnx_bytes=shaped.SerializeToString(deterministic=True))


def _bounded(
    node: onnx.NodeProto, ranges: Mapping[str, ValueRange], graph: onnx.GraphProto
) -> Sequence[onnx.NodeProto]:
    """The node; for a Relu whose format ends at 6 a Clip."""
    from onnx import helper, numpy_helper

    known = ranges.get(node.output[0])
    if node.op_type != "Relu" or known is None or abs(known.high - _UPPER) > _UPPER / 255:
        return [node]
    bounds = {f"{node.output[0]}.{name}": bound for name, bound in (("low", 0.0), ("high", _UPPER))}
    graph.initializer.extend(numpy_helper.from_array(np.array(v, np.float32), k) for k, v in bounds.items())
    return [helper.make_node("Clip", [node.input[0], *bounds], list(node.output), name=node.name)]
