"""Ranges from a model in QDQ form: what its activation scales stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx

_STORAGE = tuple(np.dtype(name) for name in ("i1", "u1", "i2", "u2"))


def read_qdq_ranges(model: onnx.ModelProto) -> dict[str, ValueRange]:
    """The ranges that a QDQ model's activation scales stand for, by the name of the value that is quantised.

    Only 8- and 16-bit per-tensor QuantizeLinear nodes of computed values count; weights have none of their own.
    Raises ModelError for a scale or zero point that is computed at run time.
    """
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    ranges: dict[str, ValueRange] = {}
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] in constants:
            continue
        if any(name not in constants for name in node.input[1:]):
            raise ModelError(
                "its scale or zero point is computed at run time",
                where=node.name or node.output[0],
                remedy="export the model with scales and zero points as constants",
            )
        scale = np.atleast_1d(constants[node.input[1]])
        zero = constants[node.input[2]] if len(node.input) > 2 else np.zeros((), np.uint8)
        if scale.size != 1 or zero.dtype not in _STORAGE:
            continue
        info = np.iinfo(zero.dtype)
        low, high = (float(scale[0]) * (end - int(np.atleast_1d(zero)[0])) for end in (info.min, info.max))
        ranges[node.input[0]] = ValueRange(low, high, low, high)
    return ranges
