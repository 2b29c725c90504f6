"""Our own ops as a graph for the planner: what can be planned without the vendor's toolchain.

Weights are taken as the compiler packs them: on the BM chips INT8 convolutions carry multiplier, shift and bias in
front of each output channel's taps, and input channels are filled up to the lanes; on the cv18xx taps are packed, and
bias with multiplier and shift (9 bytes a channel) lie apart. Tensors are as wide as the precision their producer runs
in.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from nnkit.memory.packing import align_up
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.buffers import (
    buffer_rule,
    function_rule,
    product_rule,
    reduction_rule,
    softmax_rule,
    spread_taps,
)
from nnkit_tpu.layer_group.model import (
    MOST_AXES,
    NOT_OF_ROWS,
    OF_TOO_MANY_AXES,
    ROWS_RANK,
    GroupGraph,
    GroupOp,
    GroupTensor,
    GroupWeight,
    Kind,
    Shape,
    told_apart,
)
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuInterp,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)

_FUNCTIONS = {
    "gelu_by_tanh": "tgelu",
    "softplus": "soft_plus",
    "log": "ln",
    "hard_swish": "hswish",
    "hard_sigmoid": "hsigmoid",
}
"""The compiler's names of functions, where they are others."""
_MODE_BYTES = {"INT8": 1, "F16": 2, "BF16": 2, "F32": 4}


def group_graph(graph: TpuGraph, chip: Chip) -> GroupGraph:
    """The planner's graph of `graph` on `chip`; inputs have the width that their first readers compute in.

    An op is known by its name: of several with one name, as the slices of a Split, the later ones are called by what
    they write, too.
    """
    width = {op.output: _MODE_BYTES[op.mode] for op in graph.ops}
    for name in graph.inputs:
        readers = graph.consumers(name)
        width[name] = _MODE_BYTES[readers[0].mode] if readers else 4
    tensors = {name: GroupTensor(name, tensor.nchw, width[name]) for name, tensor in graph.tensors.items()}
    weights: dict[str, GroupWeight] = {}
    names = set[str]()
    ops = []
    for op in graph.ops:
        own = replace(op, name=told_apart(op.name, op.output)) if op.name in names else op
        names.add(own.name)
        made = _op(own, chip, tensors, weights, len(graph.consumers(op.inputs[0])))
        if isinstance(own, TpuMatMul):
            made = _product(own, made, chip, graph)
        elif isinstance(own, TpuSoftmax | TpuReduce):
            made = _along(own, made, chip, graph.tensors[own.inputs[0]].shape)
        ops.append(made)
    return GroupGraph(graph.name, tensors, weights, tuple(ops), graph.inputs, graph.outputs)


def _op(
    op: TpuOp, chip: Chip, tensors: dict[str, GroupTensor], weights: dict[str, GroupWeight], readers: int
) -> GroupOp:
    """readers: of the op's first input."""
    source, result = tensors[op.inputs[0]].shape, tensors[op.output].shape
    kind, fields = _fields(op, source, result)
    names: list[str] = []
    for part, shape, size in _packed(op, chip, result):
        names.append(f"{op.name}:{part}")
        weights[names[-1]] = GroupWeight(names[-1], shape, size, aligned=kind == "matmul")
    group = int(fields.get("group", 1))
    window = fields.get("window")
    integer = op.mode == "INT8"
    spread = 0
    if window is not None and kind == "conv" and not group == source[1] == result[1]:
        spread = spread_taps(chip, integer=integer, channels=source[1], window=window, readers=readers)
    if isinstance(op, TpuActivation) and not integer:
        function = _FUNCTIONS.get(op.function, op.function)
        buffer = function_rule(chip, function, _MODE_BYTES[op.mode], source[0])
    else:
        buffer = buffer_rule(
            chip,
            kind,
            integer=integer,
            source=source,
            result=result,
            group=group,
            window=window,
            spread=spread,
        )
    return GroupOp(
        name=op.name,
        kind=kind,
        inputs=op.inputs,
        output=op.output,
        weights=tuple(names),
        buffer=buffer,
        not_local=_not_local(op, kind, source, result, chip),
        **fields,
    )


def _product(op: TpuMatMul, made: GroupOp, chip: Chip, graph: TpuGraph) -> GroupOp:
    """A matrix product, in local memory where it is one of rows."""
    shapes = [graph.tensors[name].shape for name in (*op.inputs, op.output)]
    made = replace(made, macs=prod(shapes[0]) * shapes[-1][-1])
    if chip.is_cv or op.mode == "F32":
        return made
    if any(len(shape) != ROWS_RANK for shape in shapes):
        return replace(made, not_local=NOT_OF_ROWS)
    (_, rows, inner), (_, _, columns) = shapes[0], shapes[-1]
    rule = product_rule(chip, integer=op.mode == "INT8", rows=rows, inner=inner, columns=columns)
    return replace(made, not_local="", buffer=rule)


