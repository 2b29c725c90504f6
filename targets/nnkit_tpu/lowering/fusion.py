"""Fusion: what several ONNX nodes say and the TPU does as one op.

The compiler would fuse most of this itself, under names of its own choosing; fused here, every op keeps a name that
the calibration table, the qtable and reports can use, and what is predicted is what the compiler makes. A value that
is read twice, is an output of the network or has the tag `_cpu` is never fused away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nnkit_tpu.program import (
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuConv,
    TpuDeconv,
    TpuMatMul,
    TpuOp,
    TpuScale,
    TpuUpsample,
)

_MOST_COLOURS = 4
_Rule = Callable[[TpuOp, TpuOp], TpuOp | None]


def fuse(ops: tuple[TpuOp, ...], outputs: Sequence[str]) -> tuple[TpuOp, ...]:
    """The same computation in fewer ops; the fused op has the output of the last it took in."""
    ops = _gated(ops, outputs)
    for rule in (_bias_into_matmul, _scale_into_scale, _sum_into_sum, _relu_into_producer, _pointwise_into_conv):
        ops = _apply(rule, ops, outputs)
    return tuple(_limited_alone(op) for op in ops)


def _apply(rule: _Rule, ops: tuple[TpuOp, ...], outputs: Sequence[str]) -> tuple[TpuOp, ...]:
    """Offers each op together with its only reader to `rule`, in order."""
    readers = Counter(name for op in ops for name in op.inputs)
    done: dict[str, TpuOp] = {}  # by output, in order
    for op in ops:
        before = done.get(op.inputs[0]) if len(op.inputs) == 1 else None
        fusable = before is not None and readers[op.inputs[0]] == 1 and op.inputs[0] not in outputs
        if before is not None and fusable and "cpu" not in (*before.tags, *op.tags):
            joined = rule(before, op)
            if joined is not None:
                del done[before.output]
                done[op.output] = replace(
                    joined,
                    output=op.output,
                    tags=tuple(dict.fromkeys((*before.tags, *op.tags))),
                    origins=tuple(dict.fromkeys((*before.origins, *op.origins))),
                )
                continue
        done[op.output] = op
    return tuple(done.values())


def _gated(ops: tuple[TpuOp, ...], outputs: Sequence[str]) -> tuple[TpuOp, ...]:
    """x * sigmoid(x) -> silu(x), x * hard_sigmoid(x) with slope 1/6 -> hard_swish(x)."""
    readers = Counter(name for op in ops for name in op.inputs)
    by_output = {op.output: op for op in ops}
    gone: set[str] = set()
    result: list[TpuOp] = []
    for op in ops:
        joined: TpuOp | None = None
        if isinstance(op, TpuBinary) and op.function == "mul" and len(op.inputs) == 2 and "cpu" not in op.tags:
            for x, gate_name in (op.inputs, op.inputs[::-1]):
                gate = by_output.get(gate_name)
                if (
                    isinstance(gate, TpuActivation)
                    and gate.inputs == (x,)
                    and readers[gate_name] == 1
                    and gate_name not in outputs
                    and "cpu" not in gate.tags
                ):
                    joined = _gate(op, gate, x)
                    if joined is not None:
                        gone.add(gate_name)
                        break
        result.append(joined or op)
    return tuple(op for op in result if op.output not in gone)


def _gate(product: TpuBinary, gate: TpuActivation, x: str) -> TpuOp | None:
    hard = gate.function == "hard_sigmoid" and abs(gate.alpha - 1 / 6) < 1e-6 and gate.beta == 0.5
    if gate.function != "sigmoid" and not hard:
        return None
    return TpuActivation(
        name=product.name,
        inputs=(x,),
        output=product.output,
        tags=tuple(dict.fromkeys((*gate.tags, *product.tags))),
        origins=tuple(dict.fromkeys((*gate.origins, *product.origins))),
        function="hard_swish" if hard else "silu",
    )


def _bias_into_matmul(before: TpuOp, op: TpuOp) -> TpuOp | None:
    """A constant added to every row of a product with constant weights."""
    if not (isinstance(before, TpuMatMul) and before.weight is not None and before.bias is None):
        return None
    added: FloatArray | None = None
    if isinstance(op, TpuBinary) and op.function == "add" and op.constant is not None:
        added = op.constant
    elif isinstance(op, TpuScale) and np.all(op.scale == 1.0):
        added = op.bias  # of [M, N], where the channels are the columns
    columns = before.weight.shape[1]
    if added is None or added.size != columns or added.shape[-1] != columns:
        return None
    return replace(before, bias=added.reshape(-1))


def _scale_into_scale(before: TpuOp, op: TpuOp) -> TpuOp | None:
    """(x * a + b) * c + d."""
    if not (isinstance(before, TpuScale) and isinstance(op, TpuScale)):
        return None
    scale = before.scale.astype(np.float64) * op.scale
    bias = before.bias.astype(np.float64) * op.scale + op.bias
    return replace(before, scale=scale.astype(np.float32), bias=bias.astype(np.float32))


def _sum_into_sum(before: TpuOp, op: TpuOp) -> TpuOp | None:
    """x + a + b of constants of several numbers, as an attention's bias and mask are; the compiler adds them up."""
    first, second = _summand(before), _summand(op)
    if not isinstance(before, TpuBinary) or not isinstance(op, TpuBinary) or first is None or second is None:
        return None
    if before.relu or first.ndim != second.ndim:
        return None
    return replace(op, inputs=before.inputs, constant=first + second)


