"""What rounding half up adds to a sum on average, taken off a bias before it.

An addition aligns its operands, adds them and shifts the sum right by few bits k. The bits that go are evenly spread
over 2^k values, one of which is a tie that rounds up: the result is too large by 2^-(k+1) units on average. For k = 1
that is a quarter of a unit in every value of every residual stream, and such errors add up coherently from block to
block where others cancel. A convolution's bias has the accumulator's resolution, so it can take the amount off
exactly. (A convolution's own shift is so long that its ties do not matter.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nnkit.program import Fixed
from nnkit.quantize.float_program import FloatAdd, FloatConv2d, FloatConvolution, FloatOp, FloatProgram

_LONGEST_SHIFT = 8  # beyond it the share of ties is below 1/256


def without_rounding_bias(program: FloatProgram, formats: Mapping[str, Fixed]) -> FloatProgram:
    """The program with the mean rounding error of additions taken off the biases of convolutions that feed them.

    Only a convolution without activation and pool, whose output nothing else reads, can carry it.

    formats: of every value that an addition reads or writes.
    """
    readers = Counter(name for op in program.ops for name in op.inputs)
    readers.update(program.outputs)
    producers = {op.output: op for op in program.ops}
    changed: dict[str, FloatOp] = {}
    for op in program.ops:
        if not isinstance(op, FloatAdd):
            continue
        finest = max(formats[name].frac for name in op.inputs)
        shift = finest - formats[op.output].frac
        feeding = [_carrier(producers[name]) for name in op.inputs if name in producers and readers[name] == 1]
        carrier = next((conv for conv in feeding if conv is not None), None)
        if carrier is None or not 1 <= shift <= _LONGEST_SHIFT:
            continue
        mean_error = 2.0 ** -(finest + 1)  # 2^-(shift + 1) of the output's unit, in real units
        changed[carrier.name] = replace(carrier, bias=carrier.bias - mean_error)
    return replace(program, ops=tuple(changed.get(op.name, op) for op in program.ops))


def _carrier(op: FloatOp) -> FloatConvolution | None:
    """The op where it is a convolution whose result is its sum."""
    if not isinstance(op, FloatConvolution) or op.activation is not None:
        return None
    return None if isinstance(op, FloatConv2d) and op.pool is not None else op
