"""Small last layers of an INT8 network in F16 or BF16, and last activations.

What rounding to 8 bits takes from an output nothing behind it makes up for, and the threshold of an output, of
which calibration sees few numbers, is either exceeded or coarse. A last layer with few weights and few products
costs hardly anything in 16 bits. The cv18xx move its weights twice: there it is for outputs alone whose range got
much room.
"""

from __future__ import annotations

from nnkit.calibrate.room import widened_values
from nnkit.calibrate.stats import CalibrationStats
from nnkit.defaults import FLOAT_OUTPUTS
from nnkit.program import Program, macs
from nnkit.target import Quantization
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.higher_precision import gets, in_higher_precision
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuActivation, TpuConv, TpuGraph, TpuMatMul, TpuOp, TpuReshape

_MOST_WEIGHTS = 2048  # of a layer; each takes two bytes
_MOST_PRODUCTS = 0.005  # of the network's, where weights serve many places; the chips make half as many at a time
_FAST = ("bm1684x",)
"""Chips on which a last layer on images, and a last sigmoid or tanh, take no longer in F16: such activations changed
three networks from 64,325, 2,964 and 5,849 to 64,062, 2,958 and 5,602 cycles; the last convolution of a U-Net one
from 17,442 to 17,324, and on the bm1688 from 29,492 to 30,076. A last tanh on a sequence, which nothing hides, made
4,376 cycles 4,549: activations are taken on images alone."""

_WIDE = 1.5
"""Factor of room in the range of an output, from which on the cv18xx compute its layer in BF16."""

_MOST_MOVED = 0.005  # weights of that layer, as a share of all weights and values of the network


def can_float_outputs(options: TpuOptions) -> bool:
    """Whether outputs are made of 8 bits, and not asked for so."""
    return options.precision == "int8" and not options.quant_output


def floats_outputs(quantization: Quantization, options: TpuOptions) -> bool:
    """Whether the recipe asks for it; one that leaves method and corrections to us does."""
    return can_float_outputs(options) and gets(FLOAT_OUTPUTS, quantization)


def with_float_outputs(
    graph: TpuGraph, program: Program, statistics: CalibrationStats, chip: str
) -> tuple[TpuGraph, tuple[str, ...]]:
    """The graph that `program` was made of, with its small last layers in F16 or BF16; and notes that name these."""
    on_cv, is_fast = chip in CV_CHIPS, chip in _FAST
    made = {op.output: op for op in program.ops if isinstance(op, TpuOp)}
    most_products = _MOST_PRODUCTS * sum(macs(op, program) for op in made.values()) if is_fast else 0.0
    moved = sum(op.weight_bytes() + program.tensors[op.output].elements for op in made.values())
    most_weights = min(_MOST_WEIGHTS, _MOST_MOVED * moved) if on_cv else _MOST_WEIGHTS
    wide = {each.name for each in widened_values(statistics) if each.factor >= _WIDE}
    chosen: dict[str, str] = {}
    for name in graph.outputs:
        op = made.get(name)
        while isinstance(op, TpuReshape):
            op = made.get(op.inputs[0])
        if op is None or (name not in wide if on_cv else _behind_bf16(op, made)):
            continue
        is_small = _is_small(op, most_weights) and macs(op, program) <= max(most_products, _weights(op))
        sides = program.tensors[op.output].shape[-2:]
        is_image = len(sides) == 2 and min(sides) > 1
        if is_small or (is_fast and is_image and _ends_in(graph, op)):
            chosen[op.output] = f"{op.name} runs in {'BF16' if on_cv else 'F16'}: its results are outputs"
    return in_higher_precision(graph, chosen), tuple(chosen.values())


def _is_small(op: TpuOp, most_weights: float) -> bool:
    return op.mode == "INT8" and "cpu" not in op.tags and 0 < _weights(op) <= most_weights


def _weights(op: TpuOp) -> int:
    return op.weight.size if isinstance(op, TpuConv | TpuMatMul) and op.weight is not None else 0


def _ends_in(graph: TpuGraph, op: TpuOp) -> bool:
    """Whether the op is a sigmoid or tanh that nothing else reads."""
    known = isinstance(op, TpuActivation) and op.function in ("sigmoid", "tanh") and "cpu" not in op.tags
    return known and op.mode == "INT8" and not graph.consumers(op.output)


def _behind_bf16(op: TpuOp, made: dict[str, TpuOp]) -> bool:
    """Whether what the layer reads is in BF16, which no code casts to F16."""
    before = made.get(op.inputs[0])
    return before is not None and before.mode == "BF16"