def _summand(op: TpuOp) -> FloatArray | None:
    """A constant of several numbers that is added."""
    constant = op.constant if isinstance(op, TpuBinary) and op.function == "add" else None
    return constant if constant is not None and constant.size > 1 else None


def _pointwise_into_conv(before: TpuOp, op: TpuOp) -> TpuOp | None:
    """W2 * (W1 x + b1) + b2 of a 1x1 convolution without activation and an unpadded one as one convolution.

    The compiler does so wherever neither has an activation, even where that makes more weights; behind it the first
    one's integers are nowhere. Where the second has one, it is done where it makes no more weights; but an image that
    is normalised stays so, as its integers then are the finer ones.
    """
    if not (isinstance(before, TpuConv) and isinstance(op, TpuConv)):
        return None
    window = before.window
    pointwise = before.weight.shape[2:] == (1, 1) and before.group == 1 and not (before.relu or window.has_padding)
    steps = (window.stride_h, window.stride_w)
    if not pointwise or op.group > 1 or op.window.has_padding or (steps != (1, 1) and op.weight.shape[2:] != (1, 1)):
        return None
    inner, outer = before.weight[:, :, 0, 0].astype(np.float64), op.weight.astype(np.float64)
    weight = np.einsum("omhw,mi->oihw", outer, inner).astype(np.float32)
    image = before.weight.shape[1] <= _MOST_COLOURS
    if op.relu and (image or weight.size > before.weight.size + op.weight.size):
        return None
    bias = np.zeros(outer.shape[0]) if op.bias is None else op.bias.astype(np.float64)
    if before.bias is not None:
        bias = bias + outer.sum(axis=(2, 3)) @ before.bias.astype(np.float64)
    strides = {"stride_h": steps[0] * op.window.stride_h, "stride_w": steps[1] * op.window.stride_w}
    return replace(
        op,
        inputs=before.inputs,
        weight=weight,
        bias=None if before.bias is None and op.bias is None else bias.astype(np.float32),
        window=replace(op.window, **strides),
    )


def _limited_alone(op: TpuOp) -> TpuOp:
    """A relu with a limit that no op took in: a clip, as the compiler gives a relu its input's range in INT8."""
    if isinstance(op, TpuActivation) and op.function == "relu" and np.isfinite(op.bounds[1]):
        return replace(op, function="clip")
    return op


def _relu_into_producer(before: TpuOp, op: TpuOp) -> TpuOp | None:
    """Relu, with or without a limit, into the op that computes its input."""
    if not (isinstance(op, TpuActivation) and op.function == "relu"):
        return None
    limit = float(op.bounds[1]) if np.isfinite(op.bounds[1]) else -1.0
    if isinstance(before, TpuConv | TpuDeconv | TpuMatMul | TpuScale | TpuUpsample) and not before.relu:
        return replace(before, relu=True, relu_limit=limit, range_of=op.range_of)
    if isinstance(before, TpuBinary) and before.function in ("add", "sub", "mul") and not before.relu:
        return replace(before, relu=True, relu_limit=limit, range_of=op.range_of)
    return None
