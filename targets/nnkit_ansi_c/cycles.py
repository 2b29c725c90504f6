"""Cycles of each layer before anything is compiled: an estimate, marked as such wherever it is shown.

    instructions of a layer = sum over what it does of (how often) * (instructions each)

What a layer does is counted from its shape (`Work`): multiply-accumulates, values that its windows gather, outputs,
pixels, rows, inputs, and the call. What each takes is fitted to exact counts under QEMU of six networks, by kind of
layer, type of number and core (`cycle_costs.py`, written by `python -m benchmarks.mcu_cycles`). A cycle is counted
for each instruction: waits for memory and for branches come on top. A layer of a kind that was not measured has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from nnkit.program import OpBase, Program, macs
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineMove,
    AffinePool,
    AffineSoftmax,
)
from nnkit.report.html.words import milliseconds
from nnkit_ansi_c.cycle_costs import COSTS, ERRORS
from nnkit_ansi_c.ops import FloatLayer

FEATURES: Mapping[str, tuple[str, ...]] = {
    "convolution": ("macs", "gathered", "outputs", "positions", "visits"),
    "pointwise": ("macs", "gathered", "outputs", "positions"),
    "transposed": ("macs", "gathered", "outputs", "positions"),
    "depthwise": ("macs", "outputs", "positions", "inputs", "rows"),
    "fully connected": ("macs", "outputs"),
    "max pool": ("gathered", "outputs", "positions", "visits", "rows"),
    "average pool": ("gathered", "outputs", "positions", "visits"),
    "softmax": ("outputs", "calls"),
    "sum": ("outputs",),
    "clamp": ("outputs",),
}
"""By kind of layer, what its instructions are counted by."""

_FLOAT_KINDS = {
    "MaxPool": "max pool",
    "AveragePool": "average pool",
    "GlobalAveragePool": "average pool",
    "Softmax": "softmax",
    "Add": "sum",
    "Sub": "sum",
    "Relu": "clamp",
    "Clip": "clamp",
}
_AFFINE_KINDS: Mapping[type, str] = {AffineSoftmax: "softmax", AffineAdd: "sum", AffineActivation: "clamp"}
CLOCKS_MHZ: Mapping[str, float] = {"cortex-m4": 168.0, "rv32imac": 108.0}
"""By core the clock that milliseconds rest on where the recipe states none: of an STM32F407, of a GD32VF103."""

_FREE = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")


@dataclass(frozen=True)
class Work:
    """What a layer does. kind: of `FEATURES`; numbers: `int8`, `int16` or `float32`, what is multiplied.

    macs: multiply-accumulates, of maps and channels up to the blocks that kernels compute. gathered: values that
    windows read, a channel of a group once. positions: pixels of the result. visits: taps of all windows, of one
    channel. rows: lines of all maps of the result.
    """

    kind: str
    numbers: str
    macs: int
    gathered: int
    outputs: int
    positions: int
    visits: int
    rows: int
    inputs: int
    calls: int = 1

    @property
    def counts(self) -> tuple[int, ...]:
        """In the order of `FEATURES`."""
        return tuple(getattr(self, name) for name in FEATURES[self.kind])


def work_of(op: OpBase, program: Program) -> Work | None:
    """What a layer does; None where no measurement covers its kind, or it reads no value."""
    if not op.inputs:
        return None
    source, result = program.tensors[op.inputs[0]].shape, program.tensors[op.output].shape or (1,)  # one number
    outputs, count = prod(result), macs(op, program)
    positions = prod(result[1:]) if len(result) == 3 else outputs // result[-1]
    channels = outputs // positions
    rows = channels * (result[1] if len(result) == 3 else 1)
    kind, taps, groups = _kind(op, source)
    numbers = _numbers(op, program)
    gathered = outputs * taps
    if kind in ("convolution", "transposed"):
        products = count // outputs
        depthwise = groups > 1 and groups == source[0] and groups == channels
        if kind == "convolution" and depthwise:
            kind = "depthwise"
        elif kind == "convolution" and positions == 1:
            kind = "fully connected"
        elif kind == "convolution" and taps == 1 and groups == 1 and source[1:] == result[1:]:
            # Integers of a pixel are columns as they lie where they fill words.
            kind = "pointwise" if numbers == "float32" or products % 4 == 0 else kind
        gathered = positions * products * groups
        if kind != "depthwise":
            count = positions * groups * _blocks(channels // groups, numbers) * _depth(products, numbers)
    if kind not in FEATURES:
        return None
    return Work(kind, numbers, count, gathered, outputs, positions, positions * taps, rows, prod(source))


def _blocks(maps: int, numbers: str) -> int:
    """Maps that a kernel computes: of floats eight side by side, of integers two."""
    block = 8 if numbers == "float32" else 2
    return -(-maps // block) * block


def _depth(products: int, numbers: str) -> int:
    """Products of an output: those of integers are packed by four."""
    return products if numbers == "float32" else -(-products // 4) * 4


def moves_nothing(op: OpBase) -> bool:
    """Whether a layer is another look at its input, or a concatenation whose parts mostly lie in place."""
    if isinstance(op, FloatLayer):
        return op.op_type in (*_FREE, "Concat")
    return isinstance(op, AffineConcat) or (isinstance(op, AffineMove) and op.move == "reshape")


def estimated(program: Program, clock_mhz: float | None = None) -> Mapping[str, Any]:
    """By core the cycles of each layer, as JSON data; none for networks without a core that was measured.

    clock_mhz: of the processor; None takes that of `CLOCKS_MHZ`. `milliseconds`: of all layers at `clock_mhz`.
    `cycles`: of all layers; `layers`: of each, none where its kind was not measured; `not_estimated`: their names;
    `error`: the largest of a whole network that had no part in the fit.
    """
    works = {op.name: work_of(op, program) for op in program.ops if not moves_nothing(op)}
    told: dict[str, Any] = {}
    for core in dict.fromkeys(core for core, _, _ in COSTS):
        layers: dict[str, int | None] = {op.name: 0 for op in program.ops}
        for name, work in works.items():
            each = None if work is None else COSTS.get((core, work.numbers, work.kind))
            layers[name] = None if work is None or each is None else _sum(work, each)
        known = [cycles for cycles in layers.values() if cycles is not None]
        if any(known):
            numbers = {work.numbers for work in works.values() if work is not None}
            clock = clock_mhz or CLOCKS_MHZ[core]
            told[core] = {
                "cycles": sum(known),
                "milliseconds": round(sum(known) / clock / 1e3, 6),
                "clock_mhz": clock,
                "layers": layers,
                "not_estimated": [name for name, cycles in layers.items() if cycles is None],
                "error": max((ERRORS.get((core, each), 0.0) for each in numbers), default=0.0),
            }
    return told


def estimates_of(program: Program, clock_mhz: float | None = None) -> Mapping[str, Any]:
    """What the dry run tells: all cores, a line for people, and the layers of the first core."""
    told = estimated(program, clock_mhz)
    if not told:
        return {}
    core = next(iter(told))
    return {
        "cycles": told,
        "line": _line(told),
        "layers_are": f"estimated cycles on {core}",
        "layers": told[core]["layers"],
    }


def duration(time_ms: float) -> str:
    """`12.3 ms`; in nanoseconds where it is less than a microsecond."""
    return f"{milliseconds(time_ms, ',')} ms" if time_ms >= 0.001 else f"{1e6 * time_ms:.3g} ns"


def _line(told: Mapping[str, Any]) -> str:
    parts = []
    for core, each in told.items():
        layers, missing = len(each["layers"]), len(each["not_estimated"])
        of = f" for {layers - missing} of {layers} layers, the others have no estimate" if missing else ""
        time = f"{duration(each['milliseconds'])} at {each['clock_mhz']:g} MHz"
        error = f"up to {100 * each['error']:.0f} % off"
        parts.append(f"{core} about {each['cycles']:,} ({time}; {error}){of}")
    return f"cycles, estimated as one an instruction: {'; '.join(parts)}"


def _sum(work: Work, costs: Mapping[str, float]) -> int:
    return round(sum(int(getattr(work, feature)) * cost for feature, cost in costs.items()))


def _kind(op: OpBase, source: tuple[int, ...]) -> tuple[str, int, int]:
    """The kind, a window's taps, a convolution's groups."""
    if isinstance(op, FloatLayer):
        return _float_kind(op, source)
    if isinstance(op, AffineConv):
        taps = op.window.kernel_h * op.window.kernel_w
        return ("transposed" if op.transposed else "convolution"), taps, op.groups
    if isinstance(op, AffinePool):
        return f"{op.pool} pool", op.window.kernel_h * op.window.kernel_w, 1
    return _AFFINE_KINDS.get(type(op), op.kind), 0, 1


def _float_kind(op: FloatLayer, source: tuple[int, ...]) -> tuple[str, int, int]:
    from onnx import load_model_from_string

    if op.op_type in ("Conv", "ConvTranspose", "Gemm"):
        proto = load_model_from_string(op.graph).graph
        node = proto.node[0]
        groups = next((each.i for each in node.attribute if each.name == "group"), 1)
        weight = next((each.dims for each in proto.initializer if each.name == node.input[1]), ())
        return ("transposed" if op.op_type == "ConvTranspose" else "convolution"), prod(weight[2:]), groups
    if op.op_type in ("MaxPool", "AveragePool", "GlobalAveragePool"):
        node = load_model_from_string(op.graph).graph.node[0]
        kernel = next((list(each.ints) for each in node.attribute if each.name == "kernel_shape"), source[1:])
        return _FLOAT_KINDS[op.op_type], prod(kernel), 1
    return _FLOAT_KINDS.get(op.op_type, op.op_type), 0, 1


def _numbers(op: OpBase, program: Program) -> str:
    if isinstance(op, FloatLayer):
        return "float32"
    bits = program.tensors[op.inputs[0]].format.bits
    if isinstance(op, AffineConv) and op.weight_format.bits != bits:
        return f"a{bits}w{op.weight_format.bits}"
    return f"int{bits}"
