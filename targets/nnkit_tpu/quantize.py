"""From the float graph to the Program: precisions, formats, integer parameters; and back to the compiler's input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.defaults import HEADROOM
from nnkit.errors import InternalError
from nnkit.program import Float, Format, Pixels, Program, Tensor
from nnkit.program.formats import Affine
from nnkit_tpu.arithmetic import (
    activation_table,
    constant_format,
    convolution_weights,
    joint_multipliers,
    multiplier_and_shift,
    requant,
    requant_in_two_steps,
    round_half_away,
)
from nnkit_tpu.casts import becomes_integers
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.compiler_thresholds import Threshold
from nnkit_tpu.integer_parameters import IntegerOperands, IntegerTable, IntegerWeights, Requant, Rounding, ScaledSum
from nnkit_tpu.lifted import asked_mode, computed_mode
from nnkit_tpu.program import (
    Cast,
    Mode,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuEmbedding,
    TpuGraph,
    TpuGroupNorm,
    TpuInterp,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
    TpuUpsample,
)
from nnkit_tpu.recurrent import TpuRecurrent
from nnkit_tpu.reductions import reduced_in_integers
from nnkit_tpu.scores import gives_scores, has_integers, masks_scores
from nnkit_tpu.thresholds import thresholds
from nnkit_tpu.unlike_sums import MOST_UNLIKE, adds_unlike_ranges, meets_an_unlike_sum

PROGRAM_CLASSES: tuple[type, ...] = (
    *(TpuConv, TpuDeconv, TpuMatMul, TpuPool, TpuBinary, TpuConcat, TpuSlice, TpuReshape, TpuPermute),
    *(TpuScale, TpuActivation, TpuSoftmax, TpuUpsample, TpuInterp, TpuPad, TpuReduce, TpuLayerNorm, TpuGroupNorm),
    *(TpuEmbedding, TpuRecurrent),
    *(Cast, Requant, ScaledSum, IntegerWeights, IntegerOperands, IntegerTable),
)

F16_LARGEST = 65504.0
_FORMATS: Mapping[Mode, Float] = {"F16": Float(16), "BF16": Float(32), "F32": Float(32)}
_SLOW_REFLECTION = ("bm1684x",)
"""Chips on which reflected padding takes longer in INT8 than in F16, with the casts (a network with six of them takes
144,307 cycles instead of 64,065); on the bm1688 it is 57,742 instead of 62,277."""

_TABLES = (
    *("sigmoid", "silu", "hard_sigmoid", "hard_swish", "tanh", "exp", "sqrt"),
    *("gelu", "gelu_by_tanh", "erf", "elu", "softplus", "mish", "log"),
)


@dataclass(frozen=True)
class Precision:
    """mode: of the whole network. quant_input: its inputs are stored integers already (INT8 only).

    pixels: formats of the inputs that are taken as pixels.
    """

    chip: str
    mode: Mode
    quant_input: bool = False
    pixels: Mapping[str, Pixels] = field(default_factory=dict)

    @property
    def high(self) -> Mode:
        """The precision of `_hp` layers, and of what has no INT8 form."""
        return "BF16" if self.chip in CV_CHIPS else "F16"


def to_program(graph: TpuGraph, ranges: Mapping[str, ValueRange], precision: Precision) -> Program:
    """The quantised program. Raises ModelError for tensors without a calibrated range (INT8)."""
    chosen = thresholds(graph, ranges, always_signed=precision.chip in CV_CHIPS) if precision.mode == "INT8" else {}
    notes: list[str] = []
    formats: dict[str, Format] = {}
    for name in graph.inputs:
        stored = _stored(chosen[name]) if precision.quant_input and chosen else Float(32)
        formats[name] = precision.pixels.get(name, stored)
    ops: list[TpuOp] = []
    largest = _largest_seen(graph, ranges)
    modes: dict[str, Mode] = dict.fromkeys(graph.inputs, "F32")
    for op in graph.ops:
        from_bf16 = precision.high == "F16" and modes[op.inputs[0]] == "BF16"  # which is not cast to F16
        floating = isinstance(formats[op.inputs[0]], Float) and not from_bf16
        asked, reason = _mode(op, floating, graph, precision, chosen)
        if isinstance(op, TpuRecurrent) and (
            modes[op.inputs[0]] == "F16" or _read_in_f16(op, graph, precision, chosen)
        ):  # no code casts F16 to BF16, nor back
            asked = "F16"
        if isinstance(op, TpuReshape) and from_bf16:
            asked = "BF16"  # the compiler reshapes what is there, and casts behind it
        if asked == "INT8" and any(
            modes[name] == "F16" and not becomes_integers(_stored(chosen[name]), "F16") for name in op.inputs
        ):
            asked, reason = "F16", "it reads values in F16 that are too small for a factor in F16 to integers"
        beyond = _beyond_f16(op, largest) if asked == "F16" else 0.0
        if beyond:
            asked, reason = "F32", f"its values reach {beyond:,.0f}, and float16 ends at {F16_LARGEST:,.0f}"
        shape = graph.tensors[op.inputs[0]].shape
        mode = computed_mode(op, asked, precision.chip, [n for n, m in modes.items() if m == "F32"], shape)
        if reason:
            notes.append(f"{op.name} runs in {mode}: {reason}")
        modes[op.output] = mode
        formats[op.output] = _stored(chosen[op.output]) if mode == "INT8" else _FORMATS[mode]
        casts = tuple(_cast(name, formats[name], mode, modes[name], chosen, precision.chip) for name in op.inputs)
        known = ranges.get(op.range_of or op.output)
        magnitude = known.max_abs if known is not None else 0.0
        placed = replace(op, mode=mode, casts=casts, magnitude=magnitude, beyond_f16=beyond > 0.0)
        ops.append(_with_integers(placed, formats[op.output], shape, precision.chip) if mode == "INT8" else placed)
    tensors = {name: _tensor(graph.tensors[name], formats[name]) for name in graph.tensors}
    return Program(graph.name, tensors, tuple(ops), graph.inputs, graph.outputs, "nnkit_tpu.arithmetic", tuple(notes))


def _largest_seen(graph: TpuGraph, ranges: Mapping[str, ValueRange]) -> dict[str, float]:
    """The largest magnitude that calibration saw of each value."""
    sources = dict.fromkeys(graph.inputs, "") | {op.output: op.range_of for op in graph.ops}
    known = {name: ranges.get(source or name) for name, source in sources.items()}
    return {
        name: max(abs(seen.observed_low), abs(seen.observed_high)) for name, seen in known.items() if seen is not None
    }


def _beyond_f16(op: TpuOp, largest: Mapping[str, float]) -> float:
    """The largest magnitude of what an op reads or gives, where F16 may not hold it; else 0.

    largest: as seen; values that were not may be larger by as much as ranges of 16-bit integers are widened by.
    """
    reach = max(largest.get(name, 0.0) for name in (*op.inputs, op.output))
    return reach if reach * HEADROOM > F16_LARGEST else 0.0


def graph_of(program: Program) -> TpuGraph:
    """The ops of a program as the emitter and the planner read them."""
    tensors = {n: TpuTensor(n, (1, *t.shape), t.format) for n, t in program.tensors.items()}
    ops = tuple(op for op in program.ops if isinstance(op, TpuOp))
    return TpuGraph(program.name, tensors, ops, program.inputs, program.outputs)


def table_ranges(graph: TpuGraph, ranges: Mapping[str, ValueRange], chip: str) -> dict[str, ValueRange]:
    """What the calibration table states for every tensor of an INT8 network: the thresholds of `to_program`.

    Raises ModelError for tensors without a calibrated range.
    """
    chosen = thresholds(graph, ranges, always_signed=chip in CV_CHIPS)
    return {name: each.as_range() for name, each in chosen.items()}


def other_modes(program: Program, mode: Mode) -> dict[str, str]:
    """The qtable: ops that another precision than the network's is asked for, by output.

    In an INT8 network with layer normalisation the sums and matrix products that stay in INT8 are stated, too: the
    compiler knows some families of transformers by their shape and takes sums to F16 that the qtable is silent about.
    """
    lifted: Mode = "F16" if mode == "INT8" else mode  # what the compiler computes in float32 was asked for in this
    recognised = mode == "INT8" and any(isinstance(op, TpuLayerNorm) for op in program.ops)
    asked = {
        op.output: asked_mode(op, lifted) if op.mode == "F32" else op.mode
        for op in program.ops
        if isinstance(op, TpuOp) and not (isinstance(op, TpuReshape) and op.inputs[0] in program.inputs)
    }
    stated = {
        op.output
        for op in program.ops
        if recognised and (isinstance(op, TpuMatMul) or (isinstance(op, TpuBinary) and op.function == "add"))
    }
    return {name: each for name, each in asked.items() if each != mode or name in stated}


def _stored(threshold: Threshold) -> Affine:
    steps = 127.0 if threshold.signed else 255.0
    return Affine(8, (threshold.value / steps,), (0,), signed=threshold.signed)


def _cast(
    name: str, source: Format, mode: Mode, source_mode: Mode, chosen: Mapping[str, Threshold], chip: str
) -> Cast:
    if mode == "INT8":
        to_even = chip in CV_CHIPS and source_mode == "BF16"
        return Cast(
            source, _stored(chosen[name]), precision=source_mode, rounding="half_even" if to_even else "half_away"
        )
    via = _stored(chosen[name]) if isinstance(source, Pixels) and chosen else None
    cuts_off = chip in CV_CHIPS and mode == "BF16" and source_mode == "F32" and isinstance(source, Float)
    return Cast(source, _FORMATS[mode], via, rounding="cut_off" if cuts_off else "half_away")


def _tensor(tensor: TpuTensor, stored: Format) -> Tensor:
    low, high = (0, 0) if isinstance(stored, Float) else (stored.qmin, stored.qmax)
    return Tensor(tensor.name, tensor.shape[1:], stored, low, high)


def _mode(
    op: TpuOp,
    floating: bool,
    graph: TpuGraph,
    precision: Precision,
    chosen: Mapping[str, Threshold],
) -> tuple[Mode, str]:
    """The precision that one op is asked for, and the reason where it has no INT8 form, and no tag.

    floating: whether what only moves values moves floats. chosen: thresholds, of an INT8 network.
    """
    if precision.mode != "INT8":
        return precision.mode, ""
    if "hp" in op.tags:
        return precision.high, ""
    if isinstance(op, TpuReshape) and op.inputs[0] in graph.inputs and floating and precision.chip not in CV_CHIPS:
        return "F32", ""  # the compiler makes integers of it behind the reshape
    floating = floating and op.inputs[0] not in graph.inputs
    match op:
        case TpuPermute() if _read_as_integers(op, graph, precision, chosen):
            return "INT8", ""
        case TpuSlice() | TpuReshape() | TpuPermute() | TpuUpsample():
            return (precision.high if floating else "INT8"), ""
        case TpuReduce() if reduced_in_integers(op, graph.tensors[op.inputs[0]].shape, precision.chip):
            return "INT8", ""
        case TpuInterp() | TpuReduce() | TpuLayerNorm() | TpuGroupNorm() | TpuEmbedding() | TpuRecurrent():
            reason = "it has no INT8 form"
        case TpuPad() if op.method == "reflect" and precision.chip in _SLOW_REFLECTION:
            reason = "in INT8 it takes longer"
        case TpuPad() if op.method == "edge" and precision.chip not in CV_CHIPS:
            reason = "it has no INT8 form"
        case TpuSoftmax() if precision.chip in CV_CHIPS:
            reason = "it has no INT8 form"
        case TpuActivation() if op.function == "clip":
            reason = "it has no INT8 form"
        case TpuBinary() if op.function in ("min", "max"):
            reason = "in INT8 the compiler compares operands of different scales as they are"
        case TpuBinary() if op.function == "div":
            reason = "it has no INT8 form"
        case TpuSoftmax() if not has_integers(op, graph):
            reason = "the compiler computes it in floating point"
        case TpuMatMul() if gives_scores(op, graph, precision.chip):
            reason = "the compiler gives a softmax 16 bits of it"
        case TpuMatMul() if meets_an_unlike_sum(op, graph, precision.chip, chosen):
            reason = "the compiler gives a sum in floating point 16 bits of it"
        case TpuBinary() | TpuMatMul() if _computed_in_float(op, graph, precision.chip):
            reason = "the compiler computes it in floating point"
        case TpuBinary() if masks_scores(op, graph, precision.chip):
            reason = "a softmax alone reads it, and in INT8 a mask leaves the scores few levels"
        case TpuBinary() if adds_unlike_ranges(op, chosen):
            reason = f"the compiler adds ranges over {MOST_UNLIKE} times apart in floating point"
        case _:
            return "INT8", ""
    of_its_own = isinstance(op, TpuRecurrent) and op.cell == "lstm" and precision.chip == "bm1684x"
    mode: Mode = "BF16" if of_its_own else precision.high  # an LSTM in F16 would be one in float32
    if isinstance(op, TpuGroupNorm):
        mode = "F32"
    return mode, reason


def _read_in_f16(op: TpuOp, graph: TpuGraph, precision: Precision, chosen: Mapping[str, Threshold]) -> bool:
    """Whether a layer that runs in F16 reads the op's result, or what reshapes make of it."""
    for reader in graph.consumers(op.output):
        if isinstance(reader, TpuReshape):
            if _read_in_f16(reader, graph, precision, chosen):
                return True
        elif _computed(reader, graph, precision, chosen) == "F16":
            return True
    return False


