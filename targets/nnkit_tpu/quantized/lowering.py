"""From a network's own integers to ops of the TPU, each in the precision in which they are kept best.

Convolutions, averages, maxima, tables and what moves values are computed in integers. The compiler's integer sums and
joins rescale each operand by a factor of 8 bits, which is off by more than half a unit; sums and products are
therefore computed in float32 and rounded to the network's own format by what reads them. Where another layer in
float32 reads them, or where they are outputs, a copy in integers does that. Formats are made equal, for a Concat say,
by convolutions with ones, whose factors have 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import Model
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.program import Window
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
    Requantize,
)
from nnkit.program.formats import Affine
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.quantized_network import lower_quantized
from nnkit.quantize.affine.widths import keeps_format
from nnkit.quantize.float_program import FloatProgram
from nnkit_tpu.lowering.elementwise import PLAIN
from nnkit_tpu.program import (
    ActivationFunction,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuPool,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
    TpuUpsample,
)
from nnkit_tpu.quantized.copies import with_copies
from nnkit_tpu.quantized.formats import range_of

_DOCUMENTATION = "docs/tpu.md"
_WHAT = "cannot run on the TPU with its integers kept"
_DEQUANTIZE = "set `dequantize: true` below `model`, which has the numbers that the integers stand for quantised anew"
_Bounds: TypeAlias = tuple[float, float]
_OWN_ROUNDING = ("its activation is part of it", "export the activation with its own rounding")
_SETTLED = ("sigmoid", "abs")
"""Functions whose format the compiler settles, whatever the calibration table says."""
_UNBOUNDED: _Bounds = (-np.inf, np.inf)
_IMAGE_RANK = 4


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
    made = _Made(program)
    refusals: list[Refusal] = []
    for op in program.ops:
        try:
            made.add(op)
        except Refused as refused:
            refusals.append(Refusal(op.name, op.kind, refused.reason, refused.remedy))
    if refusals:
        raise refusal_error(refusals, _WHAT, _DEQUANTIZE)
    tensors = {value: TpuTensor(value, made.shapes[value], made.formats[value]) for value in made.shapes}
    graph = TpuGraph(name, tensors, tuple(made.ops), program.inputs, program.outputs)
    return with_copies(graph, made.unrounded)


class _Made:
    """What has been made so far. unrounded: values between layers in float32 that the network does not have."""

    def __init__(self, program: AffineProgram) -> None:
        self.program = program
        self.ops: list[TpuOp] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.formats: dict[str, Affine] = {}
        self.unrounded: set[str] = set()
        for value in program.inputs:
            self.value(value, program.tensors[value].shape, program.tensors[value].format)

    def value(self, name: str, shape: Sequence[int], form: Affine) -> None:
        """A value without the batch axis."""
        self.shapes[name] = (1, *shape)
        self.formats[name] = form

    def add(self, op: AffineOp) -> None:
        """The ops of one of the program's. Raises Refused where it cannot be."""
        for name in (*op.inputs, op.output):
            form = self.program.tensors[name].format
            if form.bits != 8:
                raise Refused("the chip has integers of 8 bits only, and this network has some of 16")
            self.value(name, self.program.tensors[name].shape, form)
        if op.tags:
            raise Refused(f"`{op.tags[0]}` would change its integers", "remove the tag")
        write = next((write for kind, write in _WRITERS.items() if isinstance(op, kind)), None)
        if write is None:
            raise Refused("it has no counterpart whose integers are the network's")
        write(self, op)

    def common(self, op: AffineOp) -> dict[str, Any]:
        """Fields that all ops have."""
        return {"name": op.name, "inputs": op.inputs, "output": op.output, "origins": op.origins}

    def stored_as(self, source: str, output: str, name: str) -> None:
        """A convolution with ones per channel, which stores `source`, [1, C, H, W], in the format of `output`."""
        channels = self.shapes[source][1]
        self.ops.append(
            TpuConv(
                name=name,
                inputs=(source,),
                output=output,
                mode="INT8",
                weight=np.ones((channels, 1, 1, 1), np.float32),
                bias=np.zeros(channels, np.float32),
                window=Window(1, 1),
                group=channels,
                relu=_is_from_zero(self.formats[output]),
                weight_scale=(1.0,) * channels,
            )
        )


