"""An operator in float between integers, worked by hand."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from nnkit.program.affine import AffineOnnx, AffineTensor
from nnkit.program.formats import Affine


def test_real_values_go_in_by_their_order_and_the_nearest_stored_ones_come_out() -> None:
    """x = (q - 2) / 2 and y = q / 4 of two images; x - y is stored in steps of 1 around 10, ties to even."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Sub", ["x", "y"], ["z"])], "operator", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tensors = {
        "x": AffineTensor("x", (3,), Affine(8, (0.5,), (2,))),
        "y": AffineTensor("y", (3,), Affine(8, (0.25,), (0,))),
        "z": AffineTensor("z", (3,), Affine(8, (1.0,), (10,))),
    }
    op = AffineOnnx(
        name="sub",
        inputs=("x", "y"),
        output="z",
        tags=(),
        origins=(),
        operator="Sub",
        model=model.SerializeToString(),
    )
    x, y = np.array([[2, 4, 9], [0, 255, 2]], np.uint8), np.array([[0, 1, 8], [255, 0, 1]], np.uint8)
    # 0 - 0, 1 - 0.25, 3.5 - 2; -1 - 63.75, 126.5 - 0, 0 - 0.25
    stored = op.compute_many([x, y], tensors)
    assert stored.tolist() == [[10, 11, 12], [0, 136, 10]]