def _computed(op: TpuOp, graph: TpuGraph, precision: Precision, chosen: Mapping[str, Threshold]) -> Mode:
    """The precision that a layer computes in, whatever it reads."""
    asked, _ = _mode(op, False, graph, precision, chosen)
    return computed_mode(op, asked, precision.chip, (), graph.tensors[op.inputs[0]].shape)


def _read_as_integers(op: TpuOp, graph: TpuGraph, precision: Precision, chosen: Mapping[str, Threshold]) -> bool:
    """Whether layers with weights in INT8 alone read what the op moves (of an input of the network: or what reshapes
    make of it), so that half the bytes can be moved."""

    def reads_integers(reader: TpuOp) -> bool:
        if isinstance(reader, TpuReshape) and graph.reshaped_from(op.inputs[0]) in graph.inputs:
            return _read_as_integers(reader, graph, precision, chosen)
        weighs = isinstance(reader, TpuConv | TpuMatMul) and reader.weight is not None
        return weighs and _mode(reader, False, graph, precision, chosen)[0] == "INT8"

    readers = graph.consumers(op.output)
    return bool(readers) and op.output not in graph.outputs and all(map(reads_integers, readers))


def _computed_in_float(op: TpuBinary | TpuMatMul, graph: TpuGraph, chip: str) -> bool:
    """Whether the compiler computes the INT8 op in floating point, as its lowered programs show."""
    is_cv = chip in CV_CHIPS
    if isinstance(op, TpuMatMul):
        return is_cv and op.weight is None
    if not is_cv:
        return op.function == "sub"
    if op.constant is not None:
        return op.constant.size > 1 or op.function in ("add", "sub")
    return op.function == "sub" and graph.tensors[op.inputs[0]].shape != graph.tensors[op.inputs[1]].shape


