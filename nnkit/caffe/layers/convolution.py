"""Convolution, its depthwise forms, Deconvolution and InnerProduct."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nnkit.caffe.layers.context import LayerContext
from nnkit.graph.view import Shape

MAX_GEOMETRY = 1 << 16


class Window(NamedTuple):
    """Kernel, stride, pad and dilation, each as (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]


def pair(context: LayerContext, parameter: Any, name: str, default: int | None, least: int) -> tuple[int, int]:
    """Height and width of a kernel, stride, pad or dilation, from `name`, `name_h` and `name_w`.

    Caffe lets a file give either the repeated field (one value or two) or the pair.
    """
    stem = "kernel" if name == "kernel_size" else name
    field = parameter.DESCRIPTOR.fields_by_name[name]
    listed = getattr(parameter, name)
    single = isinstance(listed, int)
    values = ([listed] if parameter.HasField(name) else []) if single else list(listed[:3])
    names = [f"{stem}_h", f"{stem}_w"]
    has_pair = all(other in parameter.DESCRIPTOR.fields_by_name for other in names)
    given = [other for other in names if has_pair and parameter.HasField(other)]
    if values and given:
        context.fail(f"it gives both {field.name} and {given[0]}", "keep one of the two")
    if given:
        if len(given) < 2 and default is None:
            context.fail(f"it gives {given[0]} alone", f"give {' and '.join(names)}")
        values = [getattr(parameter, other) if parameter.HasField(other) else default for other in names]
    elif not values:
        if default is None:
            context.fail(f"it has no {name}", f"write {name}")
        values = [default]
    if len(values) > 2:
        context.fail(f"its {name} has more than two values", "give one, or height and width")
    for value in values:
        if not least <= value <= MAX_GEOMETRY:
            context.fail(f"its {name} is {value}", f"a value from {least} to {MAX_GEOMETRY} is needed")
    return int(values[0]), int(values[-1])


def convolution(context: LayerContext) -> None:
    """Conv. The depthwise types of various forks group by input channel where they give no group."""
    context.counts(1)
    parameter = context.parameter("convolution_param")
    channels, height, width = context.image()
    depthwise = context.layer.type != "Convolution"
    outputs = parameter.num_output or (channels if depthwise else 0)
    group = parameter.group if parameter.HasField("group") or not depthwise else channels
    window = _window(context, outputs, group)
    kernel, stride, pad, dilation = window
    extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if min(height + 2 * pad[0] - extent[0], width + 2 * pad[1] - extent[1]) < 0:
        context.fail(f"its kernel {kernel[0]}x{kernel[1]} is larger than the padded input {height}x{width}")
    sizes = [(side + 2 * p - e) // s + 1 for side, p, e, s in zip((height, width), pad, extent, stride, strict=True)]
    _convolve(context, "Conv", (outputs, channels // group, *kernel), (outputs, *sizes), window, group)


def deconvolution(context: LayerContext) -> None:
    """ConvTranspose; weights [C, outputs / group, kh, kw]."""
    context.counts(1)
    parameter = context.parameter("convolution_param")
    channels, height, width = context.image()
    outputs, group = parameter.num_output, parameter.group
    window = _window(context, outputs, group)
    sizes = [
        s * (side - 1) + d * (k - 1) + 1 - 2 * p for side, k, s, p, d in zip((height, width), *window, strict=True)
    ]
    weight = (channels, outputs // group, *window.kernel)
    _convolve(context, "ConvTranspose", weight, (outputs, *sizes), window, group)


def inner_product(context: LayerContext) -> None:
    """Gemm over the axes from `axis` on, which are flattened before it; the axes before are restored behind it."""
    context.counts(1)
    parameter = context.parameter("inner_product_param")
    shape, outputs = context.shape(), parameter.num_output
    axis = context.axis(parameter.axis, len(shape))
    if not outputs:
        context.fail("it has no num_output", "write num_output")
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    stored = (columns, outputs) if parameter.transpose else (outputs, columns)
    weights = context.array(0, stored, "weight")
    if parameter.transpose:
        weights = weights.T.copy()
        parameter.transpose = False  # what the export writes
    inputs = [context.weight("weight", weights)]
    if parameter.bias_term:
        inputs.append(context.weight("bias", context.array(1, (outputs,), "bias")))
    context.array_count(1 + parameter.bias_term)
    value = context.bottoms[0]
    if axis == 1 and len(shape) > 2:
        value = context.part("Flatten", [value], (rows, columns), "flatten", axis=1)
    elif len(shape) != 2 or axis != 1:
        target = context.integers("rows", (rows, columns))
        value = context.part("Reshape", [value, target], (rows, columns), "flatten")
    result: Shape = (*shape[:axis], outputs)
    if len(result) == 2:
        context.result("Gemm", [value, *inputs], result, transB=1)
        return
    product = context.part("Gemm", [value, *inputs], (rows, outputs), "gemm", transB=1)
    context.result("Reshape", [product, context.integers("shape", result)], result)


def _window(context: LayerContext, outputs: int, group: int) -> Window:
    """The window; `outputs` and `group` are checked."""
    parameter, channels = context.parameter("convolution_param"), context.image()[0]
    if parameter.axis not in (1, -3):
        context.fail(f"its axis is {parameter.axis}", "only convolution over height and width can be taken: axis 1")
    window = Window(
        kernel=pair(context, parameter, "kernel_size", None, 1),
        stride=pair(context, parameter, "stride", 1, 1),
        pad=pair(context, parameter, "pad", 0, 0),
        dilation=pair(context, parameter, "dilation", 1, 1),
    )
    if not outputs:
        context.fail("it has no num_output", "write num_output")
    if not group or channels % group or outputs % group:
        context.fail(
            f"group {group} does not divide its {channels} input and {outputs} output channels", "correct the group"
        )
    return window


def _convolve(context: LayerContext, op_type: str, weight: Shape, result: Shape, window: Window, group: int) -> None:
    """The layer as `Conv` or `ConvTranspose`: the same attributes, both ends of an axis padded alike.

    Args:
        weight: shape of the weights. result: [O, H, W] of the result.
    """
    has_bias = context.parameter("convolution_param").bias_term
    inputs = [context.bottoms[0], context.weight("weight", context.array(0, weight, "weight"))]
    if has_bias:
        inputs.append(context.weight("bias", context.array(1, result[:1], "bias")))
    context.array_count(1 + has_bias)
    context.result(
        op_type,
        inputs,
        (context.shape()[0], *result),
        kernel_shape=list(window.kernel),
        strides=list(window.stride),
        pads=[*window.pad, *window.pad],
        dilations=list(window.dilation),
        group=group,
    )
