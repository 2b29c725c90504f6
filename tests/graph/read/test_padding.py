"""`auto_pad` in numbers, against ONNX Runtime: the same window with the numbers written out gives the same values."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnkit.graph.read.padding import explicit_pads

SIZE = (7, 10)


def _run(op: str, **attributes: Any) -> np.ndarray:
    random = np.random.default_rng(3)
    x = random.normal(0, 1, (1, 2, *SIZE)).astype(np.float32)
    feeds = {"x": x}
    if op == "Conv":
        feeds["w"] = random.normal(0, 1, (3, 2, *attributes["kernel_shape"])).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(op, list(feeds), ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_automatic_padding(op: str, auto_pad: str) -> None:
    for kernel, strides in product([(1, 2), (3, 2), (4, 5)], [(1, 1), (2, 3), (3, 1)]):
        window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        wanted = _run(op, auto_pad=auto_pad, **window)
        pads = explicit_pads(
            auto_pad,
            (9, 9, 9, 9),
            kernel=kernel,
            strides=strides,
            dilations=(1, 1),
            input_hw=SIZE,
            output_hw=wanted.shape[2:],
        )
        np.testing.assert_allclose(_run(op, pads=pads, **window), wanted, rtol=1e-5, atol=1e-5, err_msg=f"{window}")


def test_a_dilated_kernel_reaches_further() -> None:
    """A 3x3 kernel with gaps of 1 and 2 covers 5 rows and 7 columns: 2 and 3 more on either side."""
    given = {"kernel": (3, 3), "strides": (1, 1), "dilations": (2, 3), "input_hw": SIZE, "output_hw": SIZE}
    assert explicit_pads("SAME_UPPER", (), **given) == (2, 3, 2, 3)
    assert explicit_pads("NOTSET", (1, 2, 3, 4), **given) == (1, 2, 3, 4)
