"""Ranges from a model in QDQ form: what its activation scales stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError
from nnkit.program import Affine

if TYPE_CHECKING:
    import onnx

_STORAGE = tuple(np.dtype(name) for name in ("i1", "u1", "i2", "u2"))


def read_qdq_ranges(model: onnx.ModelProto) -> dict[str, ValueRange]:
    """The ranges that a QDQ model's activation scales stand for, by the name of the value that is quantised.

    Which values, and what it raises: see `read_qdq_formats`.
    """
    ranges = {}
    for name, form in read_qdq_formats(model).items():
        low, high = (form.scale[0] * (end - form.zero_point[0]) for end in (form.qmin, form.qmax))
        ranges[name] = ValueRange(low, high, low, high)
    return ranges


def read_qdq_formats(model: onnx.ModelProto) -> dict[str, Affine]:
    """How a QDQ model stores its values, by the name of the value that is quantised.

    Only 8- and 16-bit per-tensor QuantizeLinear nodes of computed values count; weights have none of their own.
    Raises ModelError for a scale or zero point that is computed at run time.
    """
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    formats: dict[str, Affine] = {}
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
        if scale.size == 1 and zero.dtype in _STORAGE:
            info = np.iinfo(zero.dtype)
            point = int(np.atleast_1d(zero)[0])
            formats[node.input[0]] = Affine(info.bits, (float(scale[0]),), (point,), signed=info.min < 0)
    return formats
