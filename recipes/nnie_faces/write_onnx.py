"""Writes the trained networks as ONNX, node by node: nothing folded, nothing fused, layers named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from face_networks import (
    COMPONENTS,
    FACE_SIZE,
    MATRIX_STEP,
    PIXEL_DEVIATION,
    PIXEL_MEAN,
    STN_FEATURE,
    WARPED_SIZE,
    HalfFaceDescriptor,
    StnDescriptor,
    Trunk,
    base_matrix,
)
from onnx import TensorProto, helper, numpy_helper

OPSET = 13
IR_VERSION = 8
Table = dict[str, npt.NDArray[np.float32]]


class Graph:
    """Nodes and weights in the order they are added; every adder returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op: str, name: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, domain=domain, **attributes))
        return f"{name}_out"

    def trunk(self, prefix: str, trunk: Trunk, source: str) -> str:
        """Normalised pixels, convolutions with batch normalisation, a fully connected layer."""
        mean = self.constant(f"{prefix}_mean", np.full((1, 1, 1, 1), PIXEL_MEAN, np.float32))
        deviation = self.constant(f"{prefix}_deviation", np.full((1, 1, 1, 1), PIXEL_DEVIATION, np.float32))
        x = self.node("Sub", f"{prefix}_center", source, mean)
        x = self.node("Div", f"{prefix}_scale", x, deviation)
        for number, layer in enumerate(trunk.layers, start=1):
            name = f"{prefix}_conv{number}"
            values = {key: value.detach().numpy() for key, value in layer.state_dict().items()}
            weight = self.constant(f"{name}.weight", values["conv.weight"])
            x = self.node("Conv", name, x, weight, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
            kinds = ("weight", "bias", "running_mean", "running_var")
            statistics = [self.constant(f"{name}.bn.{kind}", values[f"bn.{kind}"]) for kind in kinds]
            x = self.node("BatchNormalization", f"{name}_bn", x, *statistics, epsilon=1e-5)
            x = self.node("Relu", f"{name}_relu", x)
        x = self.node("Flatten", f"{prefix}_flat", x, axis=1)
        return self.linear(f"{prefix}_fc", x, trunk.fc.weight.detach().numpy(), trunk.fc.bias.detach().numpy())

    def linear(self, name: str, source: str, weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> str:
        parameters = self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)
        return self.node("Gemm", name, source, *parameters, transB=1)

    def add_one_normalize(self, source: str, output: str) -> None:
        """x / sqrt(sum(x^2) + 1); the result is the network's output."""
        total = self.node("ReduceSum", "norm_total", self.node("Mul", "norm_square", source, source), self._axis())
        one = self.constant("norm_one", np.ones((1, 1), np.float32))
        root = self.node("Sqrt", "norm_root", self.node("Add", "norm_add_one", total, one))
        self.nodes.append(helper.make_node("Div", [source, root], [output], name="norm"))

    def _axis(self) -> str:
        return self.constant("norm_axis", np.array([1], np.int64))

    def model(self, inputs: dict[str, tuple[int, ...]], output: str, width: int, *, custom: bool) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "face",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, width])],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", OPSET)] + ([helper.make_opsetid("ai.nnkit", 1)] if custom else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="nnkit recipe")


def stn_graph(network: StnDescriptor) -> onnx.ModelProto:
    """Input `face` [1, 1, 112, 112], output `descriptor` [1, 192].

    The last layer gives moves of about 1 each; what makes them a matrix, whose entries lie 14 octaves apart, is two
    layers of their own, which a deployment can leave to a CPU.
    """
    graph = Graph()
    hidden = graph.node("Relu", "stn_relu", graph.trunk("stn", network.stn, "face"))
    weight = np.zeros((9, network.matrix.in_features), np.float32)
    weight[:8] = network.matrix.weight.detach().numpy()
    bias = np.zeros(9, np.float32)
    bias[:8] = network.matrix.bias.detach().numpy()
    moves = graph.linear("stn_moves", hidden, weight, bias)
    step = np.asarray([*MATRIX_STEP, 0.0], np.float32)
    base = np.asarray(base_matrix(), np.float32)
    moved = graph.node("Mul", "stn_step", moves, graph.constant("stn_step.weight", step[None]))
    matrix = graph.node("Add", "stn_matrix", moved, graph.constant("stn_matrix.bias", base[None]))
    warped = graph.node(
        "WarpPerspective",
        "warp",
        "face",
        matrix,
        domain="ai.nnkit",
        direction="inverse",
        interpolation="bilinear",
        border="constant",
        border_value=0.0,
        out_h=WARPED_SIZE,
        out_w=WARPED_SIZE,
    )
    graph.add_one_normalize(graph.trunk("net", network.net, warped), "descriptor")
    return graph.model({"face": (1, 1, FACE_SIZE, FACE_SIZE)}, "descriptor", STN_FEATURE, custom=True)


def half_face_graph(network: HalfFaceDescriptor) -> onnx.ModelProto:
    """Inputs by component [1, 1, h, w], output `descriptor` [1, 256]: of one half, the right one mirrored."""
    graph = Graph()
    features = [
        graph.trunk(component.name, part, component.name)
        for component, part in zip(COMPONENTS, network.parts, strict=True)
    ]
    merged = graph.node("Concat", "merge", *features, axis=1)
    graph.add_one_normalize(merged, "descriptor")
    inputs = {component.name: (1, 1, *component.size) for component in COMPONENTS}
    width = sum(part.fc.out_features for part in network.parts)
    return graph.model(inputs, "descriptor", width, custom=False)


def write_stn(network: StnDescriptor, table: Table, folder: Path) -> None:
    """`face.onnx` and `pca.npz`."""
    _write(stn_graph(network), table, folder)


def write_half_face(network: HalfFaceDescriptor, table: Table, folder: Path) -> None:
    """`face.onnx` and `pca.npz`."""
    _write(half_face_graph(network), table, folder)


def _write(model: onnx.ModelProto, table: Table, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "face.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.savez(folder / "pca.npz", **table)
