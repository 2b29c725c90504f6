"""Float layers + formats -> ops of the affine integer program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineEmbedding,
    AffineLogSoftmax,
    AffineLookup,
    AffineMatMul,
    AffineMove,
    AffineMul,
    AffineNormalizeRows,
    AffineOnnx,
    AffineOp,
    AffinePool,
    AffineSoftmax,
    AffineTensor,
    Requantize,
)
from nnkit.program.formats import Affine
from nnkit.program.row_arithmetic import AFFINE_PARTS
from nnkit.quantize.affine.accumulators import conv_accumulator, output_rows, sum_accumulator
from nnkit.quantize.affine.multipliers import MAX_SHIFT, multiplier_and_shift, multipliers_and_shifts
from nnkit.quantize.affine.ranges import WeightFormats, activation_format, quantized_weight
from nnkit.quantize.affine.scheme import AffineScheme, Bits
from nnkit.quantize.affine.widths import keeps_format, wide_values
from nnkit.quantize.float_program import (
    FloatActivation,
    FloatAdd,
    FloatAveragePool,
    FloatConcat,
    FloatConv2d,
    FloatConvolution,
    FloatConvTranspose2d,
    FloatEmbedding,
    FloatFunction,
    FloatLogSoftmax,
    FloatMatMul,
    FloatMaxPool,
    FloatMul,
    FloatNormalizeRows,
    FloatOnnx,
    FloatOp,
    FloatPad,
    FloatProgram,
    FloatReshape,
    FloatSlice,
    FloatSoftmax,
    FloatTranspose,
    FloatUpsample,
    Nonlinearity,
)
from nnkit.quantize.known_ranges import known_format, known_range
from nnkit.quantize.row_constants import RowConstants

_ADD_BITS = {8: 20, 16: 30}
"""Bits of an addition's multipliers by those of its operands: differences of 9 bits then keep the accumulator below
2^30, those of 17 bits below 2^48."""
_SLOPE_BITS = 20
NUMBERS = Affine(16, (1.0,), (0,))
"""The format of indices: themselves."""


def split_pools(layers: FloatProgram) -> FloatProgram:
    """Convolutions with a fused pool as two layers: affine pools are ops of their own."""
    result: list[FloatOp] = []
    shapes = dict(layers.shapes)
    for layer in layers.ops:
        if not isinstance(layer, FloatConv2d) or layer.pool is None:
            result.append(layer)
            continue
        pool, average = layer.pool, layer.pool.kind == "average"
        before = layer.range_value if average else f"{layer.output}.before_pool"
        shapes[before] = (layer.weight.shape[0], *layer.window.output_hw(*shapes[layer.inputs[0]][-2:]))
        result.append(replace(layer, output=before, range_value=before if average else layer.output, pool=None))
        fields: dict[str, Any] = {
            "name": f"{layer.name}.pool",
            "inputs": (before,),
            "output": layer.output,
            "range_value": layer.output,
            "tags": layer.tags,
            "window": pool.window,
        }
        result.append(
            FloatAveragePool(**fields, counts_padding=pool.counts_padding) if average else FloatMaxPool(**fields)
        )
    return replace(layers, ops=tuple(result), shapes=shapes)


def choose_tensors(layers: FloatProgram, stats: CalibrationStats, scheme: AffineScheme) -> dict[str, AffineTensor]:
    """Every value's format. What moves or compares stored integers keeps its input's format."""
    tensors: dict[str, AffineTensor] = {}
    wide = wide_values(layers, scheme)

    def bits(value: str) -> Bits:
        return 16 if value in wide else 8

    ids = {layer.inputs[0] for layer in layers.ops if isinstance(layer, FloatEmbedding)}
    known = {} if stats.method == "formats" else _known_formats(layers, scheme, bits)
    for name in layers.inputs:
        if name in ids:
            tensors[name] = AffineTensor(name, layers.shapes[name], NUMBERS)
            continue
        form = layers.formats.get(name) or activation_format(stats, name, scheme, bits(name), is_input=True)
        tensors[name] = AffineTensor(name, layers.shapes[name], form)
    for layer in layers.ops:
        if layer.output in layers.formats and not keeps_format(layer):
            form = layers.formats[layer.output]
        elif keeps_format(layer):
            form = tensors[layer.inputs[0]].format
        elif layer.output in known:
            form = known[layer.output]
        else:
            act = layer.nonlinearity
            bounds = (None, None) if act is None or act.slopes is not None else (act.low, act.high)
            form = activation_format(stats, layer.range_value, scheme, bits(layer.output), bounds)
        tensors[layer.output] = AffineTensor(layer.output, layers.shapes[layer.output], form)
    return _with_shared_formats(layers, tensors)


def _known_formats(layers: FloatProgram, scheme: AffineScheme, bits: Callable[[str], Bits]) -> dict[str, Affine]:
    """Formats that follow from what layers are, by value; a concatenation of parts in one such format has it too."""
    known: dict[str, Affine] = {}
    for layer in layers.ops:
        form = known_format(layer, bits(layer.output), symmetric=scheme.symmetric_activations)
        if keeps_format(layer):
            form = known.get(layer.inputs[0])
        elif isinstance(layer, FloatConcat):
            parts = [known.get(name) for name in layer.inputs]
            form = parts[0] if all(part == parts[0] for part in parts) else None
        if form is not None:
            known[layer.output] = form
    return known


def shared_parts(layers: FloatProgram) -> dict[str, str]:
    """Values that only reach one concatenation, and that one's output, whose format they have.

    They are rounded once, and joined as they are. What has a format by its own nature keeps it.
    """
    readers = Counter(name for layer in layers.ops for name in layer.inputs) + Counter(layers.outputs)
    makers = {layer.output: layer for layer in layers.ops}
    shared: dict[str, str] = {}
    for layer in reversed(layers.ops):
        for name in layer.inputs if isinstance(layer, FloatConcat) else ():
            chain = [name]
            while (maker := makers.get(chain[-1])) is not None and keeps_format(maker):
                chain.append(maker.inputs[0])
            given = layers.formats.keys() & {*chain, layer.output}
            if maker is not None and known_range(maker, 8) is not None:
                continue
            if maker is not None and not given and all(readers[each] == 1 for each in chain):
                shared |= dict.fromkeys(chain, shared.get(layer.output, layer.output))
    return shared


def _with_shared_formats(layers: FloatProgram, tensors: Mapping[str, AffineTensor]) -> dict[str, AffineTensor]:
    shared = {name: tensors[whole].format for name, whole in shared_parts(layers).items()}
    return {
        name: AffineTensor(name, tensor.shape, shared[name])
        if name in shared and shared[name].bits == tensor.format.bits
        else tensor
        for name, tensor in tensors.items()
    }


def build_op(
    layer: FloatOp,
    tensors: Mapping[str, AffineTensor],
    formats: WeightFormats,
    bias: NDArray[np.float64] | None = None,
    weight: NDArray[Any] | None = None,
) -> AffineOp:
    """The op of one layer. bias: real units, weight: stored; instead of the layer's own (corrected ones).

    Raises ModelError for a scale that fits no multiplier, or 8-bit operands whose sums int32 cannot hold.
    """
    fields: dict[str, Any] = {
        "name": layer.name,
        "inputs": layer.inputs,
        "output": layer.output,
        "tags": tuple(tag for tag, on in (("hp", layer.tags.hp), ("cpu", layer.tags.cpu)) if on),
        "origins": layer.tags.origins,
    }
    sources, out = [tensors[name] for name in layer.inputs], tensors[layer.output]
    match layer:
        case FloatConv2d() | FloatConvTranspose2d():
            return _conv(layer, fields, sources[0], out, formats, bias, weight)
        case FloatMaxPool():
            return AffinePool(**fields, pool="max", window=layer.window)
        case FloatAveragePool():
            return _average(layer, fields, sources[0], out)
        case FloatAdd():
            return _add(layer, fields, sources, out)
        case FloatMul():
            stage = _requantize(np.array([sources[0].scale * sources[1].scale / out.scale]), out, layer)
            accumulator = sum_accumulator(sources[0].reach * sources[1].reach)
            return AffineMul(**fields, requantize=stage, accumulator=accumulator)
        case FloatActivation():
            return AffineActivation(
                **fields, requantize=_requantize(np.array([sources[0].scale / out.scale]), out, layer)
            )
        case FloatFunction():
            return _lookup(layer, fields, sources[0], out)
        case FloatSoftmax():
            coarse, fine, numerator = AffineSoftmax.tables(sources[0], out)
            return AffineSoftmax(**fields, axis=layer.axis, coarse=coarse, fine=fine, numerator=numerator)
        case FloatLogSoftmax():
            constants = AffineLogSoftmax.constants(sources[0], out, out.shape[layer.axis], layer.name)
            return AffineLogSoftmax(**fields, axis=layer.axis, **constants)
        case FloatNormalizeRows():
            return _normalize(layer, fields, sources[0], out)
        case FloatMatMul():
            stage = _requantize(np.array([sources[0].scale * sources[1].scale / out.scale]), out, layer)
            accumulator = sum_accumulator(sources[0].shape[-1] * sources[0].reach * sources[1].reach)
            return AffineMatMul(**fields, requantize=stage, accumulator=accumulator)
        case FloatOnnx():
            return AffineOnnx(**fields, operator=layer.operator, model=layer.model)
        case FloatEmbedding():
            return AffineEmbedding(**fields, table=out.format.quantize(layer.table).astype(out.format.dtype))
        case FloatConcat():
            stages = tuple(
                None if part.format == out.format else _requantize(np.array([part.scale / out.scale]), out, layer)
                for part in sources
            )
            return AffineConcat(**fields, requantize=stages)
        case FloatReshape():
            return AffineMove(**fields, move="reshape")
        case FloatUpsample():
            return AffineMove(**fields, move="upsample", scale_hw=(layer.scale_h, layer.scale_w))
        case FloatTranspose():
            return AffineMove(**fields, move="transpose", order=layer.order)
        case FloatSlice():
            return AffineMove(**fields, move="slice", starts=layer.starts, steps=layer.steps)
        case FloatPad():
            value = int(out.format.quantize(np.asarray([layer.value]))[0])
            return AffineMove(**fields, move="pad", pads=layer.pads, pad_value=value)
    raise InternalError(f"{type(layer).__name__} has no affine op", where=layer.name)


def _lookup(layer: FloatFunction, fields: dict[str, Any], source: AffineTensor, out: AffineTensor) -> AffineLookup:
    stored = np.arange(source.format.qmin, source.format.qmax + 1)
    function = layer.function
    table = out.format.quantize(function.values(source.centred(stored) * source.scale)).astype(np.int64)
    return AffineLookup(**fields, table=table, function=function.name, parameters=function.parameters)


def _normalize(
    layer: FloatNormalizeRows, fields: dict[str, Any], source: AffineTensor, out: AffineTensor
) -> AffineNormalizeRows:
    constants = RowConstants.of(layer.gain, layer.offset, layer.epsilon, source.scale, out.scale, AFFINE_PARTS)
    return AffineNormalizeRows(
        **fields,
        proof="proven",
        epsilon=constants.epsilon,
        gain=constants.gain,
        offset=constants.offset,
        shift=constants.shift,
        real_gain=layer.gain.astype(np.float32),
        real_offset=layer.offset.astype(np.float32),
        real_epsilon=layer.epsilon,
    )


def _conv(
    layer: FloatConvolution,
    fields: dict[str, Any],
    source: AffineTensor,
    out: AffineTensor,
    formats: WeightFormats,
    corrected: NDArray[np.float64] | None,
    rounded: NDArray[Any] | None,
) -> AffineConv:
    transposed = isinstance(layer, FloatConvTranspose2d)
    axis = 1 if transposed else 0
    pad_value = layer.pad_value if isinstance(layer, FloatConv2d) else 0.0
    bias = layer.bias if corrected is None else corrected
    if layer.stored is not None and layer.stored.axis in (None, axis):
        given = layer.stored
        bits = 8 * given.values.dtype.itemsize
        stored_format = Affine(
            bits, tuple(given.scale.tolist()), tuple(given.zero_point.tolist()), given.axis, signed=True
        )
        form = _wide_enough(stored_format, bias, source)
        if form == stored_format:  # a scale that grew for the bias needs new integers
            rounded = given.values
    else:
        form = _wide_enough(formats.of(layer, layer.weight, axis), bias, source)
    stored = (
        quantized_weight(layer.weight, form, symmetric=formats.scheme.symmetric_weights)
        if rounded is None
        else rounded
    )
    scales = source.scale * np.asarray(form.scale)
    bias_q = np.rint(bias / scales).astype(np.int32)
    zero = np.asarray(form.zero_point, np.int64).reshape([-1 if i == axis else 1 for i in range(4)])
    rows = output_rows(stored, zero, layer.groups, transposed=transposed)
    wide = 16 in (form.bits, source.format.bits)
    return AffineConv(
        **fields,
        accumulator=conv_accumulator(rows, bias_q, source, layer.name, wide=wide),
        weight=stored,
        weight_format=form,
        bias=bias_q,
        window=layer.window,
        groups=layer.groups,
        pad_value=int(source.format.quantize(np.asarray([pad_value]))[0]),
        transposed=transposed,
        requantize=_requantize(scales / out.scale, out, layer),
    )


def _wide_enough(form: Affine, bias: NDArray[np.float64], source: AffineTensor) -> Affine:
    """Scales large enough for the bias to take at most 30 bits (channels whose weights are all but zero)."""
    if form.axis is None:
        needed = [float(np.abs(bias).max(initial=0.0))]
    else:
        needed = [abs(float(b)) for b in bias]
    scales = tuple(max(s, need / (source.scale * 2.0**30)) for s, need in zip(form.scale, needed, strict=True))
    return replace(form, scale=scales)


def _average(layer: FloatAveragePool, fields: dict[str, Any], source: AffineTensor, out: AffineTensor) -> AffinePool:
    window = layer.window
    factor, taps = source.scale / out.scale, window.kernel_h * window.kernel_w
    stage = _requantize(np.array([factor / taps]), out, layer)
    by_count: tuple[NDArray[np.int64], ...] = ()
    if window.has_padding and not layer.counts_padding:
        pairs = [(0, 1), *(multiplier_and_shift(factor / n, name=layer.name) for n in range(1, taps + 1))]
        by_count = tuple(np.array(pair, np.int64) for pair in pairs)
    return AffinePool(
        **fields,
        accumulator=sum_accumulator(taps * source.reach),
        proof="proven",
        pool="average",
        window=window,
        requantize=stage,
        by_count=by_count,
        count_include_pad=layer.counts_padding,
    )


def _add(layer: FloatAdd, fields: dict[str, Any], sources: list[AffineTensor], out: AffineTensor) -> AffineAdd:
    factors = [source.scale / out.scale for source in sources]
    slopes = None if layer.activation is None else layer.activation.slopes
    _, shift = multiplier_and_shift(
        max(factors), bits=_ADD_BITS[max(source.format.bits for source in sources)], name=layer.name
    )
    shift = shift if slopes is None else min(shift, MAX_SHIFT - _SLOPE_BITS)
    a, b = (round(factor * 2.0**shift) for factor in factors)
    stage = replace(_requantize(np.array([1.0]), out, layer), multiplier=np.array([1]), shift=np.array([shift]))
    if slopes is not None:
        stage = replace(
            stage,
            multiplier=np.array([1 << _SLOPE_BITS]),
            shift=np.array([shift + _SLOPE_BITS]),
            negative_multiplier=np.rint(slopes * 2.0**_SLOPE_BITS).astype(np.int64),
        )
    accumulator = sum_accumulator(sources[0].reach * a + sources[1].reach * b)
    return AffineAdd(**fields, multipliers=(a, b), requantize=stage, accumulator=accumulator)


def _requantize(factors: NDArray[np.float64], out: AffineTensor, layer: FloatOp) -> Requantize:
    activation = layer.nonlinearity
    low, high = _bounds(activation, out)
    slopes = None if activation is None else activation.slopes
    if slopes is None:
        multiplier, shift = multipliers_and_shifts(factors, name=layer.name)
        return Requantize(multiplier, shift, low, high)
    count = max(factors.size, slopes.size)
    positive = np.broadcast_to(factors, (count,))
    negative = positive * np.broadcast_to(slopes, (count,))
    _, shift = multipliers_and_shifts(np.maximum(np.abs(positive), np.abs(negative)), name=layer.name)
    scale = 2.0 ** shift.astype(np.float64)
    return Requantize(
        np.rint(positive * scale).astype(np.int64), shift, low, high, np.rint(negative * scale).astype(np.int64)
    )


def _bounds(activation: Nonlinearity | None, out: AffineTensor) -> tuple[int, int]:
    low, high = out.format.qmin, out.format.qmax
    if activation is not None and activation.low is not None:
        low = int(out.format.quantize(np.asarray([activation.low]))[0])
    if activation is not None and activation.high is not None:
        high = int(out.format.quantize(np.asarray([activation.high]))[0])
    return low, high
