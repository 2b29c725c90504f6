"""Which layers the chip computes exactly as `nnkit_tpu.execute` does, and how far others may differ.

Found by comparison with the vendor's chip model, layer by layer, and checked in every build. A layer outside the list
may differ by one unit of its output, and is named with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import OpBase, Program
from nnkit.simulate import simulate
from nnkit.verify.drift import Values, distance, drawn
from nnkit_tpu.casts import cast
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.integer_parameters import IntegerTable
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuLayerNorm,
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

_RELATIVE = {"F16": 2.0**-9, "BF16": 2.0**-6, "F32": 1e-4}
_SIXTEEN_BITS = ("F16", "BF16")
_LEAST_STEP = 2.0**-24  # of numbers of F16 below 2^-14
_LARGE = 0.1  # an error that last bits on the way do not explain in most networks, relative to the values
_ONE_UNIT = 1.0
_HALF_A_STEP = 2.0**-4
"""For exponentials in BF16 on the cv18xx: looked up in 256 entries from -15 to 15, by a place of 8 bits."""
_SIXTEEN_ROUNDINGS = 2.0**-5
"""For a softmax in BF16 on the cv18xx, each by up to 2^-9: of the distance to the largest value and of its place in
the table (by which the largest results are off), of the table's entry and of what is interpolated, the like in all
that is added up, the sum, three of its reciprocal from two tables, the product, and what it is compared with.
In 45,000 values near their row's largest the farthest was 2.1 % off."""


def inexact_reason(op: TpuOp, chip: str) -> str:
    """Why the op may differ; empty where it must be exact."""
    if op.mode != "INT8":
        return "floating point: the chip accumulates in float32"
    if chip in CV_CHIPS and not _exact_on_cv(op):
        return "the cv18xx rescale it in steps of their own"
    match op:
        case TpuScale():
            return "the chip rounds scales to 8 bits"
        case TpuBinary() if op.constant is not None and op.integer is None:
            return "the chip rounds the constant to 8 bits"
        case TpuSoftmax():
            return "exponentials from a table"
        case TpuPad() if op.method != "constant":
            return "padding with values of the image"
        case _:
            return ""


def _exact_on_cv(op: TpuOp) -> bool:
    """Whether it is one of the ops that were exact in every comparison on the cv181x."""
    match op:
        case TpuConv() | TpuConcat() | TpuReshape() | TpuPermute() | TpuSlice() | TpuUpsample():
            return True
        case TpuPool() | TpuReduce():
            return True
        case TpuBinary():
            return op.function == "add" and op.constant is None
        case TpuActivation():
            return isinstance(op.integer, IntegerTable) or op.function in ("relu", "leaky_relu", "prelu")
        case _:
            return False


def largest_difference(op: TpuOp, chip: str) -> float:
    """The largest difference of a stored value that counts as equal; 0: the layer must be exact."""
    if op.mode != "INT8":
        return _relative(op, chip) * max(op.magnitude, 2.0**-14)
    if not inexact_reason(op, chip):
        return 0.0
    return _ONE_UNIT


def _relative(op: TpuOp, chip: str) -> float:
    """What a layer in floating point may differ by, relative to its largest value."""
    if chip in CV_CHIPS and isinstance(op, TpuActivation) and op.function == "exp":
        return _HALF_A_STEP
    if chip in CV_CHIPS and isinstance(op, TpuSoftmax) and not op.log:
        return _SIXTEEN_ROUNDINGS
    return _RELATIVE[op.mode]


def amplified(op: TpuOp, inputs: Sequence[NDArray[Any]]) -> float | NDArray[np.float64]:
    """What a layer normalisation may differ by beyond that, by value, for stored inputs without a batch axis.

    The BM chips add up the mean in 16 bits: in thousands of rows of 3 to 1024 values it was up to two units
    in the last place off, in the same way for the whole row. Beside a small spread that is much. The mean is taken to
    be off by twice the last bits of the values, which next to zero are steps of 2^-24 in F16; it moves what is
    centred, and widens the spread.
    """
    if not isinstance(op, TpuLayerNorm) or op.mode not in _SIXTEEN_BITS:
        return 0.0
    x = cast(np.asarray(inputs[0])[None], op.casts[0], op.mode).astype(np.float64)
    axes = tuple(range(op.axis, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    square = (centred * centred).mean(axis=axes, keepdims=True) + op.epsilon
    least = _LEAST_STEP if op.mode == "F16" else 0.0
    off = 2 * (_RELATIVE[op.mode] * np.abs(x).mean(axis=axes, keepdims=True) + least)
    wider = np.sqrt(square + off * off)
    moved = off / wider + np.abs(centred) * (1 / np.sqrt(square) - 1 / wider)
    scaled = moved if op.scale is None else moved * np.abs(op.scale.astype(np.float64))
    return np.asarray(scaled[0])


def largest_on(
    op: OpBase, inputs: Sequence[NDArray[Any]], result: NDArray[Any], chip: str
) -> float | NDArray[np.float64]:
    """The largest difference that counts as equal where the op reads these stored values and gives that.

    Last bits are those of the largest value: where a result lies beyond all that calibration saw, it is that.
    """
    if not isinstance(op, TpuOp):
        return 0.0
    largest = largest_difference(op, chip)
    if op.mode != "INT8" and result.dtype.kind == "f" and result.size:
        beyond = np.abs(result[np.isfinite(result)].astype(np.float64)).max(initial=0.0)
        largest = max(largest, _relative(op, chip) * float(beyond))
    return largest + amplified(op, inputs)


def not_as_simulated(program: Program, chip: str, given: Sequence[Values], computed: Sequence[Values]) -> str:
    """What of a model's outputs was not simulated so; empty where it is right.

    given: inputs, which those of the computed outputs repeat. Where layers need not be exact, their differences grow
    on the way: what counts is then an error of a tenth of the outputs, and more than networks within the bounds have.
    """
    simulated = [simulate(program, each) for each in given]
    exact = not any(largest_difference(op, chip) for op in program.ops if isinstance(op, TpuOp))
    for index, outputs in enumerate(computed):
        read, expected = given[index % len(given)], simulated[index % len(given)]
        for name, values in outputs.items():
            mine, theirs = (each.astype(np.float64).ravel() for each in (expected[name], values))
            differing = int(np.count_nonzero(mine != theirs))
            if exact:
                wrong = differing > 0
            else:
                large = np.linalg.norm(mine - theirs) > _LARGE * np.linalg.norm(mine)
                wrong = bool(large) and not _is_near(program, chip, read, outputs, expected)
            if wrong:
                return f"refuted ({differing} of {mine.size} values of {name!r} are not as simulated)"
    return ""


def _is_near(program: Program, chip: str, given: Values, outputs: Values, simulated: Values) -> bool:
    """Whether the outputs are as near as those of networks that are drawn within the layers' bounds."""
    mine = distance(program, outputs, simulated)

    def bound(op: OpBase, inputs: Sequence[NDArray[Any]], result: NDArray[Any]) -> float | NDArray[np.float64]:
        return largest_on(op, inputs, result, chip)

    return mine.within(drawn(program, given, simulated, bound, mine.within))
