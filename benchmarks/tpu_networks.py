"""The networks of the layer-group benchmark, with seeded random weights: their structure is what is planned.

Batch normalisations are left out, as they are folded before planning anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Net:
    """Nodes and weights, added one by one; values are named by their layers."""

    def __init__(self, name: str, shape: tuple[int, int, int, int], seed: int) -> None:
        self.name, self.shape = name, shape
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(
        self, name: str, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0, group: int = 1
    ) -> str:
        fan_in = inputs // group * kernel * kernel
        shape = (outputs, inputs // group, kernel, kernel)
        weight = self.generator.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32)
        bias = self.generator.normal(0, 0.02, outputs).astype(np.float32)
        return self.add(
            "Conv",
            name,
            x,
            self.constant(f"{name}_w", weight),
            self.constant(f"{name}_b", bias),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=group,
        )

    def relu(self, x: str) -> str:
        return self.add("Relu", f"{x}_relu", x)

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> str:
        weight = self.generator.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)
        flat = self.add("Flatten", f"{name}_flat", x)
        bias = self.constant(f"{name}_b", np.zeros(outputs, np.float32))
        return self.add("Gemm", name, flat, self.constant(f"{name}_w", weight), bias, transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def squeezenet(batch: int = 1, size: int = 224) -> onnx.ModelProto:
    """SqueezeNet 1.1, size x size."""
    net = _Net("squeezenet", (batch, 3, size, size), 1)
    x = net.relu(net.conv("conv1", "input", 3, 64, 3, 2))
    channels = 64
    for number, (squeeze, expand) in enumerate(
        [(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2, 2
    ):
        if number in (2, 4, 6):
            x = net.add("MaxPool", f"pool{number}", x, kernel_shape=[3, 3], strides=[2, 2])
        name = f"fire{number}"
        squeezed = net.relu(net.conv(f"{name}_squeeze", x, channels, squeeze, 1))
        left = net.relu(net.conv(f"{name}_1x1", squeezed, squeeze, expand, 1))
        right = net.relu(net.conv(f"{name}_3x3", squeezed, squeeze, expand, 3, pad=1))
        x = net.add("Concat", name, left, right, axis=1)
        channels = 2 * expand
    x = net.relu(net.conv("conv10", x, channels, 1000, 1))
    return net.model(net.add("GlobalAveragePool", "scores", x))


def mobilenet_v2(batch: int = 1) -> onnx.ModelProto:
    """MobileNetV2 1.0, 224 x 224."""
    net = _Net("mobilenet_v2", (batch, 3, 224, 224), 2)
    x, channels, number = net.relu(net.conv("conv0", "input", 3, 32, 3, 2, 1)), 32, 0
    for factor, outputs, repeats, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for repeat in range(repeats):
            number += 1
            name, wide = f"block{number}", channels * factor
            step = stride if repeat == 0 else 1
            y = net.relu(net.conv(f"{name}_expand", x, channels, wide, 1)) if factor > 1 else x
            y = net.relu(net.conv(f"{name}_depthwise", y, wide, wide, 3, step, 1, wide))
            y = net.conv(f"{name}_project", y, wide, outputs, 1)
            x = net.add("Add", f"{name}_sum", x, y) if step == 1 and channels == outputs else y
            channels = outputs
    x = net.relu(net.conv("last", x, channels, 1280, 1))
    return net.model(net.dense("scores", net.add("GlobalAveragePool", "pool", x), 1280, 1000))


def resnet50(batch: int = 1) -> onnx.ModelProto:
    """ResNet-50 v1.5, 224 x 224."""
    net = _Net("resnet50", (batch, 3, 224, 224), 3)
    x = net.relu(net.conv("conv1", "input", 3, 64, 7, 2, 3))
    x = net.add("MaxPool", "pool1", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (width, repeats) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for repeat in range(repeats):
            name = f"res{stage}_{repeat}"
            stride = 2 if stage > 2 and repeat == 0 else 1
            y = net.relu(net.conv(f"{name}_a", x, channels, width, 1))
            y = net.relu(net.conv(f"{name}_b", y, width, width, 3, stride, 1))
            y = net.conv(f"{name}_c", y, width, 4 * width, 1)
            short = net.conv(f"{name}_short", x, channels, 4 * width, 1, stride) if repeat == 0 else x
            x, channels = net.relu(net.add("Add", f"{name}_sum", y, short)), 4 * width
    return net.model(net.dense("scores", net.add("GlobalAveragePool", "pool", x), channels, 1000))


def unet(batch: int = 1) -> onnx.ModelProto:
    """A U-Net of four levels, 256 x 256, 16 to 128 channels, transposed convolutions upwards."""
    net = _Net("unet", (batch, 3, 256, 256), 4)
    x, channels, skips = "input", 3, []
    for level, width in enumerate((16, 32, 64)):
        x = net.relu(net.conv(f"down{level}_a", x, channels, width, 3, pad=1))
        x = net.relu(net.conv(f"down{level}_b", x, width, width, 3, pad=1))
        skips.append((x, width))
        x, channels = net.add("MaxPool", f"pool{level}", x, kernel_shape=[2, 2], strides=[2, 2]), width
    x = net.relu(net.conv("bottom_a", x, channels, 128, 3, pad=1))
    x, channels = net.relu(net.conv("bottom_b", x, 128, 128, 3, pad=1)), 128
    for level, (skip, width) in reversed(list(enumerate(skips))):
        weight = net.generator.normal(0, channels**-0.5, (channels, width, 2, 2)).astype(np.float32)
        bias = net.constant(f"up{level}_b", np.zeros(width, np.float32))
        up = net.add(
            "ConvTranspose",
            f"up{level}",
            x,
            net.constant(f"up{level}_w", weight),
            bias,
            kernel_shape=[2, 2],
            strides=[2, 2],
        )
        x = net.add("Concat", f"cat{level}", up, skip, axis=1)
        x = net.relu(net.conv(f"fuse{level}_a", x, 2 * width, width, 3, pad=1))
        x, channels = net.relu(net.conv(f"fuse{level}_b", x, width, width, 3, pad=1)), width
    return net.model(net.conv("classes", x, channels, 4, 1))


BUILDERS: Mapping[str, Callable[[int], onnx.ModelProto]] = MappingProxyType(
    {"squeezenet": squeezenet, "mobilenet_v2": mobilenet_v2, "resnet50": resnet50, "unet": unet}
)
FACE_DETECTOR = "models/ulfg/version-RFB-320_without_postprocessing.onnx"


def build(name: str, batch: int = 1, shared: Path | None = None) -> onnx.ModelProto | None:
    """The network of that name; None for `rfb320` where the shared data is absent (its batch is always 1)."""
    if name != "rfb320":
        return BUILDERS[name](batch)
    if shared is None or not (shared / FACE_DETECTOR).is_file():
        return None
    return onnx.load(shared / FACE_DETECTOR)
