"""Thresholds of every tensor in the calibration table, chosen so that the compiler has nothing to change.

Ops that only move or select values keep their input's format, and the parts of a concatenation share its format
where nothing else reads them: then no requantisation is needed in between. The compiler would unify some of them
itself; a table that is unified already is taken as it is, so that our prediction knows every scale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nnkit.calibrate.methods import refit
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit_tpu.arithmetic import LEAST_INPUT_SCALE
from nnkit_tpu.compiler_thresholds import Threshold, read_by_it_alone, scaled_by, settled
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuGraph,
    TpuGroupNorm,
    TpuLayerNorm,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuRectified,
    TpuReduce,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)
from nnkit_tpu.tables import without_ranges
from nnkit_tpu.whole_multipliers import with_whole_multipliers

SMALLEST = 1e-5
"""Below it the compiler replaces scales by a rule of its own."""

_SAME_FORMAT = ("relu", "leaky_relu", "prelu", "abs")
_UP_TO_ONE = ("sigmoid", "hard_sigmoid")
_SWISH = ("silu", "hard_swish")


def fitted(graph: TpuGraph, statistics: CalibrationStats, *, always_signed: bool) -> CalibrationStats:
    """Ranges of `mse` and `kl` for what a threshold makes: 8 bits around zero, with any scale. Others stay.

    graph: as it was lowered. always_signed: as in `thresholds`.
    """
    signed = True if always_signed else None
    bits = dict.fromkeys(statistics.histograms, 8)
    one_sided = {op.output for op in graph.ops if isinstance(op, TpuActivation) and op.function in _SWISH}
    return refit(statistics, bits, kind="symmetric", signed=signed, one_sided=one_sided)


def thresholds(graph: TpuGraph, ranges: Mapping[str, ValueRange], *, always_signed: bool) -> dict[str, Threshold]:
    """The threshold of every tensor. always_signed: the chip has no unsigned tensors.

    Raises ModelError naming the tensors without a calibrated range.
    """
    ranges = {**ranges, **{op.output: ranges[op.range_of] for op in graph.ops if op.range_of in ranges}}
    ranges = {**ranges, **_rectified(graph, ranges)}
    ranges |= {op.output: ValueRange(-op.within, op.within, -op.within, op.within) for op in graph.ops if op.within}
    missing = [name for name in graph.tensors if name not in ranges]
    if missing:
        raise without_ranges(missing)
    apart: set[str] = set()
    moves = {
        op.output: op.inputs[0] for op in graph.ops if keeps_format(op) or (always_signed and _selects_over_axes(op))
    }
    while True:
        chosen = _united(graph, ranges, apart, always_signed)
        conflicts = set() if always_signed else _signed_against_their_inputs(graph, chosen)
        if not conflicts <= apart:
            apart |= conflicts
            continue
        result = settled(graph, chosen, moves, cv=always_signed)
        if always_signed:
            whole = with_whole_multipliers(graph, result, _formats(graph, apart, always_signed))
            return settled(graph, whole, moves, cv=True)
        # A concatenation whose parts all are unsigned gives them its own threshold, signed where that is: it keeps to
        # itself then, so that it is as its parts are.
        late = _signed_against_their_inputs(graph, result)
        givers = {op.output for op in graph.ops if isinstance(op, TpuConcat) and late.intersection(op.inputs)}
        if givers <= apart:
            return result
        apart |= givers


def _rectified(graph: TpuGraph, ranges: Mapping[str, ValueRange]) -> dict[str, ValueRange]:
    """Normalised values that a rectifier alone reads have the range that it leaves: there they become integers; a
    reshape may stand in between."""
    left = dict[str, ValueRange]()
    for op in graph.ops:
        if isinstance(op, TpuActivation) and op.function == "relu" and op.output in ranges:
            names = [op.inputs[0]]
            reshape = graph.producer(op.inputs[0])
            names += [reshape.inputs[0]] if isinstance(reshape, TpuReshape) else []
            alone = all(len(graph.consumers(name)) == 1 and name not in graph.outputs for name in names)
            if alone and isinstance(graph.producer(names[-1]), TpuLayerNorm | TpuGroupNorm):
                left |= dict.fromkeys(names, ranges[op.output])
    return left


def _signed_against_their_inputs(graph: TpuGraph, chosen: Mapping[str, Threshold]) -> set[str]:
    """Signed results of ops that the compiler makes unsigned ones of, or fails with."""
    return {
        op.output
        for op in graph.ops
        if chosen[op.output].signed and _gives_unsigned(op, [chosen[name].signed for name in op.inputs])
    }


def _united(
    graph: TpuGraph, ranges: Mapping[str, ValueRange], apart: Collection[str], always_signed: bool
) -> dict[str, Threshold]:
    """The threshold of every tensor; the tensors of `apart` keep theirs in a concatenation."""
    own = {name: _own(graph, name, ranges[name]) for name in graph.tensors}
    if not always_signed:
        own |= {name: _above_made_up(own[name]) for op in graph.ops if isinstance(op, TpuConv) for name in op.inputs}
    groups = _formats(graph, apart, always_signed)
    joined: dict[str, Threshold] = {}
    for name in graph.tensors:
        root, mine = groups[name], own[name]
        so_far = joined.get(root, mine)
        joined[root] = Threshold(max(so_far.value, mine.value), so_far.signed or mine.signed or always_signed)
    changed = True
    while changed:
        changed = False
        for op in graph.ops:
            root = groups[op.output]
            if not joined[root].signed and _gives_signed(op, [joined[groups[n]].signed for n in op.inputs]):
                joined[root] = Threshold(joined[root].value, True)
                changed = True
    return {name: joined[groups[name]] for name in graph.tensors}


def _formats(graph: TpuGraph, apart: Collection[str], always_signed: bool) -> dict[str, str]:
    """By tensor, the name of one among those that share its format."""
    groups = {name: name for name in graph.tensors}
    for op in graph.ops:
        if keeps_format(op):
            _join(groups, op.inputs[0], op.output)
    for op in graph.ops:
        if isinstance(op, TpuConcat) or _compares(op):
            alone = [name for name in op.inputs if _exclusive(graph, name, apart)]
            if always_signed and isinstance(op, TpuConcat) and len(alone) < len(op.inputs):
                alone = [name for name in op.inputs if _given_its_threshold(graph, op, name)]
                if not all(name in alone or _lone_sigmoid(graph, op, name) for name in op.inputs):
                    continue
            for name in alone:
                _join(groups, name, op.output)
    return {name: _root(groups, name) for name in graph.tensors}


def _compares(op: TpuOp) -> bool:
    """Minimum, maximum: the compiler gives the threshold of the result to operands that nothing else reads."""
    return isinstance(op, TpuBinary) and op.function in ("min", "max") and op.constant is None


def _keeps_sign(op: TpuOp) -> bool:
    """Whether the compiler makes the op's output signed or not as its input is."""
    return isinstance(op, TpuPool) and op.function == "average"


