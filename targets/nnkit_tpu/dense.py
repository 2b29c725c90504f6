"""Fully connected layers: which of them a chip computes sooner as convolutions.

The compiler takes a layer on a vector as a matrix product, which streams its weights and writes vectors in one piece,
but works on global memory: what it reads is stored and loaded again. As a convolution over one window it stays in
local memory with its neighbours and has weights by channel; a vector that leaves local memory is then written value
by value. Layers that follow one another are judged together by modelled cycles, whose rates were measured in the
compiler's simulator: small layers, layers in the midst of a network, and layers on whole images become convolutions,
the wide last layers of classifiers stay products.

On the cv18xx, whose cycles nobody tells, bytes are counted. A convolution has a multiplier and a shift for each
output, 5 bytes more than a product has, and the more accurate weights, which are worth a hundredth more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnkit.memory.packing import align_up
from nnkit.program import Window
from nnkit_tpu.chips import chip_named
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuReduce,
    TpuReshape,
    TpuTensor,
)

_EXTRA = 68  # bytes of an output channel's bias, multiplier and shift in front of its taps
_BIAS, _SCALE, _TABLE = 4, 5, 256  # bytes of an output's bias, of its multiplier and shift, of an activation's table
_WORTH = 1.01  # bytes that scales by output are worth, of those without


@dataclass(frozen=True)
class _Rates:
    """What weights and values take on a chip, in a precision of one size; bytes a cycle and cycles.

    conv, conv_beyond: rates of a convolution's weights, and where they exceed twice a lane's memory.
    row, narrow, wide: a row of a product's weights takes `row` cycles beside its bytes at the rate `narrow`, or
    `wide` from 1,000 bytes on, and `least` cycles at least. start: of a product. entry: more where its input is an
    image of one pixel, which leaves local memory value by value. value: that a value of a convolution's result takes
    to leave it as float32.
    """

    conv: float
    conv_beyond: float
    row: float
    narrow: float
    wide: float
    start: float
    entry: float
    value: float
    least: float = 5.1

    def row_cycles(self, size_bytes: int) -> float:
        """Cycles that reading one row of a product's weights takes."""
        return max(self.least, self.row + size_bytes / (self.narrow if size_bytes < _WIDE else self.wide))


_WIDE = 1000
_RATES: Mapping[tuple[str, int], _Rates] = {
    ("bm1684x", 1): _Rates(50.3, 45.0, 0.0, 37.0, 54.0, 4000.0, 0.0, 25.0),
    ("bm1684x", 2): _Rates(50.3, 45.0, 0.0, 37.0, 54.0, 4000.0, 0.0, 37.0),
    ("bm1688", 1): _Rates(15.7, 24.5, 0.0, 20.5, 20.5, 2000.0, 12000.0, 2.0),
    ("bm1688", 2): _Rates(15.7, 24.5, 29.0, 28.0, 28.0, 2000.0, 12000.0, 2.0),
}
"""By chip and bytes of a weight, from the profiles of layers of 64 to 25,088 inputs and 8 to 4,096 outputs."""

_OWN_GROUP: Mapping[str, float] = {"bm1684x": 1000.0}
"""Behind a reduction of rows, whose result lies in global memory, convolutions take so many cycles for a group of
their own, and a product has no start, on the chips where that was measured; on the bm1688 they are as elsewhere."""


def dense_layers(graph: TpuGraph, chip: str, mode: Mode) -> TpuGraph:
    """The graph with those of its fully connected layers as convolutions that are sooner done so.

    A layer is one with constant weights on one vector, [1, K]. mode: of the whole network.
    """
    are_better = _sooner_as_convolutions if (chip, 1) in _RATES else _hardly_more_bytes_as_convolutions
    for chain in _chains(graph):
        if are_better(graph, chain, chip, mode):
            graph = _with_convolutions(graph, chain)
    return graph


def _chains(graph: TpuGraph) -> list[list[TpuOp]]:
    """Runs of fully connected layers with activations between and behind them, each read by the next one alone."""
    readers = Counter(name for op in graph.ops for name in op.inputs)
    chains: dict[str, list[TpuOp]] = {}  # by what the last op gives
    for op in graph.ops:
        name = op.inputs[0]
        dense = _is_dense(graph, op)
        alone = readers[name] == 1 and name not in graph.outputs
        if name in chains and alone and (dense or isinstance(op, TpuActivation)):
            chains[op.output] = [*chains.pop(name), op]
        elif dense:
            chains[op.output] = [op]
    return list(chains.values())


def _is_dense(graph: TpuGraph, op: TpuOp) -> bool:
    if not isinstance(op, TpuMatMul) or op.weight is None or "cpu" in op.tags:
        return False
    shape = graph.tensors[op.inputs[0]].shape
    return len(shape) == 2 and shape[0] == 1


