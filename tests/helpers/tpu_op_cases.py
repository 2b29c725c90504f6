"""Each op that the TPU takes, by family, and those that it refuses with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper
from tpu_net import ROWS, Case, Net

from nnkit.graph import Model


def _conv(shape: tuple[int, ...], **attributes: Any) -> Case:
    return lambda net, to: net("Conv", "x", net.normal(*shape), net.normal(shape[0]), to=to, **attributes)


def _deconv(shape: tuple[int, ...], outputs: int, **attributes: Any) -> Case:
    return lambda net, to: net("ConvTranspose", "x", net.normal(*shape), net.normal(outputs), to=to, **attributes)


def _conv_then(op: str, *bounds: float) -> Case:
    def build(net: Net, to: str) -> str:
        y = net("Conv", "x", net.normal(8, 8, 3, 3), net.normal(8), pads=[1, 1, 1, 1], strides=[2, 2])
        return net(op, y, *(net.constant(bound) for bound in bounds), to=to)

    return build


def _batch_norm(net: Net, to: str) -> str:
    return net("BatchNormalization", "x", net.positive(8), net.normal(8), net.normal(8), net.positive(8), to=to)


WINDOWS: Mapping[str, Case] = {
    "conv_3x3": _conv((12, 8, 3, 3), pads=[1, 1, 1, 1]),
    "conv_1x1": _conv((5, 8, 1, 1)),
    "conv_grouped": _conv((12, 2, 3, 3), group=4, strides=[2, 1]),
    "conv_depthwise": _conv((8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]),
    "conv_multiplied_depthwise": _conv((16, 1, 3, 3), group=8, pads=[1, 1, 1, 1]),
    "conv_dilated": _conv((12, 8, 3, 3), dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv_depthwise_dilated": _conv((8, 1, 3, 3), group=8, dilations=[2, 2]),
    "conv_uneven_padding": _conv((6, 8, 2, 3), pads=[0, 2, 1, 0]),
    "conv_same": _conv((6, 8, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv_without_bias": lambda net, to: net("Conv", "x", net.normal(4, 8, 3, 3), to=to),
    "conv_relu": _conv_then("Relu"),
    "conv_relu6": _conv_then("Clip", 0.0, 6.0),
    "deconv": _deconv((8, 6, 2, 2), 6, strides=[2, 2]),
    "deconv_padded": _deconv((8, 6, 4, 4), 6, strides=[2, 2], pads=[1, 1, 1, 1]),
    "deconv_output_padding": _deconv((8, 6, 3, 3), 6, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "deconv_depthwise": _deconv((8, 1, 4, 4), 8, strides=[2, 2], pads=[1, 1, 1, 1], group=8),
    "deconv_grouped": _deconv((8, 3, 2, 2), 6, strides=[2, 2], group=2),
    "deconv_dilated": _deconv((8, 6, 3, 3), 6, dilations=[2, 2]),
    "deconv_same": _deconv((8, 6, 3, 3), 6, strides=[2, 2], auto_pad="SAME_UPPER"),
    "deconv_output_shape": _deconv((8, 6, 3, 3), 6, strides=[2, 2], output_shape=[24, 20]),
    "batch_norm": _batch_norm,
}


def _pool(op: str, size: int, **attributes: Any) -> Case:
    return lambda net, to: net(op, "x", to=to, kernel_shape=[size, size], **attributes)


POOLS: Mapping[str, Case] = {
    "max": _pool("MaxPool", 2, strides=[2, 2]),
    "max_padded": _pool("MaxPool", 3, strides=[2, 2], pads=[1, 1, 1, 1]),
    "max_ceil": _pool("MaxPool", 3, strides=[2, 2], ceil_mode=1),
    "average": _pool("AveragePool", 3, strides=[1, 2]),
    "average_padded": _pool("AveragePool", 3, strides=[2, 2], pads=[1, 1, 1, 1]),
    "average_counting_padding": _pool("AveragePool", 3, strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    "average_ceil": _pool("AveragePool", 3, strides=[2, 2], ceil_mode=1),
    "global_average": lambda net, to: net("GlobalAveragePool", "x", to=to),
    "global_max": lambda net, to: net("GlobalMaxPool", "x", to=to),
}


def _same(op: str) -> Case:
    """x op a convolution of x, of the same shape."""

    def build(net: Net, to: str) -> str:
        other = net("Conv", "x", net.normal(8, 8, 1, 1), net.normal(8))
        return net(op, "x", other, to=to)

    return build


def _broadcast(op: str) -> Case:
    """x op a computed value per channel."""
    return lambda net, to: net(op, "x", net("Sigmoid", net("GlobalAveragePool", "x")), to=to)


def _with(op: str, *shape: int, first: bool = False) -> Case:
    """x op a constant, or a constant op x."""

    def build(net: Net, to: str) -> str:
        constant = net.positive(*shape)
        return net(op, *((constant, "x") if first else ("x", constant)), to=to)

    return build


def _over(net: Net, to: str) -> str:
    """A constant over values that stay away from 0."""
    return net("Div", net.constant(2.0), net("Add", net("Sigmoid", "x"), net.constant(0.5)), to=to)


def _rows_of_columns(net: Net, to: str) -> str:
    return net("Add", net("ReduceMax", "x", net.ints(3)), net("ReduceMin", "x", net.ints(2)), to=to)


TWO_OPERANDS: Mapping[str, Case] = {
    **{f"{op.lower()}_same": _same(op) for op in ("Add", "Sub", "Mul", "Min", "Max")},
    **{f"{op.lower()}_broadcast": _broadcast(op) for op in ("Add", "Sub", "Mul", "Div")},
    "add_both_broadcast": _rows_of_columns,
    "number_over_x": _over,
}
CONSTANTS: Mapping[str, Case] = {
    **{f"{op.lower()}_number": _with(op) for op in ("Add", "Sub", "Mul", "Div")},
    **{f"{op.lower()}_channels": _with(op, 8, 1, 1) for op in ("Add", "Sub", "Mul", "Div")},
    **{f"{op.lower()}_image": _with(op, 8, 12, 10) for op in ("Add", "Sub", "Mul", "Div")},
    **{f"{op.lower()}_columns": _with(op, 10) for op in ("Add", "Mul")},
    "number_minus_x": _with("Sub", first=True),
    "channels_minus_x": _with("Sub", 8, 1, 1, first=True),
    "image_minus_x": _with("Sub", 8, 12, 10, first=True),
    "min_number": _with("Min"),
    "max_number": _with("Max"),
}


def _unary(op: str, **attributes: Any) -> Case:
    return lambda net, to: net(op, "x", to=to, **attributes)


def _silu(net: Net, to: str) -> str:
    return net("Mul", "x", net("Sigmoid", "x"), to=to)


def _hard_swish(net: Net, to: str) -> str:
    return net("Mul", "x", net("HardSigmoid", "x", alpha=1 / 6, beta=0.5), to=to)


def _clip(low: float, high: float) -> Case:
    return lambda net, to: net("Clip", "x", net.constant(low), net.constant(high), to=to)


ACTIVATIONS: Mapping[str, Case] = {
    "relu": _unary("Relu"),
    "relu_limited": _clip(0.0, 1.5),
    "clip": _clip(-1.0, 0.75),
    "leaky_relu": _unary("LeakyRelu", alpha=0.1),
    "prelu_channels": lambda net, to: net("PRelu", "x", net.positive(8, 1, 1), to=to),
    "prelu_number": lambda net, to: net("PRelu", "x", net.constant([0.25]), to=to),
    "sigmoid": _unary("Sigmoid"),
    "silu": _silu,
    "hard_sigmoid": _unary("HardSigmoid", alpha=0.25, beta=0.4),
    "hard_swish": _unary("HardSwish"),
    "hard_swish_of_parts": _hard_swish,
    "tanh": _unary("Tanh"),
    "exp": _unary("Exp"),
    "abs": _unary("Abs"),
    "sqrt": lambda net, to: net("Sqrt", net("Abs", "x"), to=to),
    "softmax_channels": _unary("Softmax", axis=1),
    "softmax_columns": _unary("Softmax", axis=-1),
    "softmax_rows": lambda net, to: net("Softmax", "rows", axis=-1, to=to),
    "log_softmax": _unary("LogSoftmax", axis=1),
}


def _expanded(net: Net, to: str) -> str:
    """A feature over its length, as torch's `normalize` is exported."""
    length = net("Clip", net("ReduceL2", "rows", net.ints(2)), net.constant(1e-12))
    return net("Div", "rows", net("Expand", length, net.ints(*ROWS)), to=to)


