"""A convolution behind a padding with another value than zero, against ONNX Runtime on the exported model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate import calibrate
from nnkit.importers import import_onnx
from nnkit.program.affine import AffineConv
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.qdq_export import qdq_model
from nnkit.quantize.lowered import LoweredLayers
from nnkit.simulate import simulate_many
from tests.quantize.affine.test_affine_quantize import run_qdq

SHAPE = (1, 3, 6, 7)


def test_padding_with_a_value_is_exported_as_that_value_all_around(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    constants = {
        "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64),
        "value": np.float32(0.75),
        "w": rng.normal(0, 0.5, (4, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(0, 0.5, 4).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "value"], ["padded"], name="pad"),
            helper.make_node("Conv", ["padded", "w", "b"], ["y"], name="conv"),
        ],
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 7, 8))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx"
    )
    model = import_onnx(tmp_path / "n.onnx").model
    samples = list(rng.normal(0, 1, (8, *SHAPE[1:])).astype(np.float32))
    stats = calibrate(model, {"x": samples}, {}, method="mse")
    program = quantize_affine(LoweredLayers.of(model), stats, AffineScheme())
    (conv,) = (op for op in program.ops if isinstance(op, AffineConv))
    assert conv.pad_value != program.tensors["x"].format.zero_point
    x = np.stack(samples)
    (name,) = program.outputs
    found = program.tensors[name].format.quantize(run_qdq(qdq_model(program), {"x": x})[name]).astype(np.int64)
    ours = simulate_many(program, {"x": program.tensors["x"].format.quantize(x)})[name].astype(np.int64)
    assert np.abs(ours - found).max() <= 1
    assert (ours != found).mean() < 0.05
