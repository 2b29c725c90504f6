"""Writes the trained network as ONNX, in the shape an exporter gives it: nothing folded, nothing fused.

The graph is written node by node, so that equal weights give equal bytes and layers keep their names.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from network import DESCRIPTOR_SIZE, FIRES, INPUT_SIZE, PIXEL_DEVIATION, PIXEL_MEAN, POOLS, DescriptorNet
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8


class _Graph:
    """Nodes and weights in the order they are added; every adder returns the name of its output."""

    def __init__(self, weights: dict[str, npt.NDArray[np.float32]]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._weights = weights

    def constant(self, name: str, value: npt.NDArray[np.float32]) -> str:
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def parameter(self, name: str) -> str:
        return self.constant(name, self._weights[name])

    def conv_norm(self, name: str, source: str, *, stride: int = 1, pad: int = 0) -> str:
        weight = f"{name}.conv.weight"
        kernel = list(self._weights[weight].shape[2:])
        convolved = self.node(
            "Conv",
            f"{name}.conv",
            source,
            self.parameter(weight),
            kernel_shape=kernel,
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=1,
        )
        kinds = ("weight", "bias", "running_mean", "running_var")
        statistics = [self.parameter(f"{name}.bn.{kind}") for kind in kinds]
        normed = self.node("BatchNormalization", f"{name}.bn", convolved, *statistics, epsilon=1e-5)
        return self.node("Relu", f"{name}.relu", normed)


def to_onnx(network: DescriptorNet) -> onnx.ModelProto:
    """The network as an ONNX model with input `image` [batch, 1, 128, 128] and output `descriptor` [batch, 512]."""
    weights = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    graph = _Graph(weights)
    scalar = np.ones((1, 1, 1, 1), dtype=np.float32)
    value = graph.node("Sub", "normalize.sub", "image", graph.constant("normalize.mean", scalar * PIXEL_MEAN))
    deviation = graph.constant("normalize.deviation", scalar * PIXEL_DEVIATION)
    value = graph.node("Div", "normalize.div", value, deviation)
    value = graph.node(
        "Conv",
        "conv1",
        value,
        graph.parameter("conv1.weight"),
        graph.parameter("conv1.bias"),
        kernel_shape=[1, 1],
        strides=[1, 1],
        pads=[0] * 4,
        dilations=[1, 1],
        group=1,
    )
    value = graph.conv_norm("features.0", value, stride=2)
    for place in sorted((*FIRES, *POOLS)):
        name = f"features.{place}"
        if place in POOLS:
            value = graph.node("MaxPool", name, value, kernel_shape=[3, 3], strides=[2, 2])
            continue
        squeezed = graph.conv_norm(f"{name}.squeeze", value)
        narrow = graph.conv_norm(f"{name}.expand1x1", squeezed)
        wide = graph.conv_norm(f"{name}.expand3x3", squeezed, pad=1)
        value = graph.node("Concat", f"{name}.concat", narrow, wide, axis=1)
    value = graph.node("GlobalAveragePool", "pool", value)
    graph.nodes.append(helper.make_node("Flatten", [value], ["descriptor"], name="flatten", axis=1))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "face_descriptor",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, INPUT_SIZE, INPUT_SIZE])],
            [helper.make_tensor_value_info("descriptor", TensorProto.FLOAT, ["batch", DESCRIPTOR_SIZE])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="gap8_reid/train.py",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