FUNCTIONS: Mapping[str, Case] = {
    "gelu": _unary("Gelu"),
    "gelu_by_tanh": _unary("Gelu", approximate="tanh"),
    "erf": _unary("Erf"),
    "elu": _unary("Elu", alpha=0.75),
    "softplus": _unary("Softplus"),
    "mish": _unary("Mish"),
    "log": lambda net, to: net("Log", net("Add", net("Abs", "x"), net.constant(0.5)), to=to),
    "neg": _unary("Neg"),
    "reciprocal": lambda net, to: net("Reciprocal", net("Add", net("Sigmoid", "x"), net.constant(0.5)), to=to),
    "square": lambda net, to: net("Pow", "x", net.constant(2.0), to=to),
    "root": lambda net, to: net("Pow", net("Abs", "x"), net.constant(0.5), to=to),
    "clip_below": lambda net, to: net("Clip", "x", net.constant(-0.5), to=to),
    "clip_above": lambda net, to: net("Clip", "x", "", net.constant(0.5), to=to),
    "layer_norm": lambda net, to: net("LayerNormalization", "rows", net.positive(20), net.normal(20), axis=-1, to=to),
    "layer_norm_plain": lambda net, to: net("LayerNormalization", "rows", net.constant(np.ones(20)), axis=-1, to=to),
    "layer_norm_image": lambda net, to: net(
        "LayerNormalization", "x", net.positive(12, 10), net.normal(12, 10), axis=2, to=to
    ),
    "expanded": _expanded,
}


