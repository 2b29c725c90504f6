"""The NNIE's limits on its layers, as constraints (`nnkit.constraints`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.conv import Conv
from nnkit.graph.read.conv_transpose import ConvTranspose
from nnkit.graph.read.fully_connected import FullyConnected
from nnkit.graph.read.pool import Pool
from nnkit.graph.read.resize import read_resize
from nnkit.graph.read.slice import read_split
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.read.window import SlidingWindow
from nnkit.graph.refusal import Refused
from nnkit_nnie.context import Context, LayerLimit
from nnkit_nnie.layer_kinds import ACTIVATIONS, ROI_KINDS
from nnkit_nnie.layers import Layer
from nnkit_nnie.operators import Weighted, read_operator

_WINDOWED = frozenset({"Convolution", "DepthwiseConv", "Deconvolution", "Pooling"})
_VECTOR = ACTIVATIONS | {"Softmax", "InnerProduct", "Dropout", "Split"}

FOLLOWERS = {
    "InnerProduct": _VECTOR,
    "LSTM": _VECTOR | {"LSTM", "RNN", "Reshape"},
    "RNN": _VECTOR | {"LSTM", "RNN", "Reshape"},
    "SPP": _VECTOR,
    "MatMul": _VECTOR | {"MatMul", "Eltwise", "Scale"},
    "CReLU": ACTIVATIONS
    | {
        "Convolution",
        "DepthwiseConv",
        "Deconvolution",
        "Pooling",
        "Eltwise",
        "Concat",
        "Scale",
        "BatchNorm",
        "Split",
    },
    "ROIPooling": _VECTOR | {"Convolution", "DepthwiseConv", "Pooling", "Flatten", "Eltwise", "BatchNorm", "Scale"},
    "PSROIPooling": _VECTOR | {"Pooling", "Flatten", "Convolution"},
}
"""What may read a layer of these types. The vendor's text says so of the fully connected layer; for the others it
says that there is a list, and these are the types that follow them in networks known to compile."""


def sides_are_small(layer: Layer, context: Context) -> str | None:
    """channels, height and width of every feature map are at most {max_side}
    fix: make it smaller (strides, fewer channels, several outputs), or run the layer on the CPU"""
    values = [*layer.inputs, *layer.outputs]
    if layer.kind == "InnerProduct":  # it reads its input flattened, whatever its shape
        values = list(layer.outputs)
    if layer.kind in ("Flatten", "Reshape") and all(
        reader.kind == "InnerProduct" for reader in context.consumers.get(layer.outputs[0], ())
    ):
        values = list(layer.inputs)
    most = context.limits.max_side
    beyond = next((name for name in values if max(context.graph.shape(name)[1:], default=1) > most), None)
    if beyond is None:
        return None
    shape = _dims(context.graph.shape(beyond))
    return f"{shape} in {beyond}" if beyond in layer.inputs else shape


def weights_are_small(layer: Layer, context: Context) -> str | None:
    """no dimension of the weights is over {max_side} (of a fully connected layer: its outputs)
    fix: split the layer into several with fewer outputs"""
    operator, most = _operator(layer, context), context.limits.max_side
    if isinstance(operator, FullyConnected):
        return f"{operator.outputs:,} outputs" if operator.outputs > most else None
    if not isinstance(operator, Conv | ConvTranspose) or max(operator.weight.shape) <= most:
        return None
    return f"weights of {_dims(operator.weight.shape)}"


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
    beyond = [f"{name} {_dims(pair)}" for name, pair, most in sides if not all(1 <= side <= most for side in pair)]
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
        return f"an input of {_dims(shape)}"
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
    return f"an output of {_dims(window.output_hw)}, where that would be {_dims(wanted)}"


def power_is_known(layer: Layer, context: Context) -> str | None:
    """the exponent of a Power is one of {powers}
    fix: write the power as a product of these, or run the layer on the CPU"""
    if layer.kind != "Power":
        return None
    powers = context.limits.powers
    beyond = [e for e in _exponents(layer, context) if not any(math.isclose(e, power) for power in powers)]
    return f"{beyond[0]:g}" if beyond else None


def permute_is_channels_last(layer: Layer, context: Context) -> str | None:
    """Permute can only support (0,1,2,3) -> (0,2,3,1) order
    fix: rearrange with that order and Reshape, or run the layer on the CPU"""
    if layer.kind != "Permute":
        return None
    order = read_transpose(context.graph, layer.main).order
    if order == (0, 2, 3, 1) or _reads_channels_last(layer, context):
        return None
    return f"({','.join(map(str, order))})"


def input_has_channels_first(layer: Layer, context: Context) -> str | None:
    """a network's input has its channels first, [1, C, H, W]
    fix: write layout: nhwc for the input in the recipe (model.inputs); the Permute then falls away"""
    if not _reads_channels_last(layer, context):
        return None
    name = layer.inputs[0]
    return f"input {name} of {_dims(context.graph.shape(name))}, which a Permute turns"


def _reads_channels_last(layer: Layer, context: Context) -> bool:
    """Whether it brings the channels of a network's input to the front."""
    if layer.kind != "Permute" or layer.inputs[0] not in context.graph.inputs:
        return False
    return read_transpose(context.graph, layer.main).order == (0, 3, 1, 2)


