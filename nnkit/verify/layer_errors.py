"""Where a program loses accuracy, layer by layer, in any arithmetic; `nnkit.layer_error` says what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.clip_rate import ClipSum, can_clip
from nnkit.distance import DistanceSum
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.layer_error import LayerError
from nnkit.program import Float, OpBase, Program, Tensor
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate, simulate_op


@dataclass(eq=False)
class _Sums:
    clip: ClipSum | None
    isolated: DistanceSum = field(default_factory=DistanceSum)
    cumulative: DistanceSum = field(default_factory=DistanceSum)


def layer_errors(network: Model, program: Program, samples: Sequence[Sample]) -> tuple[LayerError, ...]:
    """Every layer of the program whose output the float network has too, in the program's order.

    network: the restructured one, of which the program was made.
    """
    tensors = program.tensors
    computed = {name for node in network.proto().graph.node for name in node.output}
    known = computed | set(program.inputs)
    ops = [op for op in program.ops if op.output in computed]
    sums = {op.name: _Sums(ClipSum(tensors[op.output]) if can_clip(tensors[op.output]) else None) for op in ops}
    alone = {op.name for op in ops if set(op.inputs) <= known}
    read = {name for op in ops if op.name in alone for name in op.inputs} & computed
    session = FloatSession(network, fetch=list(dict.fromkeys([op.output for op in ops] + sorted(read))))
    for sample in samples:
        stored = simulate(program, quantized_inputs(program, sample))
        real = {**sample.inputs, **session.run(sample.inputs)}
        for op in ops:
            own, form, expected = sums[op.name], tensors[op.output].format, real[op.output]
            own.cumulative.add(form.dequantize(stored[op.output]), expected)
            if own.clip is not None:
                own.clip.add(expected)
            if op.name in alone:
                given = [as_stored(tensors[name], real[name]) for name in op.inputs]
                own.isolated.add(form.dequantize(simulate_op(program, op, given)), expected)
    return tuple(_result(op, sums[op.name], op.name in alone) for op in ops)


def _result(op: OpBase, sums: _Sums, alone: bool) -> LayerError:
    return LayerError(
        op.name,
        op.output,
        sums.isolated.result().sqnr_db if alone else None,
        sums.cumulative.result().sqnr_db,
        None if sums.clip is None else sums.clip.rate,
    )


def as_stored(tensor: Tensor, real: NDArray[Any]) -> NDArray[Any]:
    """A value of the float network as the program stores it."""
    values = tensor.format.quantize(np.asarray(real, dtype=np.float64).reshape(tensor.shape))
    if not isinstance(tensor.format, Float):
        values = np.clip(values, tensor.low, tensor.high)
    return np.asarray(values).astype(tensor.format.dtype)