def _along(op: TpuSoftmax | TpuReduce, made: GroupOp, chip: Chip, shape: tuple[int, ...]) -> GroupOp:
    """A softmax or a reduction, in local memory where it is in 16 bits, along one of the last two axes of four."""
    axes = (op.axis,) if isinstance(op, TpuSoftmax) else op.axes
    if chip.is_cv or len(shape) != MOST_AXES or _MODE_BYTES[op.mode] != 2 or axes not in ((2,), (3,)):
        return made
    four = (shape[0], shape[1], shape[2], shape[3])
    if isinstance(op, TpuSoftmax):
        return replace(made, not_local="", buffer=softmax_rule(chip, four, op.axis, log=op.log))
    if op.function not in ("max", "sum", "mean"):
        return made
    rule = reduction_rule(chip, four, rows=shape[2]) if axes == (3,) else made.buffer
    return replace(made, not_local="", buffer=rule)


def _fields(op: TpuOp, source: Shape, result: Shape) -> tuple[Kind, dict[str, Any]]:
    """The planner's kind of an op, and what else it keeps of it."""
    match op:
        case TpuConv():
            return "conv", {"window": op.window, "group": op.group}
        case TpuDeconv():
            return "deconv", {"window": op.window, "group": op.group}
        case TpuPool():
            return ("max_pool" if op.function == "max" else "average_pool"), {"window": op.window}
        case TpuBinary():
            return "binary", {"function": op.function}
        case TpuActivation():
            return "unary", {}
        case TpuScale():
            return "scale", {}
        case TpuConcat():
            return "concat", {"axis": op.axis}
        case TpuSlice():
            begins, steps = (*op.offsets, 0, 0, 0)[1:4], (*op.steps, 1, 1, 1)[1:4]
            return "slice", {"begins": begins, "steps": steps}
        case TpuReshape():
            return "reshape", {}
        case TpuPermute():
            return "permute", {"order": op.order}
        case TpuUpsample():
            return "upsample", {"scale": (float(op.scale_h), float(op.scale_w))}
        case TpuInterp():
            return "interp", {
                "function": f"{op.method} {op.coordinates}",
                "scale": (result[2] / source[2], result[3] / source[3]),
            }
        case TpuPad():
            rank = len(op.pads) // 2
            return "pad", {"begins": (*op.pads[:rank], 0, 0)[2:4], "function": op.method}
        case TpuSoftmax():
            return "softmax", {"axis": op.axis}
        case TpuReduce():
            return "reduce", {"axis": op.axes[0]}
        case TpuMatMul():
            return "matmul", {}
        case _:
            return "other", {}


def _not_local(op: TpuOp, kind: Kind, source: Shape, result: Shape, chip: Chip) -> str:
    if kind in ("permute", "matmul", "softmax", "reduce", "other"):
        return f"{op.kind} works on global memory"
    if kind == "reshape" and source[:2] != result[:2]:
        return "it moves values between lanes"
    if isinstance(op, TpuSlice) and len(op.offsets) > MOST_AXES:
        return OF_TOO_MANY_AXES
    if kind == "slice" and source[0] != result[0]:
        return "it takes images apart"
    if isinstance(op, TpuConcat) and op.axis != 1 and chip.is_cv:
        return "only channels are joined in local memory"
    if isinstance(op, TpuPad) and op.method != "constant" and chip.is_cv:
        return "padding by other values than a constant works on global memory"
    if kind == "pad" and isinstance(op, TpuPad) and any(op.pads[:2]):
        return "it adds channels or images"
    return ""


def _packed(op: TpuOp, chip: Chip, result: Shape) -> list[tuple[str, Shape, int]]:
    """(name, shape in local memory, bytes of a value) of an op's weights."""
    integer = op.mode == "INT8"
    size = _MODE_BYTES[op.mode]
    channels = result[1]
    match op:
        case TpuConv() | TpuDeconv():
            taps, inputs = op.window.kernel_h * op.window.kernel_w, op.weight.shape[1]
            depthwise = op.group > 1 and inputs == 1
            if chip.is_cv:
                bias = 9 if integer else 4
                return [("filter", (1, channels, taps, inputs), size), ("bias", (1, channels, 1, bias), 1)]
            filled = taps if depthwise else taps * align_up(inputs, max(chip.lanes // size, 1))
            if integer:
                head = align_up(16 if chip.name == "bm1684x" else 12, 1 if depthwise else chip.eu_bytes)
                return [("coefficients", (1, channels, 1, head + filled), 1)]
            parts: list[tuple[str, Shape, int]] = [("filter", (1, channels, 1, filled), size)]
            return parts if op.bias is None else [*parts, ("bias", (1, channels, 1, 1), 4)]
        case TpuMatMul() if op.weight is not None:
            rows, columns = op.weight.shape
            right: list[tuple[str, Shape, int]] = [("right", (1, rows, 1, columns), size)]
            bias_bytes = size if not integer and chip.name == "bm1684x" else 4
            return right if op.bias is None else [*right, ("bias", (1, 1, 1, columns), bias_bytes)]
        case TpuScale():
            return [("scale", (1, channels, 1, 1), size), ("bias", (1, channels, 1, 1), 4 if integer else size)]
        case TpuActivation() if op.slopes is not None and op.function == "prelu":
            return [("slopes", (1, channels, 1, 1), size)]
        case TpuActivation() if integer and op.function not in ("relu", "abs", "leaky_relu"):
            return [("table", (1, 1, 1, 256), 1)]
        case TpuBinary() if op.constant is not None and op.constant.size > 1:
            return [("constant", (1, channels, 1, max(op.constant.size // channels, 1)), size)]
        case _:
            return []
