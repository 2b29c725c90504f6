"""Sum, product, activation, table, and the parts of concatenations."""

from __future__ import annotations

import numpy as np

from nnkit.c.affine.call import Call, Code, Join, Kernel, Table, pixels_and_channels, suffix
from nnkit.c.affine.requantize import stage_of
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineLookup,
    AffineMul,
    AffineTensor,
    Requantize,
)

_LIMIT = 1 << 31


def add_call(op: AffineAdd, sources: list[AffineTensor], output: AffineTensor) -> Call:
    """The one call."""
    a, b = sources
    stage, (a_factor, b_factor) = op.requantize, op.multipliers
    multiplier, shift = int(stage.multiplier[0]), int(stage.shift[0])
    start = (1 << (shift - 1)) + (output.zero_point << shift) - a.zero_point * a_factor - b.zero_point * b_factor
    most = sum(
        max(abs(t.format.qmin), abs(t.format.qmax)) * abs(f) for t, f in ((a, a_factor), (b, b_factor))
    )  # fmt: skip
    fast = stage.negative_multiplier is None and multiplier == 1 and shift < 31 and most + abs(start) < _LIMIT
    low, high = stage.clip_min, stage.clip_max
    clamp = {(0, 255): "u8", (-128, 127): "i8"}.get((low, high), "range")
    negative = stage.negative_multiplier is not None
    variant = (
        ("a", suffix(a)),
        ("b", suffix(b)),
        ("y", suffix(output)),
        ("form", "fast" if fast else "wide"),
        ("clamp", clamp),
        ("negative", "slopes" if negative else ""),
    )
    return Call(
        Kernel("elementwise", "add", variant),
        {
            "count": output.elements,
            "start": start if fast else 0,
            "a_factor": a_factor,
            "b_factor": b_factor,
            "shift": shift,
            "a_zero": a.zero_point,
            "b_zero": b.zero_point,
            "multiplier": multiplier,
            "negative": int(stage.negative_multiplier[0]) if stage.negative_multiplier is not None else 0,
            "zero": output.zero_point,
            "low": low,
            "high": high,
        },
        op.inputs,
        op.output,
        in_place=_in_place(sources, output),
    )


def mul_call(op: AffineMul, sources: list[AffineTensor], output: AffineTensor) -> Call:
    """The one call."""
    a, b = sources
    stage = op.requantize
    by_channel = b.shape != a.shape
    negative = stage.negative_multiplier
    variant = (
        ("a", suffix(a)),
        ("b", suffix(b)),
        ("y", suffix(output)),
        ("by", "by_channel" if by_channel else ""),
        ("clamp", _clamp(stage)),
        ("negative", "slopes" if negative is not None else ""),
    )
    return Call(
        Kernel("elementwise", "mul", variant),
        {
            "count": output.elements,
            "channels": pixels_and_channels(output.shape)[1],
            "a_zero": a.zero_point,
            "b_zero": b.zero_point,
            "multiplier": int(stage.multiplier[0]),
            "negative": int(negative[0]) if negative is not None else 0,
            "shift": int(stage.shift[0]),
            "zero": output.zero_point,
            "low": stage.clip_min,
            "high": stage.clip_max,
        },
        op.inputs,
        op.output,
        in_place=_in_place(sources, output) - ({1} if by_channel else set()),
    )


def activation_call(op: AffineActivation, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    return _rescaled(op.requantize, source, output, op.inputs[0], op.output)


def lookup_call(op: AffineLookup, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    return Call(
        Kernel("elementwise", "lookup", (("a", suffix(source)), ("y", suffix(output)))),
        {"count": output.elements, "least": source.format.qmin},
        op.inputs,
        op.output,
        {"table": Table("bytes" if output.format.bits == 8 else "shorts", op.table)},
        in_place=_in_place([source], output),
    )


def concat_code(op: AffineConcat, sources: list[AffineTensor], output: AffineTensor) -> Code:
    """A part for each input."""
    parts: list[Join] = []
    offset = 0
    for name, source, stage in zip(op.inputs, sources, op.requantize, strict=True):
        pixels, channels = pixels_and_channels(source.shape)
        if stage is not None:
            copies = _rescaled(stage, source, output, name, op.output)
        else:
            variant = (("a", suffix(source)), ("y", suffix(output)))
            numbers = {"pixels": pixels, "channels": channels, "y_stride": channels}
            copies = Call(Kernel("elementwise", "copy", variant), numbers, (name,), op.output, strided=True)
        parts.append(Join(name, op.output, offset, copies, joins=stage is None))
        offset += source.elements if op.rows else channels
    return parts


def _rescaled(stage: Requantize, source: AffineTensor, output: AffineTensor, read: str, write: str) -> Call:
    _, channels = pixels_and_channels(source.shape)
    per_channel = stage.multiplier.size > 1 or (
        stage.negative_multiplier is not None and stage.negative_multiplier.size > 1
    )
    count = channels if per_channel else 1
    requantized = stage_of(stage, output, count, source.reach, wide=True)
    columns = [
        requantized.multiplier,
        requantized.shift,
        *([] if requantized.negative is None else [requantized.negative]),
    ]
    variant = (
        ("a", suffix(source)),
        ("y", suffix(output)),
        ("clamp", requantized.clamp),
        ("negative", "slopes" if requantized.negative is not None else ""),
    )
    return Call(
        Kernel("elementwise", "rescale", variant),
        {
            "count": source.elements,
            "channels": channels,
            "per_channel": int(per_channel),
            "y_stride": channels,
            "a_zero": source.zero_point,
            "zero": output.zero_point,
            "low": requantized.low,
            "high": requantized.high,
        },
        (read,),
        write,
        {"stages": Table("ints", np.stack(columns, axis=1))},
        in_place=_in_place([source], output),
        strided=True,
    )


def _clamp(stage: Requantize) -> str:
    return {(0, 255): "u8", (-128, 127): "i8"}.get((stage.clip_min, stage.clip_max), "range")


def _in_place(sources: list[AffineTensor], output: AffineTensor) -> frozenset[int]:
    return frozenset(i for i, source in enumerate(sources) if source.size_bytes == output.size_bytes)