def reshape_keeps_batch(layer: Layer, context: Context) -> str | None:
    """a Reshape gives four dimensions, of which the first is written as 0 (the batch, unchanged)
    fix: reshape to [0, C, H, W]; a vector is [0, F, 1, 1]"""
    shape = context.graph.shape(layer.outputs[0])
    return f"{_dims(shape)}" if layer.kind == "Reshape" and len(shape) != 4 else None


def batch_is_unchanged(layer: Layer, context: Context) -> str | None:
    """nothing changes the batch dimension
    fix: take one image at a time; what merges images (left and right half, several crops) belongs to the CPU"""
    if layer.kind in ROI_KINDS:  # from here on the regions take the batch's place
        return None
    shapes = [context.graph.shape(name) for name in (*layer.inputs, *layer.outputs)]
    batches = list(dict.fromkeys(shape[0] for shape in shapes))
    return f"batches of {' and '.join(map(str, batches))}" if len(batches) > 1 else None


def upsample_is_twofold(layer: Layer, context: Context) -> str | None:
    """Upsample doubles height and width, nearest neighbour only
    fix: use factors of {upsample_factor} one after the other, or a Deconvolution"""
    if layer.kind != "Upsample":
        return None
    shape, result = context.graph.shape(layer.inputs[0]), context.graph.shape(layer.outputs[0])
    factor = context.limits.upsample_factor
    if len(shape) != 4 or result != (*shape[:2], shape[2] * factor, shape[3] * factor):
        return f"{_dims(shape)} to {_dims(result)}"
    if layer.main.op_type != "Resize":
        return None
    resize = read_resize(context.graph, layer.main)
    if resize.repeats(2) and resize.repeats(3):
        return None
    return f"the coordinates of {resize.coordinates}, rounded by {resize.rounding}"


def no_crop(layer: Layer, context: Context) -> str | None:
    """there is no Crop
    fix: choose sizes that agree without it, or run the layer on the CPU"""
    return _change(layer, context) if layer.kind == "Crop" else None


def no_fractional_interp(layer: Layer, context: Context) -> str | None:
    """Interp scales by whole factors only
    fix: use Upsample or a Deconvolution, or run the layer on the CPU"""
    if layer.kind != "Interp":
        return None
    shape, result = context.graph.shape(layer.inputs[0]), context.graph.shape(layer.outputs[0])
    sides = zip(shape[2:], result[2:], strict=True)
    whole = len(shape) == 4 and all(new % old == 0 or old % new == 0 for old, new in sides)
    return None if whole else _change(layer, context)


def no_tile(layer: Layer, context: Context) -> str | None:
    """there is no Tile
    fix: repeat the value with Concat (the rewrite that rebuilds normalisation does so)"""
    return _change(layer, context) if layer.kind == "Tile" else None


def no_broadcast(layer: Layer, context: Context) -> str | None:
    """the inputs of an Eltwise have one shape: there is no broadcast
    fix: repeat the smaller input with Concat (at most {max_concat_inputs} inputs each), then Reshape; the rewrite
    broadcast_to_concat does so for one number a channel"""
    shapes = list(dict.fromkeys(context.graph.shape(name) for name in layer.inputs))
    if layer.kind != "Eltwise" or len(shapes) == 1:
        return None
    return " and ".join(_dims(shape) for shape in shapes)


def concat_is_small(layer: Layer, context: Context) -> str | None:
    """a Concat takes at most {max_concat_inputs} inputs
    fix: concatenate in two steps"""
    if layer.kind != "Concat":
        return None
    given = sum(len([n for n in node.inputs if n]) for node in layer.nodes if node.op_type == "Concat")
    return f"{given}" if given > context.limits.max_concat_inputs else None


