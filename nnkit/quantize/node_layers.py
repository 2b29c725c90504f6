"""One builder per ONNX op of the normal form: node -> FloatLayer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nnkit.graph import ValueTags
from nnkit.graph.padding import explicit_pads
from nnkit.program import Window
from nnkit.quantize.graph_view import GraphView, NodeView, float64
from nnkit.quantize.layers import FloatActivation, FloatArray, FloatLayer, FloatPool, LayerKind

ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "PRelu")


class Unsupported(Exception):
    """Why a node cannot be lowered; its text is the reason shown."""


@dataclass(frozen=True, eq=False)
class Chain:
    """What runs together with a node: its pad, activation and pool, and the value that is stored."""

    pad: NodeView | None
    activation: FloatActivation | None
    pool: FloatPool | None
    output: str
    range_value: str
    tags: ValueTags


def _fields(kind: LayerKind, node: NodeView, inputs: tuple[str, ...], chain: Chain) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": node.name,
        "inputs": inputs,
        "output": chain.output,
        "range_value": chain.range_value,
        "tags": chain.tags,
        "activation": chain.activation,
        "pool": chain.pool,
    }


def _effective_window(
    kernel: tuple[int, int],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    begin: tuple[int, int],
    size: tuple[int, int],
    out: tuple[int, int],
) -> Window:
    """The window with the bottom/right padding that is really read for an output of `out` (see fixed_point)."""
    ends = []
    for axis in (0, 1):
        span = (kernel[axis] - 1) * dilations[axis] + 1
        ends.append(max(0, (out[axis] - 1) * strides[axis] + span - size[axis] - begin[axis]))
    window = Window(*kernel, strides[0], strides[1], dilations[0], dilations[1], *begin, *ends)
    if window.output_hw(*size) != out:
        raise Unsupported(f"its window gives {window.output_hw(*size)} rows and columns, the graph says {out}")
    return window


def _begin_pads(
    node: NodeView, kernel: tuple[int, int], strides: tuple[int, ...], dilations: tuple[int, ...], shapes: Any
) -> tuple[int, int]:
    size, out = shapes
    return explicit_pads(
        node.text("auto_pad", "NOTSET"),
        node.ints("pads", (0, 0, 0, 0)),
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        input_hw=size,
        output_hw=out,
    )[:2]


def _hw(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 4:
        raise Unsupported(f"it works on a tensor of {len(shape)} dimensions; only [1, C, H, W] is supported")
    return shape[2], shape[3]


def _weights(view: GraphView, node: NodeView) -> tuple[FloatArray, FloatArray]:
    weight = view.constant(node.inputs[1])
    if weight is None:
        raise Unsupported("its weights are computed at run time")
    if weight.ndim != 4:
        raise Unsupported(f"weights of {weight.ndim} dimensions; only 2-D convolutions are supported")
    outputs = weight.shape[0]
    if node.op_type == "ConvTranspose":
        outputs = weight.shape[1] * int(node.attributes.get("group", 1))
    bias_name = node.inputs[2] if len(node.inputs) > 2 else ""
    bias = view.constant(bias_name) if bias_name else np.zeros(outputs)
    if bias is None:
        raise Unsupported("its bias is computed at run time")
    return float64(weight), float64(bias)


def _conv(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    weight, bias = _weights(view, node)
    source = view.data_input(node)
    size, out = _hw(view.shape(source)), _hw(view.shape(node.output))
    kernel = (weight.shape[2], weight.shape[3])
    strides, dilations = node.ints("strides", (1, 1)), node.ints("dilations", (1, 1))
    begin = _begin_pads(node, kernel, strides, dilations, (size, out))
    pad_value = 0.0
    if chain.pad is not None:
        if node.ints("pads", (0, 0, 0, 0)) != (0, 0, 0, 0):
            raise Unsupported("an explicit pad in front of a padded convolution was marked to fuse")
        top, left, _, _, pad_value = _pad_amounts(view, chain.pad)
        begin = (top, left)
    window = _effective_window(kernel, strides, dilations, begin, size, out)
    return FloatLayer(
        **_fields("conv2d", node, (source,), chain),
        weight=weight,
        bias=bias,
        window=window,
        groups=int(node.attributes.get("group", 1)),
        pad_value=pad_value,
    )


def _conv_transpose(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    weight, bias = _weights(view, node)
    size, out = _hw(view.shape(node.inputs[0])), _hw(view.shape(node.output))
    strides, dilations = node.ints("strides", (1, 1)), node.ints("dilations", (1, 1))
    kernel = (weight.shape[2], weight.shape[3])
    pads = list(node.ints("pads", (0, 0, 0, 0)))
    auto = node.text("auto_pad", "NOTSET")
    if auto != "NOTSET" or "output_shape" in node.attributes:
        extra = node.ints("output_padding", (0, 0))
        for axis in (0, 1):
            natural = (size[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 + extra[axis]
            total = natural - out[axis]
            # ONNX: SAME_UPPER puts the odd one at the end; every other mode with output_shape at the start.
            pads[axis] = 0 if auto == "VALID" else (total // 2 if auto == "SAME_UPPER" else total - total // 2)
    if min(pads[:2]) < 0:
        raise Unsupported("negative padding")
    window = Window(*kernel, *strides, *dilations, *pads[:2])
    return FloatLayer(
        **_fields("conv_transpose2d", node, (node.inputs[0],), chain),
        weight=weight,
        bias=bias,
        window=window,
        groups=int(node.attributes.get("group", 1)),
    )


def pool_of(view: GraphView, node: NodeView) -> FloatPool:
    """The pool that a MaxPool, AveragePool or GlobalAveragePool node is."""
    source = node.inputs[0]
    size, out = _hw(view.shape(source)), _hw(view.shape(node.output))
    if node.op_type == "GlobalAveragePool":
        return FloatPool("average", Window(*size))
    if len(node.inputs) > 1 or node.attributes.get("storage_order", 0):
        raise Unsupported("column-major storage_order is not supported")
    kernel = node.ints("kernel_shape", ())
    strides, dilations = node.ints("strides", (1, 1)), node.ints("dilations", (1, 1))
    hw = (kernel[0], kernel[1])
    begin = _begin_pads(node, hw, strides, dilations, (size, out))
    window = _effective_window(hw, strides, dilations, begin, size, out)
    if node.op_type == "MaxPool":
        return FloatPool("max", window)
    include = bool(node.attributes.get("count_include_pad", 0))
    if include and node.attributes.get("ceil_mode", 0) and window.has_padding:
        raise Unsupported("an average pool with ceil_mode and count_include_pad has no agreed meaning")
    return FloatPool("average", window, count_include_pad=include)


def _pool(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    pool = pool_of(view, node)
    kind: LayerKind = "max_pool" if pool.kind == "max" else "average_pool"
    fields = _fields(kind, node, (node.inputs[0],), chain)
    fields["pool"] = pool
    return FloatLayer(**fields)


def activation_of(view: GraphView, node: NodeView) -> FloatActivation:
    """The activation that a Relu, Clip, LeakyRelu or PRelu node is."""
    if node.op_type == "Relu":
        return FloatActivation(low=0.0)
    if node.op_type == "LeakyRelu":
        return FloatActivation(slopes=np.array([float(node.attributes.get("alpha", 0.01))]))
    if node.op_type == "PRelu":
        slopes = view.constant(node.inputs[1])
        if slopes is None:
            raise Unsupported("its slope is computed at run time")
        channels = view.shape(node.output)[1]
        if slopes.size not in (1, channels):
            raise Unsupported(f"{slopes.size} slopes; one, or one per channel ({channels}), is supported")
        return FloatActivation(slopes=float64(slopes).reshape(-1))
    bounds: list[float | None] = []
    for index, key in ((1, "min"), (2, "max")):
        if len(node.inputs) > index and node.inputs[index]:
            bound = view.constant(node.inputs[index])
            if bound is None:
                raise Unsupported(f"its {key} is computed at run time")
            value: float | None = float(bound)
        else:
            value = node.attributes.get(key)
        bounds.append(value if value is not None and abs(value) < 3e38 else None)
    if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
        raise Unsupported("its lower bound is above its upper bound")
    return FloatActivation(low=bounds[0], high=bounds[1])


def _activation(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    fields = _fields("activation", node, (node.inputs[0],), chain)
    fields["activation"] = activation_of(view, node)
    return FloatLayer(**fields)


def _two_tensors(view: GraphView, node: NodeView, kind: LayerKind, chain: Chain, broadcast: bool) -> FloatLayer:
    a, b = node.inputs
    if view.constant(a) is not None or view.constant(b) is not None:
        raise Unsupported("one operand is a constant that no rule could fold into a neighbouring convolution")
    shape_a, shape_b = view.shape(a), view.shape(b)
    if shape_a != shape_b:
        scale = (*shape_a[:2], 1, 1)
        if broadcast and len(shape_b) == 4 and shape_a == (*shape_b[:2], 1, 1):
            a, b = b, a
        elif not (broadcast and len(shape_a) == 4 and shape_b == scale):
            raise Unsupported(f"operands of shapes {shape_a} and {shape_b} cannot be broadcast here")
    return FloatLayer(**_fields(kind, node, (a, b), chain))


def _add(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    return _two_tensors(view, node, "add", chain, broadcast=False)


def _mul(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    return _two_tensors(view, node, "mul", chain, broadcast=True)


def _concat(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    rank = len(view.shape(node.output))
    if int(node.attributes["axis"]) % rank != 1:
        raise Unsupported("only concatenation along the channels is supported")
    if any(view.constant(name) is not None for name in node.inputs):
        raise Unsupported("concatenation with a constant is not supported")
    return FloatLayer(**_fields("concat", node, node.inputs, chain))


def _resize(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    if node.text("mode", "nearest") != "nearest":
        raise Unsupported(f"resize mode {node.text('mode', '')}; only nearest is supported")
    size, out = _hw(view.shape(node.inputs[0])), _hw(view.shape(node.output))
    if out[0] % size[0] or out[1] % size[1]:
        raise Unsupported(f"resize from {size} to {out}; only whole factors are supported")
    scale = (out[0] // size[0], out[1] // size[1])
    if max(scale) > 1 and node.text("coordinate_transformation_mode", "half_pixel") == "align_corners":
        raise Unsupported("resize with align_corners is not supported")
    return FloatLayer(**_fields("upsample", node, (node.inputs[0],), chain), scale_hw=scale)


def _pad_amounts(view: GraphView, node: NodeView) -> tuple[int, int, int, int, float]:
    """(top, left, bottom, right, value) of a constant Pad over H and W."""
    if node.text("mode", "constant") != "constant":
        raise Unsupported(f"pad mode {node.text('mode', '')}; only constant is supported")
    amounts = view.constant(node.inputs[1])
    value = view.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    if amounts is None or value is None or len(node.inputs) > 3:
        raise Unsupported("its pads, value or axes are not plain constants")
    pads = [int(v) for v in amounts.reshape(-1)]
    if len(pads) != 8 or any(pads[i] for i in (0, 1, 4, 5)) or min(pads) < 0:
        raise Unsupported("only non-negative padding of H and W is supported")
    return pads[2], pads[3], pads[6], pads[7], float(value.reshape(-1)[0])


def _pad(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    top, left, bottom, right, value = _pad_amounts(view, node)
    return FloatLayer(
        **_fields("pad", node, (node.inputs[0],), chain), pads=(top, left, bottom, right), pad_value=value
    )


def _reshape(view: GraphView, node: NodeView, chain: Chain) -> FloatLayer:
    if view.shape(node.inputs[0])[0] != 1 or view.shape(node.output)[0] != 1:
        raise Unsupported("it moves data across the batch axis")
    return FloatLayer(**_fields("reshape", node, (node.inputs[0],), chain))


Builder = Callable[[GraphView, NodeView, Chain], FloatLayer]

BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "MaxPool": _pool,
        "AveragePool": _pool,
        "GlobalAveragePool": _pool,
        "Add": _add,
        "Mul": _mul,
        "Relu": _activation,
        "Clip": _activation,
        "LeakyRelu": _activation,
        "PRelu": _activation,
        "Concat": _concat,
        "Resize": _resize,
        "Pad": _pad,
        "Reshape": _reshape,
        "Flatten": _reshape,
        "Squeeze": _reshape,
        "Unsqueeze": _reshape,
    }
)
