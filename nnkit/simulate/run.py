"""Run a Program: its ops in order, each as it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, UsageError
from nnkit.program import Float, OpBase, Program, Tensor
from nnkit.program.affine import AffineProgram
from nnkit.program.watch import Watch


def simulate(
    program: Program, inputs: Mapping[str, NDArray[Any]], *, watch: Watch | None = None
) -> dict[str, NDArray[Any]]:
    """Execute `program` on stored inputs, exactly as its numerics say and the generated code does.

    inputs: program input name -> stored values of the tensor's shape (no batch axis).
    Returns every tensor by name, in its storage type. Raises UsageError for a missing, misshapen or
    out-of-range input.
    """
    values: dict[str, NDArray[Any]] = {}
    for name in program.inputs:
        values[name] = _checked_input(program.tensors[name], inputs.get(name), batch_axes=0)
    for op in program.ops:
        values[op.output] = simulate_op(program, op, [values[name] for name in op.inputs], watch)
    return values


def simulate_op(
    program: Program, op: OpBase, inputs: Sequence[NDArray[Any]], watch: Watch | None = None
) -> NDArray[Any]:
    """One op of a program on stored values in the tensors' shapes; the result is in its storage type."""
    tensor = program.tensors[op.output]
    result = np.asarray(op.compute(inputs, program.tensors, watch))
    if result.shape != tensor.shape:
        raise InternalError(f"shape {result.shape} computed, {tensor.shape} declared", where=op.name)
    return result.astype(tensor.format.dtype, copy=False)


def simulate_many(program: AffineProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Execute an affine program on many inputs at a time, [N, ...]; returns its outputs alone, [N, ...] likewise.

    Raises UsageError for a missing, misshapen or out-of-range input.
    """
    values: dict[str, NDArray[Any]] = {}
    for name in program.inputs:
        values[name] = _checked_input(program.tensors[name], inputs.get(name), batch_axes=1)
    last = {name: index for index, op in enumerate(program.ops) for name in op.inputs}
    for index, op in enumerate(program.ops):
        values[op.output] = op.compute_many([values[name] for name in op.inputs], program.tensors)
        for name in op.inputs:
            if last[name] == index and name not in program.outputs:
                values.pop(name, None)
    return {name: values[name] for name in program.outputs}


def _checked_input(tensor: Tensor, value: NDArray[Any] | None, batch_axes: int) -> NDArray[Any]:
    if value is None:
        raise UsageError("no value given for this input", where=tensor.name, remedy="pass every program input")
    if value.shape[batch_axes:] != tensor.shape:
        raise UsageError(
            f"shape {value.shape[batch_axes:]} given, {tensor.shape} expected",
            where=tensor.name,
            remedy="pass an array of that shape",
        )
    integral = not isinstance(tensor.format, Float)
    if integral and value.size and (int(value.min()) < tensor.low or int(value.max()) > tensor.high):
        raise UsageError(
            f"values {value.min()}..{value.max()} given, {tensor.low}..{tensor.high} allowed",
            where=tensor.name,
            remedy=f"quantise to {tensor.format} first",
        )
    return value.astype(tensor.format.dtype)
