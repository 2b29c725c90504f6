"""Where a program loses accuracy, layer by layer, in any arithmetic.

Of a layer: *isolated* is the SQNR of its output when its inputs are the float network's, rounded to their formats:
what this layer adds by itself. *Cumulative* is that of its output in the program, errors of earlier layers included.
*Clip rate* is the share of the float layer's values that its output cannot hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Float, OpBase, Program, Tensor
from nnkit.simulate import simulate, simulate_op
from nnkit.verify.clipping import ClipSum, can_clip
from nnkit.verify.metrics import DistanceSum
from nnkit.verify.samples import Sample, quantized_inputs


@dataclass(frozen=True)
class LayerError:
    """Of one layer over all samples.

    value: the name of its output. isolated_db: None where a value that it reads is none of the float network's.
    clip_rate: None where its output is float.
    """

    layer: str
    value: str
    isolated_db: float | None
    cumulative_db: float
    clip_rate: float | None


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
            found, form, expected = sums[op.name], tensors[op.output].format, real[op.output]
            found.cumulative.add(form.dequantize(stored[op.output]), expected)
            if found.clip is not None:
                found.clip.add(expected)
            if op.name in alone:
                given = [_stored(tensors[name], real[name]) for name in op.inputs]
                found.isolated.add(form.dequantize(simulate_op(program, op, given)), expected)
    return tuple(_result(op, sums[op.name], op.name in alone) for op in ops)


def ranks(errors: Sequence[LayerError]) -> dict[str, int]:
    """By layer, 1 for the one that adds most error of its own; layers that add none have no rank."""
    worst = sorted(
        (error.isolated_db, place, error.layer)
        for place, error in enumerate(errors)
        if error.isolated_db is not None and np.isfinite(error.isolated_db)
    )
    return {layer: rank for rank, (_, _, layer) in enumerate(worst, start=1)}


def _result(op: OpBase, found: _Sums, alone: bool) -> LayerError:
    return LayerError(
        op.name,
        op.output,
        found.isolated.result().sqnr_db if alone else None,
        found.cumulative.result().sqnr_db,
        None if found.clip is None else found.clip.rate,
    )


def _stored(tensor: Tensor, real: NDArray[Any]) -> NDArray[Any]:
    """A value of the float network as the program stores it."""
    values = tensor.format.quantize(np.asarray(real, dtype=np.float64).reshape(tensor.shape))
    if not isinstance(tensor.format, Float):
        values = np.clip(values, tensor.low, tensor.high)
    return np.asarray(values).astype(tensor.format.dtype)
