"""The integers that the compiler wrote into its lowered MLIR, beside those that nnkit predicted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Affine, Pixels, Program
from nnkit_tpu.arithmetic import pixel_tables
from nnkit_tpu.integer_parameters import IntegerOperands, IntegerWeights, Requant
from nnkit_tpu.program import TpuBinary, TpuDeconv, TpuOp
from nnkit_tpu.top_mlir import PixelInput

_LOCATION = re.compile(r'^(#loc\d*) = loc\("(.*)"\)$')
_OP = re.compile(r'"tpu\.(\w+)"\(([^)]*)\)(?: \{(.*)\})? : .* -> tensor<(.*)> loc\((#?[^)]*)\)$')
_NUMBERS = re.compile(r"\b(multipliers?|rshifts?)(?:_neg)? = (\[[-\d, ]*\]|-?\d+)")
_SCALE = re.compile(r"!quant\.uniform<([iu])8:f\d+, ([-+.\deE]+)(?::(-?\d+))?>")


@dataclass(frozen=True, eq=False)
class LoweredOp:
    """One op of the lowered program. scale, signed, zero_point: of its INT8 output; None for a float one."""

    kind: str
    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    scale: float | None
    signed: bool | None
    zero_point: int = 0


@dataclass(frozen=True)
class Disagreement:
    """A value that the compiler chose otherwise than predicted."""

    layer: str
    what: str


def read_lowered(text: str) -> dict[str, LoweredOp]:
    """Ops by the compiler's name of their output."""
    names = {m[1]: m[2] for m in map(_LOCATION.match, text.splitlines()) if m is not None}
    ops: dict[str, LoweredOp] = {}
    for line in text.splitlines():
        match = _OP.search(line)
        if match is None:
            continue
        kind, _, attributes, result, location = match.groups()
        numbers = {key.rstrip("s"): _integers(value) for key, value in _NUMBERS.findall(attributes or "")}
        scale = _SCALE.search(result)
        ops[names.get(location, location.strip('"'))] = LoweredOp(
            kind,
            numbers.get("multiplier", ()),
            numbers.get("rshift", ()),
            float(scale[2]) if scale else None,
            scale[1] == "i" if scale else None,
            int(scale[3] or 0) if scale else 0,
        )
    return ops


def disagreements(
    program: Program,
    lowered: Mapping[str, LoweredOp],
    weights_file: Path,
    names: Mapping[str, str],
    pixels: Mapping[str, PixelInput] | None = None,
) -> tuple[tuple[Disagreement, ...], int]:
    """What the compiler chose otherwise than predicted, and how many layers were compared.

    names: the compiler's name of each tensor. pixels: the inputs that are taken as pixels, whose tables are compared
    too. A layer that the compiler merged into others is not compared.
    """
    wrong: list[Disagreement] = []
    compared = 0
    with np.load(weights_file) as weights:
        for name, taken in (pixels or {}).items():
            wrong += _tables(program, name, taken, names[name], weights)
        for op in program.ops:
            theirs = lowered.get(names[op.output])
            if not isinstance(op, TpuOp) or op.mode != "INT8" or theirs is None:
                continue
            compared += 1
            stored = program.tensors[op.output].format
            if isinstance(stored, Affine):
                wrong += _format(op, stored, theirs)
            wrong += _integer(op, theirs, names[op.output], weights)
    return tuple(wrong), compared


