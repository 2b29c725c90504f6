"""One builder per ONNX op of the normal form: a node, and what was marked to run with it, to an op of the float
program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import ValueTags
from nnkit.graph.read.activation import activation_parameters, read_slopes
from nnkit.graph.read.clip import read_clip
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.conv import read_conv
from nnkit.graph.read.conv_transpose import read_conv_transpose
from nnkit.graph.read.embedding import read_embedding
from nnkit.graph.read.fully_connected import check_right_weights
from nnkit.graph.read.operands import image_hw
from nnkit.graph.read.pad import Pad, read_pad
from nnkit.graph.read.pool import read_pool
from nnkit.graph.read.reshape import RESHAPE_OPS, read_reshape
from nnkit.graph.read.resize import read_resize
from nnkit.graph.read.slice import read_slice, read_split
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.read.window import SlidingWindow, check_size
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node
from nnkit.program import Window
from nnkit.quantize.float_program import (
    FloatActivation,
    FloatAdd,
    FloatArray,
    FloatAveragePool,
    FloatConcat,
    FloatConv2d,
    FloatConvTranspose2d,
    FloatEmbedding,
    FloatFunction,
    FloatLogSoftmax,
    FloatMatMul,
    FloatMaxPool,
    FloatMul,
    FloatNormalizeRows,
    FloatOp,
    FloatPad,
    FloatReshape,
    FloatSign,
    FloatSlice,
    FloatSoftmax,
    FloatTranspose,
    FloatUpsample,
    Nonlinearity,
    PoolWindow,
)
from nnkit.quantize.functions import Function, FunctionName

_FUNCTIONS: tuple[FunctionName, ...] = tuple(name for name in get_args(FunctionName) if name != "Pow")
ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "PRelu")


@dataclass(frozen=True, eq=False)
class Chain:
    """What runs together with a node: its pad, activation and pool, and the value that is stored."""

    pad: Node | None
    activation: Nonlinearity | None
    pool: PoolWindow | None
    output: str
    range_value: str
    tags: ValueTags


Builder = Callable[[GraphView, Node, Chain], FloatOp | tuple[FloatOp, ...]]


def _fields(node: Node, chain: Chain, *inputs: str) -> dict[str, Any]:
    return {
        "name": node.name,
        "inputs": inputs,
        "output": chain.output,
        "range_value": chain.range_value,
        "tags": chain.tags,
    }


def _float64(array: NDArray[Any] | None, outputs: int) -> FloatArray:
    """A float64 copy; zeros for a bias that is not there."""
    return np.zeros(outputs) if array is None else np.asarray(array, np.float64)


def _window(window: SlidingWindow) -> Window:
    """The window with the padding that is really read."""
    return Window(*window.kernel, *window.strides, *window.dilations, *window.pads_read)


def _conv(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    conv = read_conv(view, node)
    source, window, pad_value = conv.data, conv.window, 0.0
    if chain.pad is not None:
        if any(window.pads):
            raise Refused("an explicit pad in front of a padded convolution was marked to fuse")
        pad = _constant_pad(view, chain.pad)
        source, pad_value = pad.data, pad.value
        (top, left), (bottom, right) = pad.before[2:], pad.after[2:]
        size = image_hw(view.shape(source))
        window = replace(window, pads=(top, left, bottom, right), input_hw=size)
        check_size(window)
    return FloatConv2d(
        **_fields(node, chain, source),
        weight=_float64(conv.weight, 0),
        bias=_float64(conv.bias, conv.weight.shape[0]),
        window=_window(window),
        groups=conv.groups,
        activation=chain.activation,
        pad_value=pad_value,
        pool=chain.pool,
    )


def _conv_transpose(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    conv = read_conv_transpose(view, node)
    return FloatConvTranspose2d(
        **_fields(node, chain, conv.data),
        weight=_float64(conv.weight, 0),
        bias=_float64(conv.bias, conv.output_channels),
        window=Window(*conv.kernel, *conv.strides, *conv.dilations, *conv.pads[:2]),
        groups=conv.groups,
        activation=chain.activation,
    )


def pool_of(view: GraphView, node: Node) -> PoolWindow:
    """The pool that a MaxPool, AveragePool or GlobalAveragePool node is."""
    pool = read_pool(view, node)
    window = _window(pool.window)
    if pool.counts_padding and pool.window.has_partial_windows:
        raise Refused(
            "its mean counts the padding (count_include_pad), and with ceil_mode windows reach beyond it, "
            "where nothing is counted",
            remedy="export it with count_include_pad=False, or with ceil_mode=False",
        )
    return PoolWindow(pool.kind, window, pool.counts_padding)


def _pool(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    pool, fields = pool_of(view, node), _fields(node, chain, node.inputs[0])
    if pool.kind == "max":
        return FloatMaxPool(**fields, window=pool.window)
    return FloatAveragePool(**fields, window=pool.window, counts_padding=pool.counts_padding)


def activation_of(view: GraphView, node: Node) -> Nonlinearity:
    """The activation that a Relu, Clip, LeakyRelu or PRelu node is."""
    if node.op_type in ("LeakyRelu", "PRelu"):
        return Nonlinearity(slopes=_float64(read_slopes(view, node), 0))
    clip = read_clip(view, node)
    if clip.low > clip.high:
        raise Refused("its lower bound is above its upper bound")
    low, high = (bound if np.isfinite(bound) else None for bound in (clip.low, clip.high))
    return Nonlinearity(low=low, high=high)


def _activation(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    return FloatActivation(**_fields(node, chain, node.inputs[0]), activation=activation_of(view, node))


def _function(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    parameters = activation_parameters(node)
    if node.op_type == "Gelu":
        parameters = (float(node.text("approximate", "none") == "tanh"),)
    name = next(name for name in _FUNCTIONS if name == node.op_type)
    made = FloatSign if name == "Sign" else FloatFunction
    return made(**_fields(node, chain, node.inputs[0]), function=Function(name, *parameters))


def _pow(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    exponent = view.constant(node.inputs[1])
    if exponent is None or exponent.size != 1:
        raise Refused("its exponent is not one constant")
    function = Function("Pow", float(exponent.reshape(-1)[0]))
    return FloatFunction(**_fields(node, chain, node.inputs[0]), function=function)


def _operands(view: GraphView, node: Node) -> tuple[str, str]:
    a, b = node.inputs
    if view.constant(a) is not None or view.constant(b) is not None:
        raise Refused("one operand is a constant that no rule could fold into a neighbouring convolution")
    return a, b


def _cannot_broadcast(view: GraphView, a: str, b: str) -> Refused:
    return Refused(f"operands of shapes {view.shape(a)} and {view.shape(b)} cannot be broadcast here")


def _add(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    a, b = _operands(view, node)
    if view.shape(a) != view.shape(b):
        raise _cannot_broadcast(view, a, b)
    return FloatAdd(**_fields(node, chain, a, b), activation=chain.activation)


def _is_factor(view: GraphView, factor: str, of: str) -> bool:
    """Whether a value has one number for each channel of a map."""
    shape = view.shape(of)
    return len(shape) == 4 and shape[0] == 1 and view.shape(factor) == (*shape[:2], 1, 1)


def _mul(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    a, b = _operands(view, node)
    if view.shape(a) != view.shape(b):
        if _is_factor(view, a, b):
            a, b = b, a
        elif not _is_factor(view, b, a):
            raise _cannot_broadcast(view, a, b)
    return FloatMul(**_fields(node, chain, a, b), activation=chain.activation)


def _concat(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    concat = read_concat(view, node)
    if concat.axis != 1:
        raise Refused("only concatenation along the channels is supported")
    if any(view.constant(name) is not None for name in concat.inputs):
        raise Refused("concatenation with a constant is not supported")
    return FloatConcat(**_fields(node, chain, *concat.inputs))


def _resize(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    resize = read_resize(view, node)
    if resize.mode != "nearest":
        raise Refused(f"resize mode {resize.mode}; only nearest is supported")
    size, out = image_hw(resize.before), image_hw(resize.after)
    factors = resize.whole_factors
    if factors is None:
        raise Refused(f"resize from {size} to {out}; only whole factors are supported")
    if max(factors[2:]) > 1 and resize.coordinates == "align_corners":
        raise Refused("resize with align_corners is not supported")
    return FloatUpsample(**_fields(node, chain, resize.data), scale_h=factors[2], scale_w=factors[3])


def several_images(value: str, shape: tuple[int, ...]) -> Refused:
    """Why a layer is not taken that works on a value whose first axis is not one image."""
    if not shape:
        return Refused(f"'{value}' is a single number, without an axis for images")
    return Refused(f"'{value}' of shape {list(shape)} begins with an axis of {shape[0]}; that of images is 1 here")


def _constant_pad(view: GraphView, node: Node) -> Pad:
    """A Pad of H and W with one number."""
    pad = read_pad(view, node)
    if pad.mode != "constant":
        raise Refused(f"pad mode {pad.mode}; only constant is supported")
    if not pad.pads_hw_only or min(*pad.before, *pad.after) < 0:
        raise Refused("only non-negative padding of H and W is supported")
    return pad


def _pad(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    pad = _constant_pad(view, node)
    (top, left), (bottom, right) = pad.before[2:], pad.after[2:]
    return FloatPad(**_fields(node, chain, pad.data), pads=(top, left, bottom, right), value=pad.value)


def _reshape(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    return FloatReshape(**_fields(node, chain, read_reshape(view, node).data))


_MOST_AXES = 4
"""The most axes that a Gather's data may have, the batch left out."""


