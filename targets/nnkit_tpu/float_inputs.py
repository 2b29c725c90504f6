"""First convolutions of a large INT8 network in F16, on what comes in as it is.

What rounding to 8 bits takes from an input and from the first weights goes through all of the network. A first
convolution has few weights, and a network of millions takes a hundred times as long as it: in F16 it costs next to
nothing there. The cv18xx have BF16, which keeps no more digits of a value than 8 bits do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nnkit.defaults import FLOAT_INPUTS
from nnkit.program import Program, macs
from nnkit.target import Quantization
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.higher_precision import gets, in_higher_precision
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import (
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuReshape,
    TpuSlice,
)

_FEWEST_WEIGHTS = 30_000
"""The network has for each output channel of these layers. In 24 builds of 18 networks with more (vgg11_bn,
mnasnet0_5, mobilenet_v2, resnet50 among them) F16 took -0.6 to 1.5 % more cycles, in twelve of nine with
fewer up to 13 %."""

_MOST_WEIGHTS = 0.005
"""These layers have, as a share of the network's; each takes two bytes. (alexnet's have 0.009: 3 % more cycles.)"""

_MOST_PRODUCTS = 0.1
"""These layers make, as a share of the network's; the chips make half as many at a time."""

_NONE = f"{FLOAT_INPUTS} changes nothing: no first convolution is small beside the network, or others read its input"


def can_float_inputs(options: TpuOptions) -> bool:
    """Whether inputs come as floats, and F16 keeps more of them than 8 bits do."""
    as_floats = not options.quant_input and not options.fuse_preprocess
    return options.precision == "int8" and options.chip not in CV_CHIPS and as_floats


def floats_inputs(quantization: Quantization, options: TpuOptions) -> bool:
    """Whether the recipe asks for it; one that leaves method and corrections to us does."""
    return can_float_inputs(options) and gets(FLOAT_INPUTS, quantization)


def with_float_inputs(graph: TpuGraph, program: Program, *, asked: bool) -> tuple[TpuGraph, tuple[str, ...]]:
    """The graph that `program` was made of, with its first convolutions in F16; and notes that name these.

    As it is where the network is not large beside them, or where something else reads an input, too; with `asked` a
    note says so.
    """
    made = {op.output: op for op in program.ops if isinstance(op, TpuOp)}
    first: set[str] = set()
    for name in graph.inputs:
        layers = _first_layers(graph, name)
        first.update(layers if all(_gains(made[each], graph, made) for each in layers) else ())
    convolutions = [made[name] for name in made if name in first and isinstance(made[name], TpuConv)]
    if not convolutions or not _is_small(convolutions, list(made.values()), program):
        return graph, (_NONE,) if asked else ()
    tagged = first - {name for name in first if isinstance(made[name], TpuReshape)}  # these keep what they are given
    return in_higher_precision(graph, tagged), tuple(
        f"{op.name} runs in F16: it reads an input" for op in convolutions
    )


def _first_layers(graph: TpuGraph, name: str) -> Collection[str]:
    """Outputs of the convolutions that read a value, and of what moves it for them; none where others read it."""
    layers: list[str] = []
    for op in graph.consumers(name):
        if "cpu" in op.tags or op.output in graph.outputs:
            return ()
        behind = _first_layers(graph, op.output) if _moves(op) else ()
        if not isinstance(op, TpuConv) and not behind:
            return ()
        layers += [op.output, *behind]
    return layers


def _gains(op: TpuOp, graph: TpuGraph, made: Mapping[str, TpuOp]) -> bool:
    """Whether the layer is in integers, and its result is not read as integers and in floating point.

    The one of a network whose patches a normalisation and a sum read cost 2 % (260,597 -> 265,845 cycles).
    """
    readers = {made[reader.output].mode == "INT8" for reader in graph.consumers(op.output)}
    return _moves(op) or (op.mode == "INT8" and len(readers) == 1)


def _moves(op: TpuOp) -> bool:
    return isinstance(op, TpuPad | TpuPermute | TpuReshape | TpuSlice)


def _is_small(layers: list[TpuOp], network: list[TpuOp], program: Program) -> bool:
    weights, all_weights = (sum(_weights(op) for op in ops) for ops in (layers, network))
    products, all_products = (sum(macs(op, program) for op in ops) for ops in (layers, network))
    channels = sum(program.tensors[op.output].shape[0] for op in layers)
    is_large = all_weights >= _FEWEST_WEIGHTS * channels
    return is_large and weights <= _MOST_WEIGHTS * all_weights and products <= _MOST_PRODUCTS * all_products


def _weights(op: TpuOp) -> int:
    return op.weight.size if isinstance(op, TpuConv | TpuDeconv | TpuMatMul) and op.weight is not None else 0
