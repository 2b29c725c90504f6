"""The NNIE's limits on layers with weights or a window, as constraints (`nnkit.constraints`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnkit.graph.read.conv import Conv
from nnkit.graph.read.conv_transpose import ConvTranspose
from nnkit.graph.read.fully_connected import FullyConnected
from nnkit.graph.read.pool import Pool
from nnkit.graph.read.window import SlidingWindow
from nnkit.graph.refusal import Refused
from nnkit_nnie.layers import Layer
from nnkit_nnie.limits.context import Context, LayerLimit
from nnkit_nnie.operators import Weighted, read_operator

_WINDOWED = frozenset({"Convolution", "DepthwiseConv", "Deconvolution", "Pooling"})


def weights_are_small(layer: Layer, context: Context) -> str | None:
    """no dimension of the weights is over {max_side} (of a fully connected layer: its outputs)
    fix: split the layer into several with fewer outputs"""
    operator, most = _operator(layer, context), context.limits.max_side
    if isinstance(operator, FullyConnected):
        return f"{operator.outputs:,} outputs" if operator.outputs > most else None
    if not isinstance(operator, Conv | ConvTranspose) or max(operator.weight.shape) <= most:
        return None
    return f"weights of {dims(operator.weight.shape)}"


def windows_are_small(layer: Layer, context: Context) -> str | None:
    """kernels are 1 to {max_kernel}, strides and dilations 1 to {max_parameter}, paddings 0 to {max_parameter}
    fix: use a smaller window; a global pooling of a large map can be two poolings"""
    window, limits = _window(layer, context), context.limits
    if window is None:
        return None
    sides = (
        ("kernel", window.kernel, limits.max_kernel),
        ("stride", window.strides, limits.max_parameter),
        ("dilation", window.dilations, limits.max_parameter),
    )
    beyond = [f"{name} {dims(pair)}" for name, pair, most in sides if not all(1 <= side <= most for side in pair)]
    if not all(0 <= pad <= limits.max_parameter for pad in window.pads):
        beyond.append(f"padding {list(window.pads)}")
    return ", ".join(beyond) or None


def window_is_plane(layer: Layer, context: Context) -> str | None:
    """convolutions and poolings have two dimensions, and padding that is the same on both ends of a side
    fix: pad the input in the network before, or choose a symmetric padding"""
    if layer.kind not in _WINDOWED:
        return None
    shape, window = context.graph.shape(layer.inputs[0]), _window(layer, context)
    if len(shape) != 4:
        return f"an input of {dims(shape)}"
    if layer.kind == "Pooling" or window is None:
        return None
    top, left, bottom, right = window.pads
    return None if (top, left) == (bottom, right) else f"{top} above, {bottom} below, {left} left, {right} right"


def operator_is_readable(layer: Layer, context: Context) -> str | None:
    """weights and biases are constants of the network, and a pooling gives out its values alone
    fix: fold what computes them into constants (docs/rewrites.md), or run the layer on the CPU"""
    if layer.kind in _WINDOWED and len(context.graph.shape(layer.inputs[0])) != 4:
        return None  # told already
    try:
        read_operator(context.graph, layer)
    except Refused as refused:
        return f"that {refused.reason}"
    return None


def product_has_one_row(layer: Layer, context: Context) -> str | None:
    """an InnerProduct makes one vector of its whole input
    fix: write a product of several rows as a 1x1 convolution, or run the layer on the CPU"""
    operator = _operator(layer, context)
    if not isinstance(operator, FullyConnected):
        return None
    rows = math.prod(context.graph.shape(layer.main.output)) // operator.outputs
    return f"{rows:,} of them" if rows > context.graph.shape(layer.inputs[0])[0] else None


def group_is_small(layer: Layer, context: Context) -> str | None:
    """a convolution has at most {max_group} groups
    fix: split the layer, or write it as a depthwise convolution"""
    operator = _operator(layer, context)
    if layer.kind == "DepthwiseConv" or not isinstance(operator, Conv | ConvTranspose):
        return None
    return f"{operator.groups:,}" if operator.groups > context.limits.max_group else None


def pooling_is_ceil(layer: Layer, context: Context) -> str | None:
    """a pooling covers its whole input: the size of its output is rounded up (ceil mode)
    fix: name the rewrite floor_pool_to_conv in the recipe; or choose kernel, stride and padding so that nothing is
    left over"""
    pool, automatic = _operator(layer, context), layer.main.text("auto_pad", "NOTSET")
    if not isinstance(pool, Pool) or pool.is_global or automatic == "VALID":
        return None
    if automatic != "NOTSET":
        return f"padding {automatic}"
    window = pool.window
    wanted = tuple(
        _ceil_size(
            window.input_hw[axis],
            window.kernel[axis],
            window.strides[axis],
            window.pads[axis],
            window.pads[2 + axis],
        )
        for axis in (0, 1)
    )
    if window.output_hw == wanted:
        return None
    return f"an output of {dims(window.output_hw)}, where that would be {dims(wanted)}"


WINDOW_LIMITS: tuple[LayerLimit, ...] = (
    weights_are_small,
    windows_are_small,
    window_is_plane,
    operator_is_readable,
    product_has_one_row,
    group_is_small,
    pooling_is_ceil,
)


def dims(shape: Sequence[int]) -> str:
    """A shape for people."""
    return " x ".join(f"{side:,}" for side in shape)


def _operator(layer: Layer, context: Context) -> Weighted | Pool | None:
    """The operator of a layer with weights or a window; None for others, and where `operator_is_readable` tells."""
    try:
        return read_operator(context.graph, layer)
    except Refused:
        return None


def _window(layer: Layer, context: Context) -> SlidingWindow | ConvTranspose | None:
    """Kernel, strides, dilations and pads of a convolution, its transpose or a pooling; None for others."""
    operator = _operator(layer, context)
    if isinstance(operator, Conv | Pool):
        return operator.window
    return operator if isinstance(operator, ConvTranspose) else None


def _ceil_size(side: int, kernel: int, stride: int, begin: int, end: int) -> int:
    """Caffe's output size: rounded up; a last window that starts in the padding is left out.

    Source: the reference implementation's definition of pooling.
    """
    size = -(-(side + begin + end - kernel) // stride) + 1
    if (begin or end) and (size - 1) * stride >= side + begin:
        size -= 1
    return size