def _check_axes(shape: tuple[int, ...]) -> None:
    if len(shape) - 1 > _MOST_AXES:
        raise Refused(f"it has {len(shape) - 1} axes beside the batch; at most {_MOST_AXES} are supported")


def _transpose(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    transpose = read_transpose(view, node)
    _check_axes(view.shape(transpose.data))
    if transpose.order[0] != 0:
        raise Refused(f"it moves the first axis, that of images ({list(transpose.order)})")
    order = tuple(axis - 1 for axis in transpose.order[1:])
    return FloatTranspose(**_fields(node, chain, transpose.data), order=order)


def _slice(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    part = read_slice(view, node)
    _check_axes(view.shape(part.data))
    if view.shape(node.output)[0] != view.shape(part.data)[0]:
        raise Refused("it takes a part of the first axis, that of images")
    return FloatSlice(**_fields(node, chain, part.data), starts=part.starts[1:], steps=part.steps[1:])


def _split(view: GraphView, node: Node, chain: Chain) -> tuple[FloatOp, ...]:
    """A slice for each part that is read or is an output."""
    split = read_split(view, node)
    rank = len(view.shape(split.data))
    _check_axes(view.shape(split.data))
    if split.axis == 0:
        raise Refused("it takes a part of the first axis, that of images")
    parts = []
    for index, (output, start) in enumerate(zip(node.outputs, split.starts, strict=True)):
        if output not in view.read_counts and output not in view.outputs:
            continue
        part = replace(chain, output=output, range_value=output, tags=chain.tags.merged(view.tags.of(output)))
        fields = _fields(node, part, split.data) | {"name": f"{node.name}_part{index}"}
        starts = tuple(start if axis == split.axis else 0 for axis in range(1, rank))
        parts.append(FloatSlice(**fields, starts=starts, steps=(1,) * (rank - 1)))
    return tuple(parts)


def _softmax(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    shape = view.shape(node.inputs[0])
    axis = node.integer("axis", -1) % max(len(shape), 1)
    if shape[:1] != (1,):
        raise several_images(node.inputs[0], shape)
    if axis == 0:
        raise Refused("it goes over the first axis, that of images, of which there is one")
    made = FloatLogSoftmax if node.op_type == "LogSoftmax" else FloatSoftmax
    return made(**_fields(node, chain, node.inputs[0]), axis=axis - 1)


def _normalize_rows(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    shape = view.shape(node.inputs[0])
    if node.integer("axis", -1) % len(shape) != len(shape) - 1:
        raise Refused("it normalises more than the last axis")
    if len(node.results) > 1:
        raise Refused("its mean or deviation is read too")
    gain, offset = (view.constant(node.input(index)) for index in (1, 2))
    if gain is None or (offset is None and node.input(2)):
        raise Refused("its scale or bias is computed")
    return FloatNormalizeRows(
        **_fields(node, chain, node.inputs[0]),
        gain=np.broadcast_to(np.asarray(gain, np.float64), shape[-1:]).copy(),
        offset=_float64(offset, shape[-1]),
        epsilon=node.number("epsilon", 1e-5),
    )


def _matmul(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    check_right_weights(view, node)
    a, b = _operands(view, node)
    if len(view.shape(a)) < 2 or view.shape(a)[:-2] != view.shape(b)[:-2]:
        raise _cannot_broadcast(view, a, b)
    return FloatMatMul(**_fields(node, chain, a, b))


def _embedding(view: GraphView, node: Node, chain: Chain) -> FloatOp:
    embedding = read_embedding(view, node)
    if embedding.table.shape[0] > MOST_ROWS:
        raise Refused(f"its table has {embedding.table.shape[0]:,} rows; {MOST_ROWS:,} can be told apart")
    return FloatEmbedding(**_fields(node, chain, embedding.ids), table=embedding.table)


MOST_ROWS = 1 << 16
"""The most rows of an embedding's table: the index of a row has 16 bits."""
BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "MaxPool": _pool,
        "AveragePool": _pool,
        "GlobalAveragePool": _pool,
        "Add": _add,
        "Mul": _mul,
        **dict.fromkeys(ACTIVATIONS, _activation),
        **dict.fromkeys(_FUNCTIONS, _function),
        "Pow": _pow,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "LayerNormalization": _normalize_rows,
        "MatMul": _matmul,
        "Concat": _concat,
        "Resize": _resize,
        "Pad": _pad,
        **dict.fromkeys(RESHAPE_OPS, _reshape),
        "Transpose": _transpose,
        "Slice": _slice,
        "Split": _split,
        "Gather": _embedding,
    }
)
"""ONNX op -> what makes an op of it."""
ANY_BATCH = (
    *RESHAPE_OPS,
    *_FUNCTIONS,
    "Pow",
    "Softmax",
    "LogSoftmax",
    "LayerNormalization",
    "MatMul",
    "Gather",
    "Add",
    "Mul",
    "Relu",
    "Clip",
)
"""Ops that may have other than one image, as what moves heads or steps to the front: they look at the last axes, or
at every element by itself."""
TAKES_ACTIVATION = ("Conv", "ConvTranspose", "Add", "Mul")
