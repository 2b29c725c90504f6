"""Convolutions whose channels are cut into three behind a reshape, written as three convolutions.

The query, key and value of an attention over an image come from one convolution, whose result is reshaped to heads
and cut along the channels of a head. The compiler itself makes three convolutions of that when it simplifies a
network, and names them as it likes: in INT8 it then lacks their thresholds, and ends where it cannot derive them.
Parts with names of their own have the thresholds of what was seen of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnkit_tpu.places import readers_of
from nnkit_tpu.program import TpuConv, TpuGraph, TpuOp, TpuReshape, TpuSlice, TpuTensor

_PARTS = 3
_AXIS = 2  # of images, heads, channels of a head, pixels


def parted_convolutions(graph: TpuGraph) -> TpuGraph:
    """The graph with such convolutions in parts."""
    readers = readers_of(graph.ops)
    tensors, ops, gone = dict(graph.tensors), list[TpuOp](), set[str]()
    for op in graph.ops:
        cut = _cut(graph, op, readers) if isinstance(op, TpuConv) else ()
        if isinstance(op, TpuConv) and cut:
            gone |= {op.output, cut[0].inputs[0], *(part.output for part in cut)}
            ops += _parts(op, cut, tensors)
        elif op.output not in gone:
            ops.append(op)
    if not gone:
        return graph
    written = {name for op in ops for name in (*op.inputs, op.output)} | {*graph.inputs}
    kept = {name: tensor for name, tensor in tensors.items() if name in written}
    return replace(graph, tensors=kept, ops=tuple(ops))


def _cut(graph: TpuGraph, op: TpuConv, readers: Mapping[str, Sequence[TpuOp]]) -> tuple[TpuSlice, ...]:
    """The slices, by where they begin; none where it is not cut so."""
    _, channels, *image = graph.tensors[op.output].shape
    reshape, *others = readers.get(op.output) or (op,)
    if op.group != 1 or op.weight_scale or others or not isinstance(reshape, TpuReshape):
        return ()
    shape = graph.tensors[reshape.output].shape
    if len(shape) != 4 or (shape[1] * shape[2], shape[3]) != (channels, int(np.prod(image))):
        return ()
    slices = [each for each in readers.get(reshape.output) or () if isinstance(each, TpuSlice)]
    whole = len(slices) == len(readers.get(reshape.output) or ()) == _PARTS
    if (
        not whole
        or {op.output, reshape.output} & {*graph.outputs}
        or any("cpu" in each.tags for each in (op, *slices))
    ):
        return ()
    slices.sort(key=lambda each: each.offsets[_AXIS])
    ends = [0, *(each.ends[_AXIS] for each in slices)]
    for start, each in zip(ends, slices, strict=False):
        offsets = tuple(start if axis == _AXIS else 0 for axis in range(4))
        along = tuple(each.ends[_AXIS] if axis == _AXIS else size for axis, size in enumerate(shape))
        if each.offsets != offsets or each.ends != along or set(each.steps) != {1}:
            return ()
    return tuple(slices) if ends[-1] == shape[_AXIS] else ()


def _parts(op: TpuConv, slices: Sequence[TpuSlice], tensors: dict[str, TpuTensor]) -> Iterator[TpuOp]:
    """Three convolutions, and the shapes that the slices have; what is new is added to the tensors."""
    images, _, *image = tensors[op.output].shape
    of_a_head = slices[-1].ends[_AXIS]
    place = np.arange(len(op.weight)) % of_a_head
    for number, part in enumerate(slices):
        kept = (place >= part.offsets[_AXIS]) & (place < part.ends[_AXIS])
        channels = f"{part.output}_channels"
        tensors[channels] = TpuTensor(channels, (images, int(kept.sum()), *image))
        yield replace(
            op,
            name=op.name if number == 0 else channels,
            output=channels,
            weight=np.ascontiguousarray(op.weight[kept]),
            bias=None if op.bias is None else op.bias[kept],
            range_of=part.range_of or part.output,
        )
        yield TpuReshape(
            name=part.name,
            inputs=(channels,),
            output=part.output,
            tags=part.tags,
            origins=part.origins,
            range_of=part.range_of,
        )