def _tables(program: Program, name: str, taken: PixelInput, raw: str, weights: Any) -> list[Disagreement]:
    """The tables from pixels to integers; where the integers are the pixels there is none."""
    source = program.tensors[name].format
    readers = [op for op in program.ops if isinstance(op, TpuOp) and name in op.inputs]
    how = readers[0].casts[readers[0].inputs.index(name)]
    stored = how.via or how.target
    if not isinstance(source, Pixels) or not isinstance(stored, Affine):
        return []
    mine = pixel_tables(source, stored)[:: -1 if taken.swapped else 1]
    plain = raw.removesuffix("_raw")
    keys = [f"{plain}_preprocess_{kind}_{plain}_preprocess_table" for kind in ("scale_lut", "lut")]
    file = next((key for key in keys if key in weights.files), None)
    theirs = np.arange(source.qmax + 1) if file is None else weights[file].astype(np.int64)
    if not stored.signed:
        theirs = theirs & source.qmax
    wrong = int(np.count_nonzero(np.broadcast_to(theirs.reshape(-1, source.qmax + 1), mine.shape) != mine))
    return [Disagreement(name, f"{wrong} of {mine.size} entries of the tables for pixels")] if wrong else []


def _format(op: TpuOp, stored: Affine, theirs: LoweredOp) -> list[Disagreement]:
    if theirs.scale is None or theirs.signed is None:
        return [Disagreement(op.name, "the compiler computes it in floating point")]
    same = theirs.signed == stored.signed and theirs.zero_point == stored.zero_point[0]
    if not same or abs(theirs.scale / stored.scale[0] - 1.0) > 1e-12:
        kind = f"{'s8' if theirs.signed else 'u8'} with scale {theirs.scale:.9g}"
        where = f", zero at {theirs.zero_point}" if theirs.zero_point or stored.zero_point[0] else ""
        return [Disagreement(op.name, f"{kind}{where}, {stored} predicted")]
    return []


def _integer(op: TpuOp, theirs: LoweredOp, name: str, weights: Any) -> list[Disagreement]:
    ours: Any = getattr(op, "integer", None)
    differing: list[Disagreement] = []
    stage = ours.requant if isinstance(ours, IntegerWeights) else ours
    mine: tuple[int, ...] = ()
    shifts: tuple[int, ...] = ()
    if isinstance(stage, Requant):
        first = 31 if stage.rounding == "two_steps" else 0  # what the compiler leaves unsaid
        mine, shifts = tuple(map(int, stage.multiplier)), tuple(int(s) - first for s in stage.shift)
    elif isinstance(stage, IntegerOperands):
        mine, shifts = stage.multipliers, stage.shifts
        if stage.joint and isinstance(op, TpuBinary) and op.function == "sub":
            mine = mine[0], -mine[1]  # the compiler adds the negated product
    if mine and theirs.multipliers and not isinstance(op, TpuDeconv):
        pairs = zip(mine, theirs.multipliers, strict=False)
        wrong = sum(a != b for a, b in pairs) + sum(a != b for a, b in zip(shifts, theirs.shifts, strict=False))
        if wrong:
            differing.append(Disagreement(op.name, f"{wrong} of {2 * len(mine)} multipliers and shifts"))
    if isinstance(ours, IntegerWeights):
        differing += _weights(op, ours, name, weights)
    return differing


def _weights(op: TpuOp, ours: IntegerWeights, name: str, weights: Any) -> list[Disagreement]:
    differing: list[Disagreement] = []
    for what, suffixes, mine in (
        ("weights", ("filter_i8", "filter_u8", "filter_int8"), ours.weight),
        ("biases", ("bias_int32",), ours.bias),
    ):
        plain = [f"{name}_{suffix}" for suffix in suffixes]
        swapped = [f"{name}_{key}_swap_channel" for key in plain]  # of a first layer that brings the colours in order
        file = next((key for key in (*plain, *swapped) if key in weights.files), None)
        if file is None or mine is None:
            continue
        if file in swapped:
            mine = mine[:, ::-1]
        theirs: NDArray[Any] = weights[file]
        if theirs.size != mine.size:
            differing.append(Disagreement(op.name, f"{theirs.size} {what}, {mine.size} predicted"))
            continue
        wrong = int(np.count_nonzero(theirs.ravel().astype(np.int64) != mine.ravel().astype(np.int64)))
        if wrong:
            differing.append(Disagreement(op.name, f"{wrong} of {mine.size} {what}"))
    return differing


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(v) for v in re.findall(r"-?\d+", text))
