"""Seeded random networks in the shapes people deploy, as a training framework would export them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Builds an ONNX graph layer by layer; weights are He-scaled and seeded."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape = shape
        self.channels = {"x": shape[1]}
        self.count = 0

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def constant(self, array: np.ndarray[Any, Any], name: str) -> str:
        self.constants.append(numpy_helper.from_array(array.astype(array.dtype), name))
        return name

    def node(self, op: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        name = self._name(op.lower())
        self.nodes.append(helper.make_node(op, inputs, [name + "_out"], name=name, **attributes))
        self.channels[name + "_out"] = channels
        return name + "_out"

    def conv(self, x: str, out: int, kernel: int = 3, stride: int = 1, groups: int = 1, bias: bool = True) -> str:
        name = f"w{self.count}"
        fan_in = self.channels[x] // groups * kernel * kernel
        weight = self.rng.normal(0, np.sqrt(2 / fan_in), (out, self.channels[x] // groups, kernel, kernel))
        inputs = [x, self.constant(weight.astype(np.float32), name)]
        if bias:
            inputs.append(self.constant(self.rng.normal(0, 0.1, out).astype(np.float32), name + "b"))
        pad = kernel // 2
        return self.node(
            "Conv", inputs, out, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups
        )

    def batch_norm(self, x: str) -> str:
        c, tag = self.channels[x], f"bn{self.count}"
        values = (
            self.rng.uniform(0.7, 1.3, c),
            self.rng.normal(0, 0.1, c),
            self.rng.normal(0, 0.1, c),
            self.rng.uniform(0.5, 1.5, c),
        )
        names = [self.constant(v.astype(np.float32), f"{tag}_{i}") for i, v in enumerate(values)]
        return self.node("BatchNormalization", [x, *names], c)

    def relu6(self, x: str) -> str:
        low = self.constant(np.array(0, np.float32), f"lo{self.count}")
        high = self.constant(np.array(6, np.float32), f"hi{self.count}")
        return self.node("Clip", [x, low, high], self.channels[x])

    def relu(self, x: str) -> str:
        return self.node("Relu", [x], self.channels[x])

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b], self.channels[a])

    def concat(self, *parts: str) -> str:
        return self.node("Concat", list(parts), sum(self.channels[p] for p in parts), axis=1)

    def max_pool(self, x: str, kernel: int = 2, stride: int = 2) -> str:
        return self.node("MaxPool", [x], self.channels[x], kernel_shape=[kernel] * 2, strides=[stride] * 2)

    def upsample(self, x: str, factor: int = 2) -> str:
        scales = self.constant(np.array([1, 1, factor, factor], np.float32), f"scales{self.count}")
        return self.node(
            "Resize",
            [x, "", scales],
            self.channels[x],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def up_conv(self, x: str, out: int) -> str:
        weight = self.rng.normal(0, np.sqrt(1 / self.channels[x]), (self.channels[x], out, 2, 2))
        name = self.constant(weight.astype(np.float32), f"wt{self.count}")
        return self.node("ConvTranspose", [x, name], out, kernel_shape=[2, 2], strides=[2, 2])

    def global_pool(self, x: str) -> str:
        return self.node("GlobalAveragePool", [x], self.channels[x])

    def flatten(self, x: str) -> str:
        return self.node("Flatten", [x], self.channels[x])

    def gemm(self, x: str, out: int) -> str:
        name = f"fc{self.count}"
        weight = self.rng.normal(0, np.sqrt(1 / self.channels[x]), (out, self.channels[x]))
        inputs = [x, self.constant(weight.astype(np.float32), name + "w")]
        inputs.append(self.constant(self.rng.normal(0, 0.1, out).astype(np.float32), name + "b"))
        return self.node("Gemm", inputs, out, transB=1)

    def save(self, path: Path, *outputs: str) -> Path:
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(self.shape))],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def mobilenet_v2(path: Path, seed: int = 0) -> Path:
    """Inverted residuals: expand 1x1, depthwise 3x3, linear 1x1, Relu6, batch norm, residual additions."""
    net = Net((1, 3, 32, 32), seed)
    x = net.relu6(net.batch_norm(net.conv("x", 8, 3, 2, bias=False)))
    for out, stride, expand in ((8, 1, 1), (12, 2, 4), (12, 1, 4), (20, 2, 4), (20, 1, 4)):
        inner, skip = net.channels[x] * expand, x
        y = net.relu6(net.batch_norm(net.conv(x, inner, 1, bias=False))) if expand > 1 else x
        y = net.relu6(net.batch_norm(net.conv(y, inner, 3, stride, groups=inner, bias=False)))
        x = net.batch_norm(net.conv(y, out, 1, bias=False))
        if stride == 1 and out == net.channels[skip]:
            x = net.add(skip, x)
    x = net.relu6(net.batch_norm(net.conv(x, 40, 1, bias=False)))
    return net.save(path, net.gemm(net.flatten(net.global_pool(x)), 10))


def resnet(path: Path, seed: int = 0) -> Path:
    """Basic blocks with identity and projection shortcuts."""
    net = Net((1, 3, 24, 24), seed)
    x = net.relu(net.batch_norm(net.conv("x", 8, 3, bias=False)))
    for out, stride in ((8, 1), (16, 2), (24, 2)):
        y = net.relu(net.batch_norm(net.conv(x, out, 3, stride, bias=False)))
        y = net.batch_norm(net.conv(y, out, 3, bias=False))
        shortcut = x if stride == 1 else net.batch_norm(net.conv(x, out, 1, stride, bias=False))
        x = net.relu(net.add(y, shortcut))
    return net.save(path, net.gemm(net.flatten(net.global_pool(x)), 10))


def unet(path: Path, seed: int = 0, transposed: bool = True) -> Path:
    """Encoder, decoder with skips, a transposed or nearest upsampling, two outputs."""
    net = Net((1, 1, 24, 24), seed)
    a = net.relu(net.conv(net.relu(net.conv("x", 6)), 6))
    b = net.relu(net.conv(net.max_pool(a), 12))
    c = net.relu(net.conv(net.max_pool(b), 20))
    up = net.up_conv(c, 12) if transposed else net.conv(net.upsample(c), 12, 1)
    d = net.relu(net.conv(net.concat(b, up), 12))
    up = net.up_conv(d, 6) if transposed else net.conv(net.upsample(d), 6, 1)
    e = net.relu(net.conv(net.concat(a, up), 6))
    return net.save(path, net.conv(e, 2, 1), net.conv(d, 3, 1))


def squeezenet(path: Path, seed: int = 0) -> Path:
    """A stem with a fused pool and two Fire modules, one followed by a pool, average pooled to a descriptor."""
    net = Net((1, 1, 40, 40), seed)
    x = net.max_pool(net.relu(net.conv(net.conv("x", 3, 1), 12, 3, 2)), 3, 2)
    for squeeze, expand, pool in ((4, 10, True), (6, 12, False)):
        s = net.relu(net.conv(x, squeeze, 1))
        x = net.concat(net.relu(net.conv(s, expand, 1)), net.relu(net.conv(s, expand, 3)))
        x = net.max_pool(x, 3, 2) if pool else x
    return net.save(path, net.flatten(net.global_pool(x)))


NETWORKS = {
    "mobilenet_v2": mobilenet_v2,
    "resnet": resnet,
    "unet": unet,
    "unet_nearest": lambda path, seed=0: unet(path, seed, transposed=False),
    "squeezenet": squeezenet,
}