def _with_integers(op: TpuOp, stored: Format, shape: Sequence[int], chip: str) -> TpuOp:
    """The op with its integer parameters; ops without any compute on real values and round once.

    shape: of its first input.
    """
    read = [each.target for each in op.casts]
    if not isinstance(stored, Affine) or not all(isinstance(each, Affine) for each in read):
        raise InternalError("an INT8 op reads and gives integers", where=op.name)
    sources = [each for each in read if isinstance(each, Affine)]
    source, scale = sources[0], stored.scale[0]
    is_cv = chip in CV_CHIPS
    rounding: Rounding = "two_steps" if is_cv else "half_up"
    match op:
        case TpuConv():
            weights = convolution_weights(op.weight, op.bias, source, stored, rounding=rounding, keeps_whole=True)
            return replace(op, integer=weights)
        case TpuDeconv():
            away: Rounding = "two_steps" if is_cv else "half_away"
            return replace(op, integer=convolution_weights(op.weight, op.bias, source, stored, rounding=away))
        case TpuMatMul() if op.weight is not None:
            weights = convolution_weights(
                op.weight, op.bias, source, stored, rounding=rounding, per_channel=False, channel_axis=1
            )
            return replace(op, integer=weights)
        case TpuMatMul():
            factor = source.scale[0] * sources[1].scale[0] / scale
            return replace(op, integer=requant(factor, 32, "half_up"))
        case TpuPool() if op.function == "average":
            factor = source.scale[0] / (scale * op.window.kernel_h * op.window.kernel_w)
            if is_cv:
                multipliers, shift = joint_multipliers(np.array([factor]))
                return replace(op, integer=Requant(np.array(multipliers), np.array([shift]), "half_up"))
            return replace(op, integer=requant(factor, 8, "half_up"))
        case TpuReduce() if op.function in ("mean", "sum"):
            multipliers, shift = joint_multipliers(np.array([source.scale[0] / (scale * op.divisor(shape))]))
            return replace(op, integer=Requant(np.array(multipliers), np.array([shift]), "half_up"))
        case TpuBinary() if len(op.inputs) == 2 and op.function in ("add", "sub"):
            if is_cv:
                multipliers, shift = joint_multipliers(np.array([each.scale[0] / scale for each in sources]))
                together = IntegerOperands(multipliers, (shift,) * len(sources), "half_up", joint=True)
                return replace(op, integer=together)
            return replace(op, integer=_operands(sources, scale))
        case TpuBinary() if op.constant is not None and op.constant.size > 1 and op.function == "add" and not is_cv:
            return replace(op, integer=_operands([source, constant_format(op.constant, factor=False)], scale))
        case TpuBinary() if op.constant is not None and op.constant.size > 1 and op.function == "mul" and not is_cv:
            constant = constant_format(op.constant, factor=True)
            return replace(op, integer=requant(source.scale[0] * constant.scale[0] / scale, 8, "half_up"))
        case TpuBinary() if len(op.inputs) == 2 and op.function == "mul":
            factor = source.scale[0] * sources[1].scale[0] / scale
            return replace(op, integer=requant_in_two_steps(factor) if is_cv else requant(factor, 8, "half_up"))
        case TpuConcat() if any(each != stored for each in sources):
            return replace(op, integer=_parts(sources, stored) if is_cv else _operands(sources, scale))
        case TpuConcat():
            ones = (1,) * len(sources)
            return replace(op, integer=IntegerOperands(ones, (0,) * len(sources), "half_up"))
        case TpuActivation() if op.function in _TABLES:
            # The cv18xx have one table for Gelu, by the error function, also where it is written with tanh.
            by_tanh = op.function == "gelu_by_tanh" and chip in CV_CHIPS
            function = replace(op, function="gelu") if by_tanh else op
            return replace(op, integer=IntegerTable(activation_table(function, source, stored)))
        case TpuActivation() if op.function == "leaky_relu" and op.slopes is not None:
            return replace(op, integer=_slope(float(op.slopes[0]), is_cv))
        case TpuActivation() if op.function == "prelu" and op.slopes is not None:
            return replace(op, integer=_slopes(op.slopes.astype(np.float64), is_cv))
        case _:
            return op