def _slice(starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Case:
    return lambda net, to: net("Slice", "x", *(net.ints(*v) for v in (starts, ends, axes, steps)), to=to)


def _second_half(net: Net, to: str) -> str:
    net.nodes.append(helper.make_node("Split", ["x", net.ints(3, 5)], [f"{to}_first", to], name=to, axis=1))
    return to


def _concat(axis: int) -> Case:
    def build(net: Net, to: str) -> str:
        return net("Concat", "x", net("Sigmoid", "x"), net("Relu", "x"), axis=axis, to=to)

    return build


def _pad(mode: str, *value: float) -> Case:
    return lambda net, to: net(
        "Pad", "x", net.ints(0, 0, 1, 2, 0, 0, 2, 1), *(net.constant(v) for v in value), mode=mode, to=to
    )


def _resize(mode: str, coordinates: str, height: int, width: int, **attributes: str) -> Case:
    def build(net: Net, to: str) -> str:
        sizes = net.ints(1, 8, height, width)
        how = {"mode": mode, "coordinate_transformation_mode": coordinates, **attributes}
        return net("Resize", "x", "", "", sizes, to=to, **how)

    return build


SHAPES: Mapping[str, Case] = {
    "concat_channels": _concat(1),
    "concat_height": _concat(2),
    "concat_columns": _concat(3),
    "slice": _slice([1, 2], [7, 11], [1, 2], [1, 1]),
    "slice_stepped": _slice([1, 0], [12, 10], [2, 3], [3, 2]),
    "slice_from_the_end": _slice([-5], [-1], [-1], [1]),
    "split": _second_half,
    "reshape": lambda net, to: net("Reshape", "x", net.ints(1, 16, 6, 10), to=to),
    "reshape_to_rows": lambda net, to: net("Reshape", "x", net.ints(1, 80, 12), to=to),
    "flatten": _unary("Flatten"),
    "unsqueeze": lambda net, to: net("Unsqueeze", "rows", net.ints(1), to=to),
    "permute_to_nhwc": _unary("Transpose", perm=[0, 2, 3, 1]),
    "permute_height_width": _unary("Transpose", perm=[0, 1, 3, 2]),
    "permute_rows": lambda net, to: net("Transpose", "rows", perm=[0, 2, 1], to=to),
    "shuffle": lambda net, to: net(
        "Reshape",
        net("Transpose", net("Reshape", "x", net.ints(1, 2, 4, 12, 10)), perm=[0, 2, 1, 3, 4]),
        net.ints(1, 8, 12, 10),
        to=to,
    ),
    "pad": _pad("constant"),
    "pad_number": _pad("constant", -0.5),
    "pad_reflected": _pad("reflect"),
    "pad_edge": _pad("edge"),
    "upsample": _resize("nearest", "asymmetric", 24, 20, nearest_mode="floor"),
    "upsample_unequal": _resize("nearest", "asymmetric", 24, 30, nearest_mode="floor"),
    "interp_half_pixel": _resize("linear", "half_pixel", 24, 20),
    "interp_unequal": _resize("linear", "half_pixel", 36, 20),
    "interp_pytorch_half_pixel": _resize("linear", "pytorch_half_pixel", 24, 20),
    "interp_align_corners": _resize("linear", "align_corners", 24, 20),
}


def _reduce(op: str, axes: Sequence[int], keep: int = 1) -> Case:
    return lambda net, to: net(op, "x", net.ints(*axes), keepdims=keep, to=to)


def _dense(net: Net, to: str) -> str:
    return net("Gemm", net("Flatten", "x"), net.normal(7, 960, spread=0.05), net.normal(7), transB=1, to=to)


def _gram(net: Net, to: str) -> str:
    return net("MatMul", "rows", net("Transpose", "rows", perm=[0, 2, 1]), to=to)


def _attention(net: Net, to: str) -> str:
    return net("MatMul", net("Softmax", _gram(net, f"{to}_scores"), axis=-1), "rows", to=to)


MATRICES: Mapping[str, Case] = {
    "mean_image": _reduce("ReduceMean", [2, 3]),
    "mean_image_flat": _reduce("ReduceMean", [2, 3], 0),
    "mean_channels": _reduce("ReduceMean", [1]),
    "mean_columns": _reduce("ReduceMean", [3]),
    "sum_channels": _reduce("ReduceSum", [1]),
    "sum_image": _reduce("ReduceSum", [2, 3]),
    "max_columns": _reduce("ReduceMax", [3]),
    "max_channels": _reduce("ReduceMax", [1], 0),
    "min_height": _reduce("ReduceMin", [2]),
    "l2_channels": _reduce("ReduceL2", [1]),
    "gemm": _dense,
    "matmul": lambda net, to: net("MatMul", "rows", net.normal(20, 9), to=to),
    "matmul_bias": lambda net, to: net("Add", net("MatMul", "rows", net.normal(20, 9)), net.normal(9), to=to),
    "matmul_bias_relu": lambda net, to: net(
        "Relu", net("Add", net("MatMul", "rows", net.normal(20, 9)), net.normal(9)), to=to
    ),
    "matmul_image": lambda net, to: net("MatMul", "x", net.normal(10, 6), to=to),
    "matmul_computed": _gram,
    "matmul_images": lambda net, to: net("MatMul", "x", net("Transpose", "x", perm=[0, 1, 3, 2]), to=to),
    "attention": _attention,
}

FAMILIES: Mapping[str, Mapping[str, Case]] = {
    "windows": WINDOWS,
    "pools": POOLS,
    "two_operands": TWO_OPERANDS,
    "constants": CONSTANTS,
    "activations": ACTIVATIONS,
    "functions": FUNCTIONS,
    "shapes": SHAPES,
    "matrices": MATRICES,
}


def _to(height: int, width: int, coordinates: str) -> Case:
    return _resize("linear", coordinates, height, width)


REFUSED: Mapping[str, tuple[Case, str]] = {
    # the compiler's code for these is generated by a compiler of kernels that the toolchain does not have
    "linear_uneven": (
        _to(18, 25, "half_pixel"),
        "linear resizing is by whole factors: code for others needs a compiler that the toolchain does not have; "
        "found from 12 x 10 to 18 x 25",
    ),
    "linear_smaller": (_to(6, 5, "half_pixel"), "found from 12 x 10 to 6 x 5"),
    # compiled with half_pixel's coordinates: cosine 0.86
    "linear_asymmetric": (_to(24, 20, "asymmetric"), "found asymmetric coordinates"),
    "cubic": (_resize("cubic", "half_pixel", 24, 20), "nearest or linear; found cubic"),
    "nearest_by_a_part": (
        _resize("nearest", "asymmetric", 18, 15, nearest_mode="floor"),
        "not whole, from 12 x 10 to 18 x 15",
    ),
    "slice_backwards": (_slice([-1], [0], [3], [-1]), "positive steps; found steps [1, 1, 1, -1]"),
    "pool_dilated": (_pool("MaxPool", 2, dilations=[2, 2]), "not dilated; found dilations 2x2"),
    "clip_open": (_unary("Clip"), "Clip has a bound; found none"),
    "cube": (lambda net, to: net("Pow", "x", net.constant(3.0), to=to), "the number 0.5 or 2; found 3"),
    "layer_norm_computed": (
        lambda net, to: net("LayerNormalization", "x", net("ReduceMax", "x", net.ints(1, 2), keepdims=0), to=to),
        "constant scale and bias, and nothing reads its mean and deviation; found a computed scale or bias",
    ),
    "expanded_often": (
        lambda net, to: net("Expand", net("ReduceMax", "rows", net.ints(2)), net.ints(1, 6, 100), to=to),
        "repeats a value along an axis up to 64 times; found 100 times",
    ),
    "prelu_image": (lambda net, to: net("PRelu", "x", net.positive(8, 12, 10), to=to), "not one per channel (8)"),
    "gemm_transposed": (
        lambda net, to: net("Gemm", net("Flatten", "x"), net.normal(1, 3), transA=1, to=to),
        "left side of a Gemm is not transposed",
    ),
    "unknown": (_unary("Sinh"), "nnkit does not lower Sinh to the TPU yet"),
}


def network(cases: Mapping[str, Case]) -> Model:
    net = Net()
    return net.model([build(net, name) for name, build in cases.items()])
