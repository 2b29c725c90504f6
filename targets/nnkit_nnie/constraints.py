"""The NNIE's limits on its layers. Each docstring is the message, the remedy and the line in the docs.

A limit returns what it found beyond it, in words that follow "found", and None where the layer is within.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnkit.graph.padding import explicit_pads
from nnkit_nnie.layer_kinds import ACTIVATIONS, ROI_KINDS
from nnkit_nnie.layers import Layer
from nnkit_nnie.limits import Context, LayerLimit

_POWERS = (-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0)
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
    most = int(context.limits["max_side"])
    beyond = next((name for name in values if max(context.graph.shape(name)[1:], default=1) > most), None)
    if beyond is None:
        return None
    found = _dims(context.graph.shape(beyond))
    return f"{found} in {beyond}" if beyond in layer.inputs else found


def weights_are_small(layer: Layer, context: Context) -> str | None:
    """no dimension of the weights is over {max_side} (of a fully connected layer: its outputs)
    fix: split the layer into several with fewer outputs"""
    weight = _weight_shape(layer, context)
    if weight is None or max(weight) <= int(context.limits["max_side"]):
        return None
    return f"{weight[0]:,} outputs" if len(weight) == 1 else f"weights of {_dims(weight)}"


def windows_are_small(layer: Layer, context: Context) -> str | None:
    """kernels, strides and dilations are 1 to {max_parameter}, paddings 0 to {max_parameter}
    fix: use a smaller window; a global pooling of a large map can be two poolings"""
    if layer.kind not in _WINDOWED:
        return None
    node, most = layer.main, int(context.limits["max_parameter"])
    kernel = node.ints("kernel_shape") or (_weight_shape(layer, context) or ())[2:]
    if node.op_type.startswith("Global"):
        kernel = context.graph.shape(node.inputs[0])[2:]
    found = {"kernel": kernel, "stride": node.ints("strides"), "dilation": node.ints("dilations")}
    beyond = [f"{name} {_dims(sides)}" for name, sides in found.items() if not all(1 <= s <= most for s in sides)]
    if not all(0 <= pad <= most for pad in node.ints("pads")):
        beyond.append(f"padding {list(node.ints('pads'))}")
    return ", ".join(beyond) or None


def window_is_plane(layer: Layer, context: Context) -> str | None:
    """convolutions and poolings have two dimensions, and padding that is the same on both ends of a side
    fix: pad the input in the network before, or choose a symmetric padding"""
    if layer.kind not in _WINDOWED:
        return None
    node, shape = layer.main, context.graph.shape(layer.inputs[0])
    if len(shape) != 4:
        return f"an input of {_dims(shape)}"
    if layer.kind == "Pooling":
        return None
    pads = node.ints("pads", (0, 0, 0, 0))
    if node.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        totals = _same_pads(layer, context)
        return None if all(total % 2 == 0 for total in totals) else f"{totals[0]} rows and {totals[1]} columns in all"
    if pads[0] == pads[2] and pads[1] == pads[3]:
        return None
    return f"{pads[0]} above, {pads[2]} below, {pads[1]} left, {pads[3]} right"


def group_is_small(layer: Layer, context: Context) -> str | None:
    """a convolution has at most {max_group} groups
    fix: split the layer, or write it as a depthwise convolution"""
    if layer.kind not in ("Convolution", "Deconvolution"):
        return None
    groups = layer.main.integer("group", 1)
    return f"{groups:,}" if groups > int(context.limits["max_group"]) else None


def pooling_is_ceil(layer: Layer, context: Context) -> str | None:
    """a pooling covers its whole input: the size of its output is rounded up (ceil mode)
    fix: choose kernel, stride and padding so that nothing is left over, or train with ceil_mode"""
    if layer.kind != "Pooling" or layer.main.op_type.startswith("Global"):
        return None
    node = layer.main
    shape, result = context.graph.shape(node.inputs[0]), context.graph.shape(node.outputs[0])
    kernel, strides = node.ints("kernel_shape"), node.ints("strides", (1, 1))
    pads = node.ints("pads", (0, 0, 0, 0))
    automatic = node.text("auto_pad", "NOTSET")
    if len(shape) != 4 or automatic == "VALID":
        return None
    if automatic != "NOTSET":
        return f"padding {automatic}"
    wanted = tuple(
        _ceil_size(shape[2 + axis], kernel[axis], strides[axis], pads[axis], pads[2 + axis]) for axis in (0, 1)
    )
    return None if result[2:] == wanted else f"an output of {_dims(result[2:])}, where that would be {_dims(wanted)}"


def power_is_known(layer: Layer, context: Context) -> str | None:
    """the exponent of a Power is one of {powers}
    fix: write the power as a product of these, or run the layer on the CPU"""
    if layer.kind != "Power":
        return None
    beyond = [e for e in _exponents(layer, context) if not any(math.isclose(e, power) for power in _POWERS)]
    return f"{beyond[0]:g}" if beyond else None


def permute_is_channels_last(layer: Layer, context: Context) -> str | None:
    """Permute can only support (0,1,2,3) -> (0,2,3,1) order
    fix: rearrange with that order and Reshape, or run the layer on the CPU"""
    order = layer.main.ints("perm")
    return f"({','.join(map(str, order))})" if layer.kind == "Permute" and order != (0, 2, 3, 1) else None


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
    factor = int(context.limits["upsample_factor"])
    if len(shape) != 4 or result != (*shape[:2], shape[2] * factor, shape[3] * factor):
        return f"{_dims(shape)} to {_dims(result)}"
    mode = layer.main.text("coordinate_transformation_mode", "asymmetric")
    return None if mode in ("asymmetric", "half_pixel") else f"the coordinates of {mode}"


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
    fix: repeat the smaller input with Concat (at most {max_concat_inputs} inputs each), then Reshape"""
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
    return f"{given}" if given > int(context.limits["max_concat_inputs"]) else None