def _operands(sources: list[Affine], scale: float) -> IntegerOperands:
    """A multiplier of 8 bits and a shift for every operand."""
    pairs = [multiplier_and_shift(each.scale[0] / scale, 8, positive=True) for each in sources]
    return IntegerOperands(tuple(int(m[0]) for m, _ in pairs), tuple(int(s[0]) for _, s in pairs), "half_up")


def _parts(sources: list[Affine], stored: Affine) -> IntegerOperands:
    """Parts of a concatenation on the cv18xx: multipliers that are cut off, none where nothing changes."""
    stages = [
        (((1,), 0) if each == stored else joint_multipliers(np.array([each.scale[0] / stored.scale[0]])))
        for each in sources
    ]
    return IntegerOperands(tuple(m[0] for m, _ in stages), tuple(s for _, s in stages), "half_up")


def _slope(slope: float, is_cv: bool) -> Requant:
    """One slope: a factor in 8 bits; on the cv18xx its multiplier is cut off."""
    if not is_cv:
        return requant(slope, 8, "half_up")
    (multiplier,), shift = joint_multipliers(np.array([abs(slope)]))
    return Requant(np.array([multiplier if slope >= 0 else -multiplier]), np.array([shift]), "half_up")


def _slopes(slopes: np.ndarray, is_cv: bool) -> IntegerWeights:
    """Slopes of 8 bits with one shift for all, the largest that holds the steepest; only the cv18xx round."""
    _, shift = joint_multipliers(np.abs(slopes).max(keepdims=True))
    real = slopes * 2.0**shift
    integers = np.clip(round_half_away(real) if is_cv else np.trunc(real), -128, 127)
    return IntegerWeights(
        integers.astype(np.int16), None, Requant(np.ones(1, np.int64), np.array([shift]), "half_up")
    )
