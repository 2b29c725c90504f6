"""What a ReLU gives on the cv18xx, moved to lie around zero where layers with weights alone read it.

These chips have no unsigned values: of what is nowhere negative 8 bits use 7. So the layer before adds a bias that
moves zero to the least stored integer, -128, and has no ReLU: what is below saturates there, as what is above the
range does at 127. The biases of what reads it give the rest back: what was taken away times the sum of their stored
weights. There are twice as many steps then, and exact zeros, for biases that most layers have anyway.

Zeros of padding would be others, so that only layers without it may read such a value, and what moves it. A
normalisation in BF16 has a bias that BF16 holds; the conversion to integers saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import InternalError
from nnkit.program import OpBase, Program, Tensor
from nnkit.program.formats import Affine, Float
from nnkit_tpu.bias_correction import weight_scales
from nnkit_tpu.integer_parameters import IntegerWeights
from nnkit_tpu.program import (
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReshape,
    TpuSlice,
    TpuUpsample,
)

Quantise = Callable[[TpuGraph], Program]
Weighted: TypeAlias = TpuConv | TpuMatMul
_STEPS, _LEAST, _MOST = 255, 128, 127
_CLOSE = 1e-5  # a scale to the one asked for, relative


def with_centred_relus(graph: TpuGraph, ranges: Mapping[str, ValueRange], quantise: Quantise) -> Program:
    """The program that `quantise` makes of the graph with such values moved; ranges: calibrated, by value.

    The formats of its tensors say by how much, so that what they stand for is what the network computes.
    """
    plain = quantise(graph)
    chains = _chains(graph, plain, ranges)
    moved, first = graph, plain
    while chains:
        moved = _moved(graph, chains)
        first = quantise(moved)
        scaled = [chain for chain in chains if _has_its_scale(first, chain)]
        if len(scaled) == len(chains):
            break
        chains = scaled
    if not chains:
        return plain
    program = quantise(_given_back(moved, chains, first))
    centres = {name: chain.centre for chain in chains for name in chain.held}
    tensors = {n: _centred(each, centres[n]) if n in centres else each for n, each in program.tensors.items()}
    return replace(program, tensors=tensors)


@dataclass(frozen=True, eq=False)
class _Chain:
    """A rectified value that `giver` computes; apart: a reshape and a ReLU behind that, where it is a normalisation.

    movers: what only moves it. readers: the layers in the end. centre: what its stored zero stands for.
    """

    giver: Weighted | TpuLayerNorm
    apart: tuple[TpuReshape, TpuActivation] | None
    movers: tuple[TpuOp, ...]
    readers: tuple[Weighted, ...]
    centre: float

    @property
    def within(self) -> float:
        """How far the stored integers reach."""
        return self.centre * _MOST / _LEAST

    @property
    def held(self) -> tuple[str, ...]:
        """The tensors that hold it moved."""
        reshaped = () if self.apart is None else (self.apart[0],)
        return tuple(op.output for op in (self.giver, *reshaped, *self.movers))


def _chains(graph: TpuGraph, plain: Program, ranges: Mapping[str, ValueRange]) -> list[_Chain]:
    """plain: the program of the graph as it is."""
    modes = {op.output: op.mode for op in plain.ops if isinstance(op, TpuOp)}
    chains, linear = list[_Chain](), set[str]()
    for op in graph.ops:
        known = ranges.get(op.range_of or op.output)
        if known is None or known.high <= 0:
            continue
        chain = _chain(graph, op, known.high * _LEAST / _STEPS, modes)
        if chain is not None and not _becomes_part(graph, chain.giver, linear):
            chains.append(chain)
            linear.add(chain.giver.output)
    return chains


def _chain(graph: TpuGraph, op: TpuOp, centre: float, modes: Mapping[str, str]) -> _Chain | None:
    """What begins with the value that the op gives, if it is one; modes: precisions by value."""
    if isinstance(op, Weighted):
        giver: Weighted | TpuLayerNorm | None = op if op.relu and modes[op.output] == "INT8" else None
        apart = None
        if isinstance(op, TpuMatMul) and op.weight is None:
            giver = None
    else:
        giver, apart = _normalised(graph, op)
        centre = _no_less_in_bf16(centre)
    reached = _reached(graph, op.output, modes) if giver is not None else None
    return None if giver is None or reached is None else _Chain(giver, apart, *reached, centre)


def _normalised(graph: TpuGraph, op: TpuOp) -> tuple[TpuLayerNorm | None, tuple[TpuReshape, TpuActivation] | None]:
    """A normalisation of rows without parameters that a ReLU alone reads through a reshape; and these two."""
    reshape = graph.producer(op.inputs[0])
    rows = graph.producer(reshape.inputs[0]) if isinstance(reshape, TpuReshape) else None
    if not (isinstance(op, TpuActivation) and isinstance(reshape, TpuReshape) and isinstance(rows, TpuLayerNorm)):
        return None, None
    alone = all(len(graph.consumers(n)) == 1 and n not in graph.outputs for n in (rows.output, reshape.output))
    plain = op.function == "relu" and rows.scale is None and rows.bias is None
    return (rows, (reshape, op)) if alone and plain else (None, None)


def _no_less_in_bf16(number: float) -> float:
    """The least number of BF16 that is not below this positive one."""
    bits = int(np.float32(number).view(np.uint32)) + 0xFFFF
    return float(np.uint32(bits & 0xFFFF0000).view(np.float32))


def _reached(
    graph: TpuGraph, name: str, modes: Mapping[str, str]
) -> tuple[tuple[TpuOp, ...], tuple[Weighted, ...]] | None:
    """What moves a value, and what reads it in the end; None where that is more than layers with weights."""
    movers, readers, left = list[TpuOp](), list[Weighted](), [name]
    while left:
        value = left.pop()
        if value in graph.outputs or not graph.consumers(value):
            return None
        for op in graph.consumers(value):
            if isinstance(op, Weighted) and _weighs(op, value) and modes[op.output] == "INT8":
                readers.append(op)
            elif _moves(op):
                movers.append(op)
                left.append(op.output)
            else:
                return None
    return tuple(movers), tuple(readers)


def _weighs(op: Weighted, value: str) -> bool:
    """Whether the op has weights for all that it reads, and reads no padding."""
    if isinstance(op, TpuMatMul):
        return op.weight is not None and op.inputs == (value,)
    return not op.window.has_padding


def _moves(op: TpuOp) -> bool:
    match op:
        case TpuReshape() | TpuPermute() | TpuSlice():
            return True
        case TpuUpsample():
            return not op.relu
        case TpuPad():
            return op.method != "constant"
        case TpuPool():
            return op.function == "max" and not op.window.has_padding and not op.relu
        case _:
            return False


def _becomes_part(graph: TpuGraph, giver: TpuOp, linear: Collection[str]) -> bool:
    """Whether, without its ReLU, the compiler would make one convolution of it and one in front of it or behind it.

    linear: what has no ReLU any more. A ReLU of either of two keeps them apart.
    """
    before = graph.producer(giver.inputs[0])
    pairs = [(before, giver), *((giver, reader) for reader in graph.consumers(giver.output))]
    return any(_are_one(graph, *pair, {*linear, giver.output}) for pair in pairs)


def _are_one(graph: TpuGraph, first: TpuOp | None, second: TpuOp, linear: Collection[str]) -> bool:
    if not isinstance(first, TpuConv) or not isinstance(second, TpuConv) or len(graph.consumers(first.output)) > 1:
        return False
    dense = all(op.group == 1 and not op.window.has_padding for op in (first, second))
    rectified = any(op.relu and op.output not in linear for op in (first, second))
    return dense and first.weight.shape[2:] == (1, 1) and not rectified


def _moved(graph: TpuGraph, chains: Sequence[_Chain]) -> TpuGraph:
    """The graph with what gives and moves such values changed, and with biases of zero where readers have none."""
    changed: dict[str, TpuOp] = {op.output: op for op in graph.ops}
    renamed: dict[str, str] = {}
    for chain in chains:
        changed[chain.giver.output] = _shifted(changed[chain.giver.output], graph, -chain.centre)
        for name in chain.held:
            changed[name] = replace(changed[name], within=chain.within)
        for reader in chain.readers:
            changed[reader.output] = _with_bias(changed[reader.output], 0.0)
        if chain.apart is not None:
            reshape, relu = chain.apart
            renamed[relu.output] = reshape.output
            del changed[relu.output]
    ops = tuple(
        replace(op, inputs=tuple(renamed.get(name, name) for name in op.inputs))
        for op in (changed[each.output] for each in graph.ops if each.output in changed)
    )
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in renamed}
    return replace(graph, ops=ops, tensors=tensors)


def _shifted(giver: TpuOp, graph: TpuGraph, by: float) -> TpuOp:
    if isinstance(giver, TpuLayerNorm):
        rows = graph.tensors[giver.output].shape[giver.axis :]
        return replace(giver, bias=np.full(rows, by, np.float32))
    given = _with_bias(giver, by)
    return replace(given, relu=False, relu_limit=-1.0) if isinstance(given, Weighted) else given


def _with_bias(op: TpuOp, more: float | NDArray[np.float64]) -> TpuOp:
    """A layer with weights with so much more bias: for all outputs or one by one."""
    if not isinstance(op, Weighted) or op.weight is None:
        return op
    channels = op.weight.shape[-1] if isinstance(op, TpuMatMul) else len(op.weight)
    bias = np.zeros(channels) if op.bias is None else op.bias.astype(np.float64)
    return replace(op, bias=(bias + more).astype(np.float32))


def _given_back(graph: TpuGraph, chains: Sequence[_Chain], program: Program) -> TpuGraph:
    """The graph with biases of readers, for their integer weights in `program`."""
    made = {op.output: op for op in program.ops}
    taken = {reader.output: chain.centre for chain in chains for reader in chain.readers}
    return replace(
        graph,
        ops=tuple(
            _with_bias(op, _sums(made[op.output], program) * taken[op.output]) if op.output in taken else op
            for op in graph.ops
        ),
    )


def _sums(op: OpBase, program: Program) -> NDArray[np.float64]:
    """What the real weights that stored ones stand for sum up to, by output channel."""
    scales = weight_scales(op, program) if isinstance(op, Weighted) else None
    if scales is None or not isinstance(op, Weighted) or not isinstance(op.integer, IntegerWeights):
        raise InternalError("a layer in INT8 has integer weights", where=op.name)
    whole = op.integer.weight.astype(np.float64)
    return np.asarray(whole.sum(axis=(1, 2, 3) if isinstance(op, TpuConv) else 0) * scales)


def _has_its_scale(program: Program, chain: _Chain) -> bool:
    """Whether stored integers reach as far as asked, on which the least one's being zero depends."""
    wanted = chain.within / _MOST
    read = {reader.output for reader in chain.readers}
    formats = [program.tensors[name].format for name in chain.held]
    formats += [c.target for op in program.ops if isinstance(op, TpuOp) and op.output in read for c in op.casts]
    scales = [each.scale[0] for each in formats if isinstance(each, Affine)]
    return bool(scales) and all(abs(scale - wanted) <= _CLOSE * wanted for scale in scales)


def _centred(tensor: Tensor, centre: float) -> Tensor:
    form = tensor.format
    return replace(tensor, format=replace(form, centre=centre)) if isinstance(form, Affine | Float) else tensor