def normalize_eps_is_fixed(layer: Layer, context: Context) -> str | None:
    """Normalize has an eps of {normalize_eps}
    fix: rebuild the normalisation from Reduction, Power, Concat and Eltwise (a rewrite does so), or set this eps"""
    if layer.kind != "Normalize":
        return None
    eps = layer.main.number("eps", 1e-10)
    return None if math.isclose(eps, float(context.limits["normalize_eps"]), rel_tol=1e-3) else f"{eps:g}"


def pass_through_divides(layer: Layer, context: Context) -> str | None:
    """the blocks of PassThrough are 1 to {max_parameter} and divide height and width
    fix: choose blocks that divide the feature map"""
    if layer.kind != "PassThrough":
        return None
    node, shape = layer.main, context.graph.shape(layer.inputs[0])
    most = int(context.limits["max_parameter"])
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
    node = layer.main
    if layer.kind not in ("Concat", "Slice", "Softmax") or node.op_type == "Slice":
        return None
    axis = node.integer("axis", -1 if node.op_type == "Softmax" else 0)
    rank = len(context.graph.shape(layer.inputs[0])) if layer.inputs else 4
    return f"axis {axis}" if axis % rank == 0 else None


LAYER_LIMITS: tuple[LayerLimit, ...] = (
    sides_are_small,
    weights_are_small,
    windows_are_small,
    window_is_plane,
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


def _dims(shape: Sequence[int]) -> str:
    """A shape for people."""
    return " x ".join(f"{side:,}" for side in shape)


def _change(layer: Layer, context: Context) -> str:
    """What a layer makes of its first input's shape."""
    return f"{_dims(context.graph.shape(layer.inputs[0]))} to {_dims(context.graph.shape(layer.outputs[0]))}"


def _weight_shape(layer: Layer, context: Context) -> tuple[int, ...] | None:
    """[O, I / groups, kh, kw] of a convolution, (O,) of a fully connected layer; None for others."""
    node, constants = layer.main, context.graph.constants
    if layer.kind in ("Convolution", "DepthwiseConv", "Deconvolution"):
        return tuple(constants[node.inputs[1]].shape) if node.inputs[1] in constants else None
    if layer.kind == "InnerProduct":
        return (context.graph.shape(layer.outputs[0])[-1],)
    return None


def _same_pads(layer: Layer, context: Context) -> list[int]:
    """Rows and columns of padding in all, where the network says SAME."""
    node = layer.main
    shape, result = context.graph.shape(node.inputs[0]), context.graph.shape(node.outputs[0])
    kernel = node.ints("kernel_shape") or (_weight_shape(layer, context) or ())[2:]
    strides, dilations = node.ints("strides", (1, 1)), node.ints("dilations", (1, 1))
    top, left, bottom, right = explicit_pads(
        node.text("auto_pad", ""),
        (),
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        input_hw=shape[2:],
        output_hw=result[2:],
    )
    return [top + bottom, left + right]


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
    found = []
    for node in layer.nodes:
        if node.op_type == "Pow":
            array = context.graph.constant_float(node.inputs[1])
            found.append(float(np.ravel(array)[0]) if array is not None and array.size else math.nan)
        elif node.op_type in ("Sqrt", "Reciprocal"):
            found.append(0.5 if node.op_type == "Sqrt" else -1.0)
        elif node.op_type == "Div" and node.inputs[0] in context.graph.constants:
            found.append(-1.0)
    return found
