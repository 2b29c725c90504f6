"""Operators with weights or windows: convolutions, fully connected layers, pools, Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.importers.tflite.builder import TO_FIRST, TO_LAST, Builder, computed
from nnkit.importers.tflite.network import TfliteOperator

_SAME = 0


def conv2d(build: Builder, operator: TfliteOperator) -> None:
    """CONV_2D: weights [O, kh, kw, I / groups]."""
    x, weight = (computed(build, operator, position) for position in (0, 1))
    shape = build.tensor(weight).shape
    _convolution(build, operator, lambda w: w.transpose(0, 3, 1, 2), shape[1:3], build.tensor(x).shape[3] // shape[3])


def depthwise_conv2d(build: Builder, operator: TfliteOperator) -> None:
    """DEPTHWISE_CONV_2D: weights [1, kh, kw, O]."""
    x, weight = (computed(build, operator, position) for position in (0, 1))
    shape = build.tensor(weight).shape
    _convolution(build, operator, lambda w: w.transpose(3, 0, 1, 2), shape[1:3], build.tensor(x).shape[3])


def _convolution(build: Builder, operator: TfliteOperator, moved: Any, kernel: Sequence[int], groups: int) -> None:
    x, weight = operator.inputs[:2]
    strides, dilations = _pair(operator, "Stride"), _pair(operator, "Dilation", "Factor")
    inputs = [build.read(x, "first"), build.constant(weight, moved, axis=0), *_bias(build, operator, 2)]
    build.make(
        operator.outputs[0],
        "Conv",
        inputs,
        "first",
        operator.option("FusedActivationFunction"),
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        group=groups,
        pads=_pads(operator, build.tensor(x).shape[1:3], kernel, strides, dilations),
    )


def transpose_conv(build: Builder, operator: TfliteOperator) -> None:
    """TRANSPOSE_CONV: the shape of its result, weights [O, kh, kw, I], the input, perhaps a bias."""
    weight, x = computed(build, operator, 1), computed(build, operator, 2)
    kernel, strides = build.tensor(weight).shape[1:3], _pair(operator, "Stride")
    begins, ends, beyond = [], [], []
    sizes = zip(
        build.tensor(x).shape[1:3], build.tensor(operator.outputs[0]).shape[1:3], kernel, strides, strict=True
    )
    for size, result, taps, stride in sizes:
        surplus = (size - 1) * stride + taps - result
        begins.append(max(surplus, 0) // 2)
        ends.append(max(surplus, 0) - max(surplus, 0) // 2)
        beyond.append(max(-surplus, 0))
    inputs = [
        build.read(x, "first"),
        build.constant(weight, lambda w: w.transpose(3, 0, 1, 2), axis=1),
        *_bias(build, operator, 3),
    ]
    build.make(
        operator.outputs[0],
        "ConvTranspose",
        inputs,
        "first",
        operator.option("FusedActivationFunction"),
        kernel_shape=list(kernel),
        strides=strides,
        pads=[*begins, *ends],
        output_padding=beyond,
    )


def fully_connected(build: Builder, operator: TfliteOperator) -> None:
    """FULLY_CONNECTED: weights [O, I], over all rows of I values."""
    x, weight, result = (*(computed(build, operator, position) for position in (0, 1)), operator.outputs[0])
    if operator.option("WeightsFormat"):
        raise Refused("its weights are shuffled for another processor", "convert the network for LiteRT's CPU")
    if build.tensor(weight).values is None:
        raise Refused("its weights are computed")
    features = build.tensor(weight).shape[1]
    rows = int(np.prod(build.tensor(x).shape)) // max(features, 1)
    source = build.read(x) if len(build.tensor(x).shape) != 4 else build.read_flat(x)
    shape, name = build.tensor(x).shape, build.tensor(result).name
    if shape != (rows, features):
        source = build.step("Reshape", [source, _ints(build, name, (rows, features))], f"{name}.rows")
    after, activation = build.tensor(result).shape, operator.option("FusedActivationFunction")
    if build.tensor(result).stores_integers:
        _rows_by_convolution(build, operator, source, rows)
    elif after == (rows, build.tensor(weight).shape[0]):
        inputs = [source, build.constant(weight, axis=0), *_bias(build, operator, 2)]
        build.make(result, "Gemm", inputs, activation=activation, transB=1)
    else:
        inputs = [source, build.constant(weight, axis=0), *_bias(build, operator, 2)]
        product = build.activated("Gemm", inputs, name, activation, transB=1)
        build.make(result, "Reshape", [product, _ints(build, name, after)])


def _rows_by_convolution(build: Builder, operator: TfliteOperator, source: str, rows: int) -> None:
    """Write an integer FULLY_CONNECTED over `rows` rows as a 1x1 convolution over as many pixels."""
    weight, result = operator.inputs[1], operator.outputs[0]
    name, features = build.tensor(result).name, build.tensor(weight).shape[1]
    if rows == 1:
        pixels = build.step("Reshape", [source, _ints(build, name, (1, features, 1, 1))], f"{name}.pixels")
    else:
        lines = build.step("Reshape", [source, _ints(build, name, (1, rows, 1, features))], f"{name}.lines")
        pixels = build.step("Transpose", [lines], f"{name}.pixels", perm=TO_FIRST)
    inputs = [pixels, build.constant(weight, lambda w: w[:, :, None, None], axis=0), *_bias(build, operator, 2)]
    product = build.activated("Conv", inputs, name, operator.option("FusedActivationFunction"))
    if rows > 1:
        product = build.step("Transpose", [product], f"{name}.turned", perm=TO_LAST)
    build.make(result, "Reshape", [product, _ints(build, name, build.tensor(result).shape)])
    build.nodes[-3 if build.nodes[-1].op_type == "DequantizeLinear" else -1].name = f"{name}.shaped"


def max_pool(build: Builder, operator: TfliteOperator) -> None:
    """MAX_POOL_2D."""
    _pool(build, operator, "MaxPool")


def average_pool(build: Builder, operator: TfliteOperator) -> None:
    """AVERAGE_POOL_2D: padding does not count."""
    _pool(build, operator, "AveragePool", count_include_pad=0)


def _pool(build: Builder, operator: TfliteOperator, kind: str, **more: int) -> None:
    x = computed(build, operator, 0)
    kernel, strides = [operator.option("FilterHeight"), operator.option("FilterWidth")], _pair(operator, "Stride")
    pads = _pads(operator, build.tensor(x).shape[1:3], kernel, strides, [1, 1])
    build.make(
        operator.outputs[0],
        kind,
        [build.read(x, "first")],
        "first",
        operator.option("FusedActivationFunction"),
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        **more,
    )


def resize_nearest(build: Builder, operator: TfliteOperator) -> None:
    """RESIZE_NEAREST_NEIGHBOR."""
    corners, half = operator.option("AlignCorners"), operator.option("HalfPixelCenters")
    how = {"mode": "nearest", "nearest_mode": "round_prefer_ceil" if corners or half else "floor"}
    _resize(build, operator, how)


def resize_bilinear(build: Builder, operator: TfliteOperator) -> None:
    """RESIZE_BILINEAR."""
    _resize(build, operator, {"mode": "linear"})


def _resize(build: Builder, operator: TfliteOperator, how: dict[str, Any]) -> None:
    x, result = computed(build, operator, 0), operator.outputs[0]
    _, h, w, channels = build.tensor(result).shape
    batch = build.tensor(x).shape[0]
    if operator.option("AlignCorners"):
        where = "align_corners"
    else:
        where = "half_pixel" if operator.option("HalfPixelCenters") else "asymmetric"
    sizes = _ints(build, build.tensor(result).name, (batch, channels, h, w))
    build.make(
        result,
        "Resize",
        [build.read(x, "first"), "", "", sizes],
        "first",
        coordinate_transformation_mode=where,
        **how,
    )


def _bias(build: Builder, operator: TfliteOperator, position: int) -> list[str]:
    if position >= len(operator.inputs) or operator.inputs[position] < 0:
        return []
    return [build.constant(operator.inputs[position], axis=0)]


def _pair(operator: TfliteOperator, name: str, after: str = "") -> list[int]:
    return [max(int(operator.option(f"{name}{side}{after}", 1)), 1) for side in ("H", "W")]


def _pads(
    operator: TfliteOperator,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """As ONNX has them. SAME: the result is the input divided by the stride, rounded up; the odd one goes behind."""
    if operator.option("Padding") != _SAME:
        spans = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
        if any(span > extent for span, extent in zip(spans, size, strict=True)):
            window, within = ("x".join(map(str, sides)) for sides in (spans, size))
            raise Refused(f"its window of {window} is larger than its input of {within}", "pad the input before")
        return [0, 0, 0, 0]
    totals = []
    for extent, taps, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
        covered = (-(-extent // stride) - 1) * stride + (taps - 1) * dilation + 1
        totals.append(max(covered - extent, 0))
    return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]


def _ints(build: Builder, near: str, numbers: Sequence[int]) -> str:
    values: NDArray[np.int64] = np.array(numbers, np.int64)
    return build.array(f"{near}.shape", values)