def _gives_unsigned(op: TpuOp, signed: Sequence[bool]) -> bool:
    """Whether the compiler makes the op's output unsigned or fails with a signed one; signed: its inputs.

    Products of what is unsigned are: the chip has no instruction that makes signed numbers of them.
    """
    if scaled_by(op) is not None:
        return False
    if isinstance(op, TpuBinary) and op.function == "mul":
        return not any(signed) and (op.constant is None or not np.any(op.constant < 0))
    if isinstance(op, TpuBinary) and op.function == "add" and op.constant is None:
        return not any(signed)
    return (isinstance(op, TpuRectified) and op.relu) or (_keeps_sign(op) and not signed[0])


def _gives_signed(op: TpuOp, signed: Sequence[bool]) -> bool:
    """Whether the compiler makes the op's output signed though no negative value was seen; signed: its inputs."""
    if isinstance(op, TpuBinary) and op.function == "sub":
        return op.constant is None or (op.constant.size == 1 and not signed[0])
    factor = scaled_by(op)
    if factor is not None:
        return signed[0] or factor < 0
    if isinstance(op, TpuBinary) and op.function == "mul":
        return all(signed) if op.constant is None else signed[0] or bool(np.any(op.constant < 0))
    return _keeps_sign(op) and signed[0]


def keeps_format(op: TpuOp) -> bool:
    """Whether the op's INT8 output has its input's format."""
    match op:
        case TpuSlice() | TpuReshape() | TpuPermute() | TpuUpsample() | TpuPad():
            return True
        case TpuPool():
            return op.function == "max"
        case TpuActivation():
            return op.function in _SAME_FORMAT
        case _:
            return False


