"""Run a Program: dispatch of its ops in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError, UsageError
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Float,
    Mul,
    OpBase,
    Pad,
    Pool,
    Program,
    Reshape,
    Tensor,
    Upsample,
)
from nnkit.program.affine import AffineProgram
from nnkit.simulate import convolution, elementwise, pooling
from nnkit.simulate.affine import run_op as run_affine_op
from nnkit.simulate.affine import simulate_one
from nnkit.simulate.watch import Watch


def simulate(
    program: Program, inputs: Mapping[str, NDArray[Any]], *, watch: Watch | None = None
) -> dict[str, NDArray[Any]]:
    """Execute `program` on stored inputs, exactly as its numerics say and the generated code does.

    inputs: program input name -> stored values of the tensor's shape (no batch axis).
    Returns every tensor by name, in its storage type. Raises UsageError for a missing, misshapen or
    out-of-range input.
    """
    if isinstance(program, AffineProgram):
        return simulate_one(program, inputs)
    values: dict[str, NDArray[Any]] = {}
    for name in program.inputs:
        values[name] = _checked_input(program.tensors[name], inputs.get(name))
    for op in program.ops:
        tensor = program.tensors[op.output]
        result = _run(op, [values[name] for name in op.inputs], tensor, watch)
        if result.shape != tensor.shape:
            raise InternalError(f"shape {result.shape} computed, {tensor.shape} declared", where=op.name)
        values[op.output] = result.astype(tensor.format.dtype)
    return values


def simulate_op(program: Program, op: OpBase, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One op of a program on stored values in the tensors' shapes; the result is in its storage type."""
    tensor = program.tensors[op.output]
    if isinstance(program, AffineProgram):
        affine = next(each for each in program.ops if each is op)
        return np.asarray(run_affine_op(affine, [np.asarray(v)[None] for v in inputs], program.tensors)[0])
    return _run(op, list(inputs), tensor, None).astype(tensor.format.dtype)


def _checked_input(tensor: Tensor, value: NDArray[Any] | None) -> NDArray[Any]:
    if value is None:
        raise UsageError("no value given for this input", where=tensor.name, remedy="pass every program input")
    if value.shape != tensor.shape:
        raise UsageError(f"shape {value.shape} given, {tensor.shape} expected", where=tensor.name)
    integral = not isinstance(tensor.format, Float)
    if integral and value.size and (int(value.min()) < tensor.low or int(value.max()) > tensor.high):
        raise UsageError(
            f"values {value.min()}..{value.max()} given, {tensor.low}..{tensor.high} allowed",
            where=tensor.name,
            remedy=f"quantise to {tensor.format} first",
        )
    return value.astype(tensor.format.dtype)


def _run(op: OpBase, x: list[NDArray[Any]], tensor: Tensor, watch: Watch | None) -> NDArray[Any]:
    match op:
        case Conv2d():
            return convolution.conv2d(op, x[0], tensor, watch)
        case ConvTranspose2d():
            return convolution.conv_transpose2d(op, x[0], tensor, watch)
        case Pool():
            return pooling.pool(op, x[0], tensor)
        case Add():
            return elementwise.add(op, x[0], x[1], tensor, watch)
        case Mul():
            return elementwise.mul(op, x[0], x[1], tensor, watch)
        case Activation():
            return elementwise.activation(op, x[0], tensor, watch)
        case Concat():
            return elementwise.concat(op, x, tensor)
        case Upsample():
            return elementwise.upsample(op, x[0])
        case Pad():
            return elementwise.pad(op, x[0])
        case Reshape():
            return np.reshape(x[0], tensor.shape)
        case _:
            return np.asarray(op.compute(x, tensor))