def _bounds(stage: Requantize, form: Affine) -> _Bounds:
    """The real bounds of a clamp, without end where the format ends there."""
    scale, zero = form.scale[0], form.zero_point[0]
    low = -np.inf if stage.clip_min <= form.qmin else (stage.clip_min - zero) * scale
    high = np.inf if stage.clip_max >= form.qmax else (stage.clip_max - zero) * scale
    return float(low), float(high)


def _conv(made: _Made, op: AffineConv) -> None:
    if op.transposed:
        raise Refused("of transposed convolutions the compiler takes no scale of weights")
    source, result = (made.formats[name] for name in (op.inputs[0], op.output))
    if op.pad_value != source.zero_point[0] and op.window.has_padding:
        raise Refused("its padding is not zero", "add `pad_inside` to `restructure`")
    integers = op.weight.astype(np.int64) - op.weight_zero_points()
    if op.weight_format.bits != 8 or integers.min(initial=0) < -128 or integers.max(initial=0) > 127:
        raise Refused("its weights without their zero point do not fit 8 bits")
    if op.requantize.negative_multiplier is not None:
        raise Refused(*_OWN_ROUNDING)
    scale = np.broadcast_to(np.asarray(op.weight_format.scale, np.float64), (len(op.weight),))
    bounds = _bounds(op.requantize, result)
    limited = bounds != _UNBOUNDED
    output = f"{op.output}_unlimited" if limited else op.output
    made.value(output, made.shapes[op.output][1:], result)
    made.ops.append(
        TpuConv(
            **{**made.common(op), "output": output},
            mode="INT8",
            weight=(integers * scale.reshape(-1, 1, 1, 1)).astype(np.float32),
            bias=(op.bias * (scale * source.scale[0])).astype(np.float32),
            window=op.window,
            group=op.groups,
            relu=_is_from_zero(result) and not limited,
            weight_scale=tuple(float(each) for each in scale),
        )
    )
    if limited:
        _clip(made, f"{op.name}_limits", output, op.output, bounds)


def _is_from_zero(form: Affine) -> bool:
    """Whether the format has nothing negative."""
    return form.zero_point[0] == form.qmin


def _clip(made: _Made, name: str, source: str, output: str, bounds: _Bounds = _UNBOUNDED) -> None:
    """Limits in float32, of which the compiler takes the format as the calibration table has it."""
    known = range_of(made.formats[output])
    limits = max(bounds[0], known.low), min(bounds[1], known.high)
    made.ops.append(
        TpuActivation(name=name, inputs=(source,), output=output, mode="F32", function="clip", bounds=limits)
    )


def _limited(made: _Made, op: AffineOp, write: Callable[..., TpuOp], bounds: _Bounds = _UNBOUNDED) -> None:
    """A function in float32 whose format the compiler would not take from the table: limits behind it have that."""
    before = f"{op.output}_unlimited"
    made.value(before, made.shapes[op.output][1:], made.formats[op.output])
    made.unrounded.add(before)
    made.ops.append(write(**{**made.common(op), "output": before}, mode="F32"))
    _clip(made, f"{op.name}_limits", before, op.output, bounds)


def _add(made: _Made, op: AffineAdd) -> None:
    if op.requantize.negative_multiplier is not None:
        raise Refused(*_OWN_ROUNDING)
    bounds, write = _bounds(op.requantize, made.formats[op.output]), partial(TpuBinary, function="add")
    if bounds == _UNBOUNDED:
        made.ops.append(write(**made.common(op), mode="F32"))
    else:
        _limited(made, op, write, bounds)


def _mul(made: _Made, op: AffineMul) -> None:
    if op.requantize.negative_multiplier is not None:
        raise Refused(*_OWN_ROUNDING)
    bounds = _bounds(op.requantize, made.formats[op.output])
    _limited(made, op, partial(TpuBinary, function="mul"), bounds)


def _activation(made: _Made, op: AffineActivation) -> None:
    result, stage = made.formats[op.output], op.requantize
    bounds = _bounds(stage, result)
    if stage.negative_multiplier is not None:
        slopes = (stage.negative_multiplier / stage.multiplier).astype(np.float32).reshape(-1)
        function: ActivationFunction = "leaky_relu" if slopes.size == 1 else "prelu"
        _limited(made, op, partial(TpuActivation, function=function, slopes=slopes), bounds)
    elif bounds == _UNBOUNDED and len(made.shapes[op.inputs[0]]) == _IMAGE_RANK:
        made.stored_as(op.inputs[0], op.output, op.name)
    else:
        _clip(made, op.name, op.inputs[0], op.output, bounds)


