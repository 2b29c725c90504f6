"""Divisors with a small number added, as normalised attention has them.

`n / (d + 1e-5)` is 0 in float32 where both are 0. In INT8 such a number is far below a step, and in F16, in which
the BM chips divide, numbers below 2^-14 lose their digits and then vanish; a quotient of zeros is none. So the sum is
taken in F16, and the number is 2^-14 at least; on the cv18xx in BF16, which has such numbers. So it is with a maximum
of a norm and such a number, as vectors of length 1 have it, `v / max(|v|, 1e-12)`; the cv18xx have no maximum with a
number in INT8 networks, and get the sum, which is the same but for what the number is beside the norm.

In INT8 numerator and divisor mostly are columns of one matrix product: of that product's 255 steps a divisor near 0
has few, or none. Such a product is computed in F16 (BF16), too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from nnkit_tpu.higher_precision import tagged
from nnkit_tpu.places import in_place_of
from nnkit_tpu.program import (
    FloatArray,
    Mode,
    TpuActivation,
    TpuBinary,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
)

LEAST: Mapping[Mode, float] = {"F16": 2.0**-14, "BF16": 0.0}
"""The smallest number that is added, by the precision in which a chip divides."""

_MOST = 1e-3  # that is added for the sake of zeros alone


def guarded_divisors(graph: TpuGraph, mode: Mode, high: Mode = "F16") -> TpuGraph:
    """The graph with numbers that `high` has in such divisors, and in INT8 with what they are made of in it.

    mode: of the network. high: the precision in which the chip divides.
    """
    if mode not in ("INT8", "F16"):
        return graph
    changed: dict[str, TpuOp] = {}
    for op in graph.ops:
        if not isinstance(op, TpuBinary) or op.function != "div" or len(op.inputs) < 2:
            continue
        numerator, divisor = op.inputs
        total = graph.producer(divisor)
        if total is None:
            continue
        bound = _least_of(total)
        if bound is not None and (high == "F16" or _is_a_length(graph.producer(total.inputs[0]))):
            function: Literal["max", "add"] = "max" if high == "F16" else "add"  # the cv18xx have no maximum
            changed[divisor] = _lifted(_with_number(total, function, max(bound, LEAST[high])), mode)
            continue
        added = _number_added(total)
        if added is None or not 0 < added < _MOST:
            continue
        changed[divisor] = _lifted(_with_number(total, "add", max(added, LEAST[high])), mode)
        product = _columns_of(graph, total.inputs[0])
        if product is not None and product is _columns_of(graph, numerator):
            changed[product.output] = _lifted(product, mode)
    ops = tuple(changed.get(op.output, op) for op in graph.ops)
    return replace(graph, ops=ops) if changed else graph


def _least_of(op: TpuOp) -> float | None:
    """The small number that no value of an op is below."""
    if not isinstance(op, TpuBinary) or op.function != "max" or op.constant is None or op.constant.size > 1:
        return None
    bound = float(op.constant.flat[0])
    return bound if 0 < bound < _MOST else None


def _is_a_length(op: TpuOp | None) -> bool:
    """Whether nothing of it is negative."""
    if isinstance(op, TpuActivation):
        return op.function == "sqrt"
    return isinstance(op, TpuReduce) and op.function == "l2"


def _number_added(op: TpuOp) -> float | None:
    """The one number that an op adds to every value and does nothing else; None: it does something else.

    A rewrite makes a depthwise convolution of a sum with a constant.
    """
    constant: FloatArray | None = None
    if isinstance(op, TpuBinary) and op.function == "add" and not op.relu:
        constant = op.constant
    elif isinstance(op, TpuScale | TpuConv) and not op.relu:
        scales = op.scale if isinstance(op, TpuScale) else op.weight
        plain = np.all(scales == 1.0) and (isinstance(op, TpuScale) or op.is_of_channels())
        constant = op.bias if plain else None
    if constant is None or not constant.size or np.any(constant != constant.flat[0]):
        return None
    return float(constant.flat[0])


def _with_number(op: TpuOp, function: Literal["max", "add"], number: float) -> TpuBinary:
    return TpuBinary(
        **in_place_of(op),
        function=function,
        constant=np.full(1, number, np.float32),
    )


def _lifted(op: TpuOp, mode: Mode) -> TpuOp:
    return tagged(op) if mode == "INT8" else op


def _columns_of(graph: TpuGraph, name: str) -> TpuMatMul | None:
    """The matrix product that a value's numbers are taken from, if only moved since."""
    op = graph.producer(name)
    while isinstance(op, TpuSlice | TpuReshape | TpuPermute):
        op = graph.producer(op.inputs[0])
    return op if isinstance(op, TpuMatMul) else None