def _sooner_as_convolutions(graph: TpuGraph, chain: Sequence[TpuOp], chip: str, mode: Mode) -> bool:
    """By modelled cycles of the whole chain."""
    lanes, most = chip_named(chip).lanes, 2 * chip_named(chip).lane_bytes
    image = _image(graph, chain[0])
    rates = _RATES[chip, _size(chain[0], mode)]
    convolutions, products = 0.0, rates.entry if image[1:] == (1, 1) else 0.0
    reduced = chip in _OWN_GROUP and _reduces_rows(graph, graph.producer(chain[0].inputs[0]))
    convolutions += _OWN_GROUP[chip] if reduced else 0.0
    for op in chain:
        if not isinstance(op, TpuMatMul) or op.weight is None:
            continue
        size = _size(op, mode)
        rates = _RATES[chip, size]
        inputs, outputs = op.weight.shape
        channels, height, width = image if op is chain[0] else (inputs, 1, 1)
        of_lane = -(-outputs // lanes) * (align_up(channels, lanes) * height * width * size + _EXTRA)
        convolutions += lanes * of_lane / (rates.conv_beyond if of_lane > most else rates.conv)
        products += inputs * rates.row_cycles(outputs * size) + (0.0 if reduced else rates.start)
    if chain[0].inputs[0] in graph.inputs:
        return False  # the reshape of an input that is given in float32 would be computed so
    leaves = chain[-1].output
    if leaves in graph.outputs:
        convolutions += rates.value * graph.tensors[leaves].shape[1]
    return convolutions < products


def _reduces_rows(graph: TpuGraph, op: TpuOp | None) -> bool:
    return isinstance(op, TpuReduce) and len(graph.tensors[op.inputs[0]].shape) == 3


def _hardly_more_bytes_as_convolutions(graph: TpuGraph, chain: Sequence[TpuOp], chip: str, mode: Mode) -> bool:
    """By bytes loaded and stored. Products store and load what convolutions keep in local memory."""
    del chip
    first, last = chain[0], chain[-1]
    ends = [_values(graph, first.inputs[0]) * _size(first, mode)] if first.inputs[0] in graph.inputs else []
    ends += [_values(graph, last.output) * _size(last, mode)] if last.output in graph.outputs else []
    convolutions = products = 0
    for op in chain:
        size = _size(op, mode)
        constants, scales = _TABLE * (size == 1), 0
        if isinstance(op, TpuMatMul) and op.weight is not None:
            outputs = op.weight.shape[1]
            constants, scales = op.weight.size * size + _BIAS * outputs, _SCALE * outputs * (size == 1)
        convolutions += constants + scales
        products += constants + size * sum(_values(graph, name) for name in (op.inputs[0], op.output))
    if first.inputs[0] not in graph.inputs:
        products += _values(graph, first.inputs[0]) * _size(first, mode)  # what made it stores it
    return convolutions + sum(ends) <= _WORTH * products


def _values(graph: TpuGraph, name: str) -> int:
    return math.prod(graph.tensors[name].shape)


def _size(op: TpuOp, mode: Mode) -> int:
    """Bytes of a weight."""
    return 1 if mode == "INT8" and "hp" not in op.tags else 2


def _flatten(graph: TpuGraph, op: TpuOp) -> TpuReshape | None:
    """The reshape of an image [1, C, H, W] that makes the layer's vector."""
    before = graph.producer(op.inputs[0])
    if not isinstance(before, TpuReshape):
        return None
    shape = graph.tensors[before.inputs[0]].shape
    return before if len(shape) == 4 and shape[0] == 1 and "cpu" not in before.tags else None


def _image(graph: TpuGraph, op: TpuOp) -> tuple[int, int, int]:
    """[C, H, W] of what is flattened for the layer; of another vector [K, 1, 1]."""
    flatten = _flatten(graph, op)
    name = op.inputs[0] if flatten is None else flatten.inputs[0]
    shape = (*graph.tensors[name].shape, 1, 1)
    return shape[1], shape[2], shape[3]


def _with_convolutions(graph: TpuGraph, chain: Sequence[TpuOp]) -> TpuGraph:
    """The chain on images [1, N, 1, 1]: convolutions, and a reshape that makes its last vector."""
    tensors = dict(graph.tensors)
    image, flatten, name = _image(graph, chain[0]), _flatten(graph, chain[0]), chain[0].inputs[0]
    shaped, made = list[TpuOp](), list[TpuOp]()
    gone = list(chain)
    if flatten is not None:
        source = flatten.inputs[0]
        if len(graph.consumers(name)) == 1 and name not in graph.outputs:
            gone.append(flatten)
            del tensors[name]
    else:
        source = f"{name}_image"
        if source not in tensors:  # another chain on the same vector has it already
            shaped.append(TpuReshape(name=source, inputs=(name,), output=source, range_of=name))
        tensors[source] = TpuTensor(source, (1, *image))
    for op in chain:
        last = op is chain[-1]
        output = f"{op.output}_image" if last else op.output
        fields: dict[str, Any] = {
            "inputs": (source,),
            "output": output,
            "range_of": op.range_of or (op.output if last else ""),
        }
        kernel = image if op is chain[0] else (-1, 1, 1)
        made.append(_convolution(op, kernel, fields) if isinstance(op, TpuMatMul) else replace(op, **fields))
        tensors[output] = TpuTensor(output, (1, graph.tensors[op.output].shape[1], 1, 1))
        source = output
    end = chain[-1].output
    made.append(TpuReshape(name=f"{chain[-1].name}_vector", inputs=(source,), output=end))
    ops = list[TpuOp]()
    for op in graph.ops:
        if op is chain[0]:
            ops += shaped
        if op is chain[-1]:
            ops += made
        elif all(op is not each for each in gone):
            ops.append(op)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _convolution(op: TpuMatMul, kernel: tuple[int, int, int], fields: Mapping[str, Any]) -> TpuConv:
    """The layer as a convolution over one window. kernel: [C, H, W]."""
    if op.weight is None:
        raise AssertionError("a fully connected layer has weights")
    weight = op.weight.T.reshape(-1, *(op.weight.shape[0] if each < 0 else each for each in kernel))
    return TpuConv(
        name=op.name,
        tags=op.tags,
        origins=op.origins,
        mode=op.mode,
        weight=weight,
        bias=op.bias,
        window=Window(kernel_h=weight.shape[2], kernel_w=weight.shape[3]),
        relu=op.relu,
        relu_limit=op.relu_limit,
        **fields,
    )
