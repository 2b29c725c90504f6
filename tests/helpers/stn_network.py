"""A small network with a spatial transformer: localisation, warp, features; and its parts run one after another."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnkit.custom_ops import WarpPerspective, infer_shapes
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite.stn_split import StnSplit

SIDE, OUT = 20, (12, 10)


class StnNet:
    """Builds `image [1, 3, 20, 20] -> localisation -> matrix [1, 9] -> warp [1, 3, 12, 10] -> conv -> feature`."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        near = np.array([1.2, 0.1, 2.0, -0.1, 1.1, 1.0, 0.002, 0.001, 1.0])
        arrays = {
            "loc_w": rng.normal(0, 1, (4, 3, 5, 5)) / 9,
            "fc_w": rng.normal(0, 1, (64, 9)) * np.array([0.02, 0.02, 0.5, 0.02, 0.02, 0.5, 1e-4, 1e-4, 0.01]),
            "fc_b": near,
            "net_w": rng.normal(0, 1, (6, 3, 12, 10)) / 19,
        }
        self.constants = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
        self.image = "image"
        self.nodes = [
            helper.make_node("Conv", ["image", "loc_w"], ["loc"], name="loc", strides=[5, 5]),
            helper.make_node("Tanh", ["loc"], ["tanh"], name="tanh"),
            helper.make_node("Flatten", ["tanh"], ["flat"], name="flat"),
            helper.make_node("Gemm", ["flat", "fc_w", "fc_b"], ["matrix"], name="stn_fc"),
            WarpPerspective(out_h=OUT[0], out_w=OUT[1]).node(["image", "matrix"], ["warped"], "warp"),
            helper.make_node("Conv", ["warped", "net_w"], ["conv"], name="conv"),
            helper.make_node("Flatten", ["conv"], ["feature"], name="feature"),
        ]
        self.outputs = ["feature"]

    def model(self, hp: tuple[str, ...] = ()) -> Model:
        inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.nnkit", 1)]
        proto = infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=9), strict=True)
        onnx.checker.check_model(proto)
        shapes = [tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in proto.graph.output]
        return Model(
            proto.SerializeToString(),
            LayerTags({name: ValueTags(hp=True, origins=(name,)) for name in hp}),
            (InputSpec("image", (1, 3, SIDE, SIDE)),),
            tuple(OutputSpec(name, shape) for name, shape in zip(self.outputs, shapes, strict=True)),
            17,
        )


def images() -> list[dict[str, np.ndarray]]:
    """Four samples of the network's input."""
    rng = np.random.default_rng(0)
    return [{"image": rng.uniform(0, 255, (1, 3, SIDE, SIDE)).astype(np.float32)} for _ in range(4)]


def run_in_parts(split: StnSplit, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of STN, warp and NET one after another, in float32; NET reads the warped image alone."""
    matrix = FloatSession(split.stn).run(inputs)[split.matrix]
    warped = split.warp.run(inputs[split.image], matrix.reshape(-1))[0]
    return FloatSession(split.net).run({split.warped: warped})