def _selects_over_axes(op: TpuOp) -> bool:
    """Whether the compiler of the cv18xx gives the op, which runs in floating point, its input's threshold."""
    return isinstance(op, TpuReduce) and op.function in ("max", "min")


def _own(graph: TpuGraph, name: str, calibrated: ValueRange) -> Threshold:
    op = graph.producer(name)
    while op is not None and keeps_format(op):
        op = graph.producer(op.inputs[0])
    if _up_to_one(op):
        return Threshold(1.0, False)
    return Threshold(float(f"{max(calibrated.max_abs, SMALLEST):.7f}"), calibrated.low < 0)


def _above_made_up(threshold: Threshold) -> Threshold:
    """The threshold of a convolution's input, above those that the compiler for the BM chips makes up a scale for:
    what is next to nothing would be taken for something."""
    least = (127.0 if threshold.signed else 255.0) * LEAST_INPUT_SCALE + 1e-7
    return threshold if threshold.value >= least else Threshold(float(f"{least:.7f}"), threshold.signed)


def _up_to_one(op: TpuOp | None) -> bool:
    """Whether the compiler takes the output's range to be 0 to 1, whatever the table says."""
    if isinstance(op, TpuActivation):
        return op.function in _UP_TO_ONE
    return isinstance(op, TpuSoftmax) and not op.log


def _exclusive(graph: TpuGraph, name: str, apart: Collection[str]) -> bool:
    """Whether nothing but one op reads the value, nor what it is merely moved from; nothing of `apart` is."""
    if name in (*graph.inputs, *graph.outputs, *apart) or len(graph.consumers(name)) != 1:
        return False
    op = graph.producer(name)
    if op is None or _up_to_one(op) or scaled_by(op) is not None:
        return False
    return not keeps_format(op) or _exclusive(graph, op.inputs[0], apart)


def _given_its_threshold(graph: TpuGraph, op: TpuConcat, name: str) -> bool:
    """Whether the compiler gives the concatenation's threshold to a part, and the program can follow it there.

    Of an enlarged part it makes another scale than what is enlarged has, unless these agree.
    """
    producer = graph.producer(name)
    if producer is None or _up_to_one(producer) or scaled_by(producer) is not None:
        return False
    return read_by_it_alone(graph, op, name)


def _lone_sigmoid(graph: TpuGraph, op: TpuConcat, name: str) -> bool:
    """Whether it reaches up to one and the concatenation alone reads it, whose threshold it gets in the end."""
    return _up_to_one(graph.producer(name)) and read_by_it_alone(graph, op, name)


def scaled_by_their_readers(graph: TpuGraph) -> set[str]:
    """Parts of concatenations that have the program's scales on the cv18xx as long as nothing else reads any of them.

    The compiler gives a sigmoid the concatenation's threshold where that is so, and 1 where it is not.
    """
    return {
        name
        for op in graph.ops
        if isinstance(op, TpuConcat) and any(_lone_sigmoid(graph, op, each) for each in op.inputs)
        if all(read_by_it_alone(graph, op, each) for each in op.inputs)
        for name in op.inputs
    }


def _root(groups: dict[str, str], name: str) -> str:
    while groups[name] != name:
        name = groups[name]
    return name


def _join(groups: dict[str, str], one: str, other: str) -> None:
    groups[_root(groups, one)] = _root(groups, other)
