"""The NNIE's limits on its layers, as constraints (`nnkit.constraints`)."""

from __future__ import annotations

import math

import numpy as np

from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.resize import read_resize
from nnkit.graph.read.slice import read_split
from nnkit.graph.read.transpose import read_transpose
from nnkit_nnie.layer_kinds import ACTIVATIONS, ROI_KINDS
from nnkit_nnie.layers import Layer
from nnkit_nnie.limits.context import Context, LayerLimit
from nnkit_nnie.limits.window_limits import WINDOW_LIMITS, dims

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
    shape = dims(context.graph.shape(beyond))
    return f"{shape} in {beyond}" if beyond in layer.inputs else shape


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
    return f"input {name} of {dims(context.graph.shape(name))}, which a Permute turns"


def _reads_channels_last(layer: Layer, context: Context) -> bool:
    """Whether it brings the channels of a network's input to the front."""
    if layer.kind != "Permute" or layer.inputs[0] not in context.graph.inputs:
        return False
    return read_transpose(context.graph, layer.main).order == (0, 3, 1, 2)


def reshape_keeps_batch(layer: Layer, context: Context) -> str | None:
    """a Reshape gives four dimensions, of which the first is written as 0 (the batch, unchanged)
    fix: reshape to [0, C, H, W]; a vector is [0, F, 1, 1]"""
    shape = context.graph.shape(layer.outputs[0])
    return f"{dims(shape)}" if layer.kind == "Reshape" and len(shape) != 4 else None


def batch_is_unchanged(layer: Layer, context: Context) -> str | None:
    """nothing changes the batch dimension
    fix: take one image at a time; what merges images (left and right half, several crops) belongs to the CPU"""
    if layer.kind in ROI_KINDS:  # from here on the regions take the batch's place
        return None
    shapes = [context.graph.shape(name) for name in (*layer.inputs, *layer.outputs)]
    batches = list(dict.fromkeys(shape[0] for shape in shapes if shape))  # a number by itself has no batch
    if len(batches) > 1:
        return f"batches of {' and '.join(map(str, batches))}"
    maker = _batch_maker(layer, batches[0], context) if batches and batches[0] > 1 else None
    return f"a batch of {batches[0]} behind {maker.name} ({maker.kind})" if maker is not None else None


def _batch_maker(layer: Layer, batch: int, context: Context) -> Layer | None:
    """The layer that makes a batch of several, as a Reshape of rows does; None for regions and for inputs."""
    reader = layer
    while values := [name for name in reader.inputs if context.graph.shape(name)[:1] == (batch,)]:
        source = context.producers.get(values[0])
        if source is None or source.kind in (*ROI_KINDS, "Proposal"):
            return None
        reader = source
    return reader if reader is not layer else None


def upsample_is_twofold(layer: Layer, context: Context) -> str | None:
    """Upsample doubles height and width, nearest neighbour only
    fix: use factors of {upsample_factor} one after the other, or a Deconvolution"""
    if layer.kind != "Upsample":
        return None
    shape, result = context.graph.shape(layer.inputs[0]), context.graph.shape(layer.outputs[0])
    factor = context.limits.upsample_factor
    if len(shape) != 4 or result != (*shape[:2], shape[2] * factor, shape[3] * factor):
        return f"{dims(shape)} to {dims(result)}"
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
    return " and ".join(dims(shape) for shape in shapes)


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
    return f"{dims(blocks)} for a map of {dims(shape[2:])}"


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
    *WINDOW_LIMITS,
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


def _change(layer: Layer, context: Context) -> str:
    """What a layer makes of its first input's shape; of one that reads constants alone, its result's."""
    result = dims(context.graph.shape(layer.outputs[0]))
    return f"{dims(context.graph.shape(layer.inputs[0]))} to {result}" if layer.inputs else f"a constant to {result}"


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
