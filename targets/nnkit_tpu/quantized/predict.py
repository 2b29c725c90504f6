"""The program that the compiler's mode with zero points makes of a network's own integers.

* A convolution sums integers: the zero point of its input is in its biases (minus zero point times the sum of the
  weights), padding reads the zero point. The sum times a multiplier of 32 bits is shifted right, half up, and the
  zero point of the result is added.
* An average is the sum times a scale plus an offset, in float32.
* Everything else either moves integers, looks them up in a table, or is computed in float32 of the numbers that the
  integers stand for (`lowering.py` says which); what reads it as integers rounds it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import InternalError
from nnkit.program import Float, Format, Program, Tensor
from nnkit.program.formats import Affine
from nnkit.report.untried import KEPT_FORMATS
from nnkit_tpu.arithmetic import activation_table, requant, round_half_away
from nnkit_tpu.integer_parameters import IntegerOperands, IntegerTable, IntegerWeights, ScaledSum
from nnkit_tpu.program import (
    Cast,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPool,
    TpuReshape,
)
from nnkit_tpu.quantized.formats import as_compiled, range_of

_REAL = Float(32)


def table_ranges(graph: TpuGraph) -> dict[str, ValueRange]:
    """What the calibration table states for every tensor of a network with formats of its own."""
    return {name: range_of(_form(graph, name)) for name in graph.tensors}


def other_modes(program: Program) -> dict[str, str]:
    """The qtable: the layers in float32. Reshapes of inputs are so by themselves."""
    return {
        op.output: "F32"
        for op in program.ops
        if isinstance(op, TpuOp)
        and op.mode == "F32"
        and not (isinstance(op, TpuReshape) and op.inputs[0] in program.inputs)
    }


def to_program(graph: TpuGraph, *, quant_input: bool = False) -> Program:
    """The program of a network whose tensors have formats of their own, and whose ops have their precisions.

    quant_input: its inputs are stored integers already.
    """
    formats: dict[str, Format] = {
        name: as_compiled(_form(graph, name)) if quant_input else _REAL for name in graph.inputs
    }
    ops: list[TpuOp] = []
    for op in graph.ops:
        if isinstance(op, TpuReshape) and isinstance(formats[op.inputs[0]], Affine):
            op = replace(op, mode="INT8")  # of an input, whose integers it moves
        in_integers = op.mode == "INT8"
        formats[op.output] = as_compiled(_form(graph, op.output)) if in_integers else _REAL
        casts = tuple(
            Cast(formats[name], as_compiled(_form(graph, name)) if in_integers else _REAL, precision="F32")
            for name in op.inputs
        )
        known = range_of(_form(graph, op.output))
        placed = replace(op, casts=casts, magnitude=known.max_abs)
        ops.append(_with_integers(placed, as_compiled(_form(graph, op.output))) if in_integers else placed)
    notes = (KEPT_FORMATS, *(f"{op.name} runs in float32: {_reason(op)}" for op in ops if _reason(op)))
    tensors = {}
    for name, tensor in graph.tensors.items():
        stored = formats[name]
        low, high = (stored.qmin, stored.qmax) if isinstance(stored, Affine) else (0, 0)
        tensors[name] = Tensor(name, tensor.shape[1:], stored, low, high)
    return Program(graph.name, tensors, tuple(ops), graph.inputs, graph.outputs, "nnkit_tpu.quantized", notes)


def _reason(op: TpuOp) -> str:
    """Why a layer with arithmetic of its own is in float32; empty for any other."""
    match op:
        case TpuBinary() if op.mode == "F32":
            return "the compiler's integer sums and products are off by more than half a unit"
        case TpuConv() if op.mode == "F32":
            return "its weights without their zero point do not fit 8 bits"
        case TpuDeconv() if op.mode == "F32":
            return "the compiler takes no scale of its weights"
        case TpuMatMul() if op.mode == "F32":
            return "the compiler multiplies no integers with zero points"
        case TpuLayerNorm() if op.mode == "F32":
            return "it has no form in integers"
        case _:
            return ""


def _form(graph: TpuGraph, name: str) -> Affine:
    form = graph.tensors[name].format
    if not isinstance(form, Affine):
        raise InternalError("a value of a quantised network has no format", where=name)
    return form


def _with_integers(op: TpuOp, stored: Affine) -> TpuOp:
    """The op with its integer parameters; ops without any move or compare integers."""
    sources = [each.target for each in op.casts if isinstance(each.target, Affine)]
    source = sources[0]
    match op:
        case TpuConv():
            return replace(op, integer=_weights(op, source, stored))
        case TpuPool() if op.function == "average":
            ratio = source.scale[0] / stored.scale[0]
            taps = op.window.kernel_h * op.window.kernel_w
            offset = stored.zero_point[0] - ratio * source.zero_point[0]
            return replace(op, integer=ScaledSum(source.scale[0] / (taps * stored.scale[0]), offset))
        case TpuActivation():
            return replace(op, integer=IntegerTable(activation_table(op, source, stored)))
        case TpuConcat():
            ones = (1,) * len(sources)
            return replace(op, integer=IntegerOperands(ones, (0,) * len(sources), "half_up"))
        case _:
            return op


def _weights(op: TpuConv, source: Affine, stored: Affine) -> IntegerWeights:
    """The integers that the compiler finds in the float weights and biases."""
    scales = np.asarray(op.weight_scale, np.float64)
    rows = op.weight.astype(np.float64).reshape(len(scales), -1)
    integers = np.clip(round_half_away(rows / scales[:, None]), -128, 127)
    given = 0.0 if op.bias is None else op.bias.astype(np.float64)
    offset = source.zero_point[0] * integers.sum(axis=1)
    biases = round_half_away(given / (scales * source.scale[0]) - offset)
    clipped = np.clip(biases, -(2.0**31), 2.0**31 - 1).astype(np.int32)
    stage = requant(scales * source.scale[0] / stored.scale[0], 32, "half_up")
    return IntegerWeights(integers.reshape(op.weight.shape).astype(np.int16), clipped, stage)
