"""Arithmetic on two values that were both spread over a larger image alike, before they are spread.

A network that makes images larger adds what it computed, channels spread as pixels, to the image enlarged by a
filter, which is channels spread as pixels, too. The spreading moves bytes through global memory alone; done once,
behind the sum, it is the last layer, of which the one before is in local memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnkit_tpu.program import TpuBinary, TpuGraph, TpuOp, TpuPermute, TpuReshape, TpuTensor

_IMAGE = 4  # axes


@dataclass(frozen=True, eq=False)
class _Spread:
    """A reshape, a transposition and a reshape that move channels of an image into its pixels."""

    blocks: TpuReshape
    turned: TpuPermute
    image: TpuReshape


def summed_before_spreading(graph: TpuGraph) -> TpuGraph:
    """The graph with arithmetic on two values that nothing else reads, spread alike, before they are spread."""
    for op in graph.ops:
        if isinstance(op, TpuBinary) and len(op.inputs) == 2 and "cpu" not in op.tags:
            both = [_spread(graph, name) for name in op.inputs]
            if both[0] is not None and both[1] is not None and _alike(graph, both[0], both[1]):
                graph = _moved(graph, op, both[0], both[1])
    return graph


def _spread(graph: TpuGraph, name: str) -> _Spread | None:
    image = _only_for_it(graph, name)
    turned = _only_for_it(graph, image.inputs[0]) if isinstance(image, TpuReshape) else None
    blocks = _only_for_it(graph, turned.inputs[0]) if isinstance(turned, TpuPermute) else None
    if not (isinstance(image, TpuReshape) and isinstance(turned, TpuPermute) and isinstance(blocks, TpuReshape)):
        return None
    shapes = [graph.tensors[each].shape for each in (blocks.inputs[0], name)]
    return _Spread(blocks, turned, image) if all(len(shape) == _IMAGE for shape in shapes) else None


def _only_for_it(graph: TpuGraph, name: str) -> TpuOp | None:
    """What makes the value, if one op alone reads it."""
    alone = len(graph.consumers(name)) == 1 and name not in graph.outputs
    return graph.producer(name) if alone else None


def _alike(graph: TpuGraph, one: _Spread, other: _Spread) -> bool:
    def shapes(each: _Spread) -> list[tuple[int, ...]]:
        names = (each.blocks.inputs[0], each.blocks.output, each.turned.output, each.image.output)
        return [graph.tensors[name].shape for name in names]

    return one.turned.order == other.turned.order and shapes(one) == shapes(other)


def _moved(graph: TpuGraph, op: TpuBinary, one: _Spread, other: _Spread) -> TpuGraph:
    """The graph with the arithmetic before, and the layers of the first spreading behind it."""
    together = f"{op.output}_together"
    tensors = {**graph.tensors, together: TpuTensor(together, graph.tensors[one.blocks.inputs[0]].shape)}
    sources = one.blocks.inputs[0], other.blocks.inputs[0]
    behind = (
        replace(op, inputs=sources, output=together, range_of=op.range_of or op.output),
        replace(one.blocks, inputs=(together,), range_of=op.range_of or op.output),
        replace(one.turned, range_of=op.range_of or op.output),
        replace(one.image, output=op.output, range_of=op.range_of),
    )
    gone = {each.output for part in (one, other) for each in (part.blocks, part.turned, part.image)}
    ops: list[TpuOp] = []
    for each in graph.ops:
        if each is op:
            ops += behind
        elif each.output not in gone:
            ops.append(each)
    kept = {*graph.inputs, *(each.output for each in ops)}
    return replace(graph, tensors={name: t for name, t in tensors.items() if name in kept}, ops=tuple(ops))