def _lookup(made: _Made, op: AffineLookup) -> None:
    function = PLAIN.get(op.function)
    if function is None or op.parameters:
        raise Refused(f"{op.function} has no counterpart in this mode")
    if function in _SETTLED:
        _limited(made, op, partial(TpuActivation, function=function))
    else:
        made.ops.append(TpuActivation(**made.common(op), mode="INT8", function=function))


def _softmax(made: _Made, op: AffineSoftmax) -> None:
    _limited(made, op, partial(TpuSoftmax, axis=op.axis + 1))


def _log_softmax(made: _Made, op: AffineLogSoftmax) -> None:
    _limited(made, op, partial(TpuSoftmax, axis=op.axis + 1, log=True))


def _pool(made: _Made, op: AffinePool) -> None:
    window, shape = op.window, made.shapes[op.inputs[0]]
    if op.pool == "max":
        made.ops.append(TpuPool(**made.common(op), mode="INT8", function="max", window=window))
        return
    if op.requantize is not None and _bounds(op.requantize, made.formats[op.output]) != _UNBOUNDED:
        raise Refused(*_OWN_ROUNDING)
    covered = all(
        (output - 1) * stride + kernel == size
        for output, stride, kernel, size in zip(
            made.shapes[op.output][2:],
            (window.stride_h, window.stride_w),
            (window.kernel_h, window.kernel_w),
            shape[2:],
            strict=True,
        )
    )
    made.ops.append(
        TpuPool(
            **made.common(op),
            mode="INT8" if covered and not window.has_padding else "F32",
            function="average",
            window=window,
            count_include_pad=op.count_include_pad,
        )
    )


def _concat(made: _Made, op: AffineConcat) -> None:
    result = made.formats[op.output]
    parts = list(op.inputs)
    for index, name in enumerate(op.inputs):
        if made.formats[name] == result:
            continue
        parts[index] = f"{op.output}_part_{index}"
        made.value(parts[index], made.shapes[name][1:], result)
        if len(made.shapes[name]) == _IMAGE_RANK:
            made.stored_as(name, parts[index], f"{op.name}_part_{index}")
        else:
            _clip(made, f"{op.name}_part_{index}", name, parts[index])
    common = {**made.common(op), "inputs": tuple(parts)}
    made.ops.append(TpuConcat(**common, mode="INT8", axis=2 if op.rows else 1))


def _move(made: _Made, op: AffineMove) -> None:
    common, shape = made.common(op), made.shapes[op.output]
    match op.move:
        case "reshape":
            floating = op.inputs[0] in made.program.inputs  # the compiler makes integers behind it
            made.ops.append(TpuReshape(**common, mode="F32" if floating else "INT8"))
        case "transpose":
            made.ops.append(TpuPermute(**common, mode="INT8", order=(0, *(axis + 1 for axis in op.order))))
        case "upsample" if op.scale_hw[0] == op.scale_hw[1]:
            made.ops.append(TpuUpsample(**common, mode="INT8", scale_h=op.scale_hw[0], scale_w=op.scale_hw[1]))
        case "slice":
            spans = zip(op.starts, shape[1:], op.steps, strict=True)
            ends = tuple(start + (size - 1) * step + 1 for start, size, step in spans)
            offsets, steps = (0, *op.starts), (1, *op.steps)
            made.ops.append(TpuSlice(**common, mode="INT8", offsets=offsets, steps=steps, ends=(1, *ends)))
        case _:
            raise Refused(f"a {op.move} of this kind has no counterpart in this mode")


def _matmul(made: _Made, op: AffineMatMul) -> None:
    if _bounds(op.requantize, made.formats[op.output]) != _UNBOUNDED:
        raise Refused(*_OWN_ROUNDING)
    made.ops.append(TpuMatMul(**made.common(op), mode="F32", weight=None))


def _rows(made: _Made, op: AffineNormalizeRows) -> None:
    raise Refused("normalisations of rows were not tried in this mode")


_WRITERS: Mapping[type, Callable[[_Made, Any], None]] = MappingProxyType(
    {
        AffineConv: _conv,
        AffineAdd: _add,
        AffineMul: _mul,
        AffineActivation: _activation,
        AffineLookup: _lookup,
        AffineSoftmax: _softmax,
        AffineLogSoftmax: _log_softmax,
        AffinePool: _pool,
        AffineConcat: _concat,
        AffineMove: _move,
        AffineMatMul: _matmul,
        AffineNormalizeRows: _rows,
    }
)
