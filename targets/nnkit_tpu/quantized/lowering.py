"""From a network's own integers to ops of the TPU, each in the precision in which they are kept best.

Convolutions, averages, maxima, tables and what moves values are computed in integers. The compiler's integer sums and
joins rescale each operand by a factor of 8 bits, which is off by more than half a unit; sums and products are
therefore computed in float32 and rounded to the network's own format by what reads them. Where another layer in
float32 reads them, or where they are outputs, a copy in integers does that. Formats are made equal, for a Concat say,
by convolutions with ones, whose factors have 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import Model
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineLogSoftmax,
    AffineLookup,
    AffineMatMul,
    AffineMove,
    AffineMul,
    AffineNormalizeRows,
    AffineOp,
    AffinePool,
    AffineProgram,
    AffineSoftmax,
)
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.quantized_network import lower_quantized
from nnkit.quantize.affine.widths import keeps_format
from nnkit.quantize.float_program import FloatProgram
from nnkit_tpu.lowering.repeated import without_idle_reshapes
from nnkit_tpu.program import TpuGraph, TpuTensor
from nnkit_tpu.quantized import arithmetic, functions, moves
from nnkit_tpu.quantized.building import Building
from nnkit_tpu.quantized.copies import with_copies

_DOCUMENTATION = "docs/tpu.md"
_WHAT = "cannot run on the TPU with its integers kept"
_DEQUANTIZE = "set `dequantize: true` below `model`, which has the numbers that the integers stand for quantised anew"
_LEAST_SCALE = 1e-5


def lower(model: Model, name: str = "net") -> TpuGraph:
    """The ops of a network in QDQ form; its tensors have the network's formats.

    Raises ModelError that names every layer whose integers cannot be kept.
    """
    network = lower_quantized(model, _DOCUMENTATION)
    _check_formats(split_pools(network.layers))
    nothing = CalibrationStats({}, "formats", 0, "")  # formats are the network's
    return graph_of_integers(quantize_affine(network, nothing, AffineScheme(bias_correction=False)), name)


def _check_formats(layers: FloatProgram) -> None:
    """Raises ModelError naming every value that the file leaves in float."""
    reason = "the file leaves it in float, and this mode rounds every value as the file does"
    refusals = [Refusal(name, "input", reason) for name in layers.inputs if name not in layers.formats]
    refusals += [
        Refusal(layer.name, type(layer).__name__.removeprefix("Float"), reason)
        for layer in layers.ops
        if layer.output not in layers.formats and not keeps_format(layer)
    ]
    if refusals:
        raise refusal_error(refusals, _WHAT, _DEQUANTIZE)


def graph_of_integers(program: AffineProgram, name: str) -> TpuGraph:
    """The ops that compute an affine program. Raises ModelError as `lower`."""
    built = Building(program)
    refusals: list[Refusal] = []
    for op in program.ops:
        try:
            _add(built, op)
        except Refused as refused:
            refusals.append(Refusal(op.name, op.kind, refused.reason, refused.remedy))
    if refusals:
        raise refusal_error(refusals, _WHAT, _DEQUANTIZE)
    ops = without_idle_reshapes(built.ops, program.inputs, program.outputs, built.shapes.__getitem__)
    values = (*program.inputs, *(op.output for op in ops))
    tensors = {value: TpuTensor(value, built.shapes[value], built.formats[value]) for value in values}
    graph = TpuGraph(name, tensors, ops, program.inputs, program.outputs)
    return with_copies(graph, built.unrounded)


def _add(built: Building, op: AffineOp) -> None:
    """The ops of one of the program's. Raises Refused where it cannot be."""
    for name in (*op.inputs, op.output):
        form = built.program.tensors[name].format
        if form.bits != 8:
            raise Refused("the chip has integers of 8 bits only, and this network has some of 16")
        if form.scale[0] <= _LEAST_SCALE:
            raise Refused(f"the compiler replaces scales as small as {form.scale[0]:.3g}")
        built.value(name, built.program.tensors[name].shape, form)
    if op.tags:
        raise Refused(f"`{op.tags[0]}` would change its integers", "remove the tag")
    write = next((write for kind, write in _WRITERS.items() if isinstance(op, kind)), None)
    if write is None:
        raise Refused("it has no counterpart whose integers are the network's")
    write(built, op)


_WRITERS: Mapping[type, Callable[[Building, Any], None]] = MappingProxyType(
    {
        AffineConv: arithmetic.conv,
        AffineAdd: arithmetic.add,
        AffineMul: arithmetic.mul,
        AffineActivation: functions.activation,
        AffineLookup: functions.lookup,
        AffineSoftmax: functions.softmax,
        AffineLogSoftmax: functions.log_softmax,
        AffinePool: moves.pool,
        AffineConcat: moves.concat,
        AffineMove: moves.move,
        AffineMatMul: arithmetic.matmul,
        AffineNormalizeRows: arithmetic.rows,
    }
)
