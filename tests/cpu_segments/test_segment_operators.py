"""Each operator of a CPU segment in C, under sanitizers, against ONNX Runtime.

Tolerance: both sides compute in float32. Sums run in another order, and exp, log, tanh and pow come from another
library, a unit in the last place or two apart: 2e-6 relative and absolute for values around 1 (sums of up to 200
terms). What only moves or compares values must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, helper

Check = Callable[..., None]
node = helper.make_node


def normal(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_unary(agrees: Check) -> None:
    signed = ["Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "Tanh", "Elu", "Softplus", "Exp", "Abs", "Neg", "Floor"]
    positive = ["Log", "Sqrt", "Reciprocal", "Ceil"]
    nodes = [node(kind, ["x"], [kind]) for kind in signed] + [node(kind, ["p"], [kind]) for kind in positive]
    nodes += [node("LeakyRelu", ["x"], ["leaky"], alpha=0.3), node("Elu", ["x"], ["elu"], alpha=0.7)]
    nodes += [node("Clip", ["x", "low", "high"], ["clip"]), node("Clip", ["x", "", "high"], ["clip_high"])]
    nodes += [node("PRelu", ["x", "slope"], ["prelu"])]
    constants = {"low": np.float32(-0.5), "high": np.float32(0.75), "slope": normal(4, 1, 1)}
    x = 3 * normal(1, 4, 5, 6)
    agrees(nodes, {"x": x, "p": np.abs(x) + np.float32(0.01)}, constants)


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (1, 4, 1, 1), (4, 1, 6), (1,), ()])
def test_binary_with_broadcast(agrees: Check, shape: tuple[int, ...]) -> None:
    kinds = ["Add", "Sub", "Mul", "Div", "Max", "Min"]
    nodes = [node(kind, ["x", "c"], [kind]) for kind in kinds]
    nodes += [node(kind, ["c", "x"], [f"{kind}_turned"]) for kind in kinds]
    nodes += [node("Pow", ["p", "c"], ["pow"]), node("Sum", ["c", "x", "p"], ["sum"])]
    nodes += [node("Mean", ["x", "c", "p"], ["mean"]), node("Max", ["x", "c", "p"], ["max3"])]
    x = normal(1, 4, 5, 6)
    agrees(nodes, {"x": x, "p": np.abs(x) + np.float32(0.1)}, {"c": np.asarray(normal(*shape, seed=2))}, rtol=4e-6)


def test_movement_is_exact(agrees: Check) -> None:
    def ints(*values: int) -> NDArray[np.int64]:
        return np.array(values, np.int64)

    constants = {
        "shape": ints(1, 6, -1),
        "starts": ints(-4, 4),
        "ends": ints(-1, -100),
        "axes": ints(2, 3),
        "steps": ints(2, -2),
        "ends_reverse": ints(4, 0),
        "parts": ints(1, 3),
        "pads": ints(0, 0, 1, 2, 0, 0, 3, 1),
        "minus": np.float32(-1.5),
        "one": ints(1),
        "two_rows": ints(2, 4, 5, 6),
    }
    nodes = [
        node("Reshape", ["x", "shape"], ["reshape"]),
        node("Flatten", ["x"], ["flatten"]),
        node("Unsqueeze", ["x", "one"], ["unsqueeze"]),
        node("Squeeze", ["unsqueeze", "one"], ["squeeze"]),
        node("Relu", ["squeeze"], ["after_squeeze"]),
        node("Identity", ["x"], ["identity"]),
        node("Dropout", ["x"], ["dropout"]),
        node("Transpose", ["x"], ["nhwc"], perm=[0, 2, 3, 1]),
        node("Transpose", ["x"], ["turned"]),
        node("Slice", ["x", "starts", "ends", "axes", "steps"], ["slice"]),
        node("Split", ["x", "parts"], ["split_a", "split_b"], axis=1),
        node("Concat", ["x", "split_b", "x"], ["concat"], axis=1),
        node("Concat", ["x", "x"], ["concat_last"], axis=-1),
        node("Pad", ["x", "pads", "minus"], ["pad"]),
        node("Pad", ["x", "pads"], ["pad_edge"], mode="edge"),
        node("Pad", ["x", "pads"], ["pad_reflect"], mode="reflect"),
        node("Expand", ["x", "two_rows"], ["expand"]),
    ]
    outputs = [name for item in nodes for name in item.output if name != "squeeze"]
    agrees(nodes, {"x": normal(1, 4, 5, 6)}, constants, outputs=outputs, rtol=0, atol=0)


CONVS: dict[str, dict[str, Any]] = {
    "plain": {"pads": [1, 1, 1, 1]},
    "uneven": {"strides": [2, 1], "pads": [0, 1, 2, 0]},
    "dilated": {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
    "grouped": {"group": 2, "pads": [1, 0, 1, 0]},
    "depthwise": {"group": 4},
    "same_upper": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "same_lower": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
}


def test_conv(agrees: Check) -> None:
    nodes, constants = [], {"b": normal(8, seed=9)}
    for name, attributes in CONVS.items():
        constants[f"w_{name}"] = normal(8, 4 // attributes.get("group", 1), 3, 3) / np.float32(4)
        nodes.append(node("Conv", ["x", f"w_{name}", "b"], [name], **attributes))
    constants |= {"w1": normal(3, 9, 2)}
    nodes += [node("Conv", ["x", "w_plain"], ["no_bias"]), node("Conv", ["line", "w1"], ["line_conv"], strides=[2])]
    agrees(nodes, {"x": normal(1, 4, 9, 8), "line": normal(1, 9, 7)}, constants, atol=4e-6)


def test_conv_transpose(agrees: Check) -> None:
    nodes = [
        node("ConvTranspose", ["x", "w", "b"], ["plain"]),
        node("ConvTranspose", ["x", "w", "b"], ["stride"], strides=[2, 3], pads=[1, 0, 1, 2]),
        node("ConvTranspose", ["x", "w"], ["more"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]),
        node("ConvTranspose", ["x", "w"], ["dilated"], dilations=[2, 1]),
        node("ConvTranspose", ["x", "wg"], ["grouped"], group=2, strides=[2, 2]),
    ]
    constants = {"w": normal(4, 3, 3, 2), "wg": normal(4, 3, 2, 2), "b": normal(3, seed=4)}
    agrees(nodes, {"x": normal(1, 4, 5, 4)}, constants, atol=4e-6)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [0, 1, 1, 0]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
]


def test_pools(agrees: Check) -> None:
    nodes: list[NodeProto] = []
    for index, attributes in enumerate(POOLS):
        nodes.append(node("MaxPool", ["x"], [f"max{index}"], **attributes))
        for count in (0, 1):
            name = f"average{index}_{count}"
            nodes.append(node("AveragePool", ["x"], [name], count_include_pad=count, **attributes))
    nodes += [node("GlobalAveragePool", ["x"], ["global"]), node("GlobalMaxPool", ["x"], ["global_max"])]
    nodes.append(node("MaxPool", ["x"], ["dilated"], kernel_shape=[2, 2], dilations=[2, 3]))
    agrees(nodes, {"x": normal(1, 3, 7, 8) - np.float32(2)})


def test_products(agrees: Check) -> None:
    nodes = [
        node("Gemm", ["x", "w", "c"], ["gemm"]),
        node("Gemm", ["x", "wt", "c"], ["turned"], transB=1, alpha=0.5),
        node("Gemm", ["x", "w", "c"], ["scaled"], beta=2.0),
        node("Gemm", ["w", "m"], ["no_c"], transA=1),
        node("MatMul", ["x", "w"], ["matmul"]),
        node("MatMul", ["s", "m2"], ["batches"]),
        node("MatMul", ["s", "s2"], ["both"]),
        node("MatMul", ["v", "w"], ["vector"]),
    ]
    w = normal(6, 5)
    constants = {
        "w": w,
        "wt": np.ascontiguousarray(w.T),
        "c": normal(5, seed=3),
        "m": normal(6, 2),
        "m2": normal(4, 3),
    }
    inputs = {"x": normal(1, 6), "s": normal(1, 3, 2, 4), "s2": normal(1, 3, 4, 2), "v": normal(6)}
    agrees(nodes, inputs, constants, atol=4e-6)


def test_reductions_and_normalisations(agrees: Check) -> None:
    kinds = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
    nodes = []
    for kind in kinds:
        nodes.append(node(kind, ["x", "channels"], [f"{kind}_c"]))
        nodes.append(node(kind, ["x", "ends"], [f"{kind}_e"], keepdims=0))
        nodes.append(node(kind, ["x"], [f"{kind}_all"]))
    nodes += [node("Softmax", ["x"], [f"softmax{axis}"], axis=axis) for axis in (1, 2, -1)]
    nodes += [node("LpNormalization", ["x"], [f"lp{p}"], axis=1, p=p) for p in (1, 2)]
    nodes.append(node("BatchNormalization", ["x", "g", "b", "m", "v"], ["bn"], epsilon=1e-3))
    nodes += [node("LRN", ["x"], [f"lrn{size}"], size=size, alpha=0.1, beta=0.6, bias=1.5) for size in (3, 5, 7)]
    constants = {"channels": np.array([1]), "ends": np.array([-1, 1])}
    constants |= {name: normal(6, seed=ord(name)) for name in "gbm"} | {"v": np.abs(normal(6)) + np.float32(0.2)}
    agrees(nodes, {"x": normal(1, 6, 4, 5)}, constants, rtol=8e-6, atol=4e-6)


def test_resize(agrees: Check) -> None:
    nodes, constants = [], {"up": np.array([1, 1, 2, 3], np.float32), "odd": np.array([1, 1, 0.6, 1.7], np.float32)}
    constants["size"] = np.array([1, 2, 9, 4])
    for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        for scales in ("up", "odd", "size"):
            source = ["x", "", "", "size"] if scales == "size" else ["x", "", scales]
            common = {"coordinate_transformation_mode": mode}
            nodes.append(node("Resize", source, [f"linear_{mode}_{scales}"], mode="linear", **common))
            nodes += [
                node("Resize", source, [f"{near}_{mode}_{scales}"], mode="nearest", nearest_mode=near, **common)
                for near in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
            ]
    # coordinates are rounded in another order: a weight may be 1e-6 off
    agrees(nodes, {"x": normal(1, 2, 5, 6)}, constants, atol=1e-5)