def normalize_eps_is_fixed(layer: Layer, context: Context) -> str | None:
    """Normalize has an eps of {normalize_eps}
    fix: rebuild the normalisation from Reduction, Power, Concat and Eltwise (a rewrite does so), or set this eps"""
    if layer.kind != "Normalize":
        return None
    eps = layer.main.number("eps", 1e-10)
    return None if math.isclose(eps, context.limits.normalize_eps, rel_tol=1e-3) else f"{eps:g}"


def pass_through_divides(layer: Layer, context: Context) -> str | None:
    """the blocks of PassThrough are 1 to {max_parameter} and divide height and width
    fix: choose blocks that divide the feature map"""
    if layer.kind != "PassThrough":
        return None
    node, shape = layer.main, context.graph.shape(layer.inputs[0])
    most = context.limits.max_parameter
    blocks = [node.integer(name, 1) for name in ("block_height", "block_width")]
    if all(1 <= b <= most and side % b == 0 for b, side in zip(blocks, shape[2:], strict=True)):
        return None
    return f"{_dims(blocks)} for a map of {_dims(shape[2:])}"


def proposal_has_one_top(layer: Layer, context: Context) -> str | None:
    """Proposal has exactly one top
    fix: leave the scores out of its outputs"""
    return f"{len(layer.outputs)}" if layer.kind == "Proposal" and len(layer.outputs) != 1 else None


def follower_is_possible(layer: Layer, context: Context) -> str | None:
    """what reads InnerProduct, LSTM, RNN, SPP, MatMul, CReLU, ROIPooling or PSROIPooling is limited; after
    InnerProduct only softmax-like layers and further InnerProducts can come
    fix: turn every fully connected layer but the last into a convolution (the rewrite fc_to_conv), or run this layer
    on the CPU"""
    for name in layer.inputs:
        source = context.producers.get(name)
        if source is None or source.placement == "cpu" or source.kind not in FOLLOWERS:
            continue
        if layer.kind not in FOLLOWERS[source.kind]:
            return f"{layer.kind} behind {source.name} ({source.kind})"
    return None


def known_axis(layer: Layer, context: Context) -> str | None:
    """Concat, Slice, Softmax and Reduction work along a dimension other than the batch
    fix: choose axis 1, 2 or 3"""
    graph, node = context.graph, layer.main
    match node.op_type:
        case "Concat":
            axis = read_concat(graph, node).axis
        case "Split":
            axis = read_split(graph, node).axis
        case "Softmax":
            axis = read_axis(graph, node)
        case _:
            return None
    return f"axis {axis}" if layer.kind in ("Concat", "Slice", "Softmax") and axis == 0 else None


LAYER_LIMITS: tuple[LayerLimit, ...] = (
    sides_are_small,
    weights_are_small,
    windows_are_small,
    window_is_plane,
    operator_is_readable,
    product_has_one_row,
    group_is_small,
    pooling_is_ceil,
    power_is_known,
    permute_is_channels_last,
    reshape_keeps_batch,
    batch_is_unchanged,
    upsample_is_twofold,
    no_crop,
    no_fractional_interp,
    no_tile,
    no_broadcast,
    concat_is_small,
    normalize_eps_is_fixed,
    pass_through_divides,
    proposal_has_one_top,
    follower_is_possible,
    known_axis,
)
"""Limits of layers that the NNIE executes; what runs on the CPU is free of them."""

INPUT_RULES: tuple[LayerLimit, ...] = (input_has_channels_first,)
"""Rules for what reads an input of the network; to run it on the CPU is no way out of them."""


def _dims(shape: Sequence[int]) -> str:
    """A shape for people."""
    return " x ".join(f"{side:,}" for side in shape)


def _change(layer: Layer, context: Context) -> str:
    """What a layer makes of its first input's shape."""
    return f"{_dims(context.graph.shape(layer.inputs[0]))} to {_dims(context.graph.shape(layer.outputs[0]))}"


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


def _exponents(layer: Layer, context: Context) -> list[float]:
    """The exponents that a Power layer's nodes raise to."""
    exponents = []
    for node in layer.nodes:
        if node.op_type == "Pow":
            array = context.graph.constant(node.inputs[1])
            exponents.append(float(np.ravel(array)[0]) if array is not None and array.size else math.nan)
        elif node.op_type in ("Sqrt", "Reciprocal"):
            exponents.append(0.5 if node.op_type == "Sqrt" else -1.0)
        elif node.op_type == "Div" and node.inputs[0] in context.graph.constants:
            exponents.append(-1.0)
    return exponents
