"""Matrix products that are cut into parts along their columns, written as one product for each part.

The query, key and value of an attention often come from one product with all weights, whose result is reshaped,
transposed and sliced. On the BM chips that moves every value several times through global memory; products of their
own are reshaped and transposed once, which the compiler makes part of the products that read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from nnkit.graph.view import Shape
from nnkit_tpu.factors_in_weights import reshaped_once
from nnkit_tpu.places import range_known_as, readers_of
from nnkit_tpu.program import (
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
)
from nnkit_tpu.recurrent import TpuRecurrent

_Readers = Mapping[str, Sequence[TpuOp]]


def parted_products(graph: TpuGraph) -> TpuGraph:
    """The graph with such products, with constant weights, in parts."""
    readers = readers_of(graph.ops)
    cuts = {op.output: _cut(graph, op, readers) for op in graph.ops if isinstance(op, TpuMatMul)}
    if not any(cuts.values()):
        return graph
    tensors, made = dict(graph.tensors), dict[str, list[TpuOp]]()
    gone = set[str]()
    for product in graph.ops:
        for number, part in enumerate(cuts.get(product.output) or ()):
            if isinstance(product, TpuMatMul):
                made[part.slice.output] = list(_of_its_own(product, part, tensors, is_first=number == 0))
                gone |= part.passed
    ops = [each for op in graph.ops for each in made.get(op.output, () if op.output in gone else (op,))]
    kept = {name: tensor for name, tensor in tensors.items() if name not in gone}
    return reshaped_once(replace(graph, tensors=kept, ops=tuple(ops)))


@dataclass(frozen=True)
class _Axis:
    """A part of an axis of the product's result: so many steps of a stride over its values in order."""

    size: int
    stride: int


_Layout = tuple[tuple[_Axis, ...], ...]
"""By axis of a value, the parts of the product's axes that it is made of; none for an axis of 1."""


@dataclass(frozen=True, eq=False)
class _Part:
    """One slice of a product. passed: values between the product and the slice, the product's included.

    layout: of what is sliced; axis: the one that is cut.
    """

    slice: TpuSlice
    layout: _Layout
    axis: int
    passed: frozenset[str]

    @property
    def cut(self) -> _Axis:
        """What is cut, of the axes of the product."""
        return self.layout[self.axis][0]


def _cut(graph: TpuGraph, product: TpuMatMul, readers: _Readers) -> list[_Part]:
    """The parts; empty where something else than slices reads the product, or where these cut no columns."""
    shape = graph.tensors[product.output].shape
    if product.weight is None or "cpu" in product.tags or shape[0] != 1:
        return []
    parts = list(_parts(graph, product.output, _of_shape(shape), frozenset(), readers))
    cut = [part for part in parts if part is not None and part.cut.stride * part.cut.size <= shape[-1]]
    return cut if len(cut) == len(parts) > 1 else []


def _parts(
    graph: TpuGraph, name: str, layout: _Layout, passed: frozenset[str], readers: _Readers
) -> Iterator[_Part | None]:
    """The slices of a value that has the layout; None: something else is made of it."""
    within, columns = passed | {name}, graph.tensors[name].shape
    if name in graph.outputs or not readers.get(name):
        yield None
        return
    for op in readers[name]:
        if "cpu" in op.tags:
            yield None
        elif isinstance(op, TpuSlice):
            yield _part(op, layout, columns, within)
        elif isinstance(op, TpuReshape):
            reshaped = _reshaped(layout, graph.tensors[op.output].shape)
            yield from (None,) if reshaped is None else _parts(graph, op.output, reshaped, within, readers)
        elif isinstance(op, TpuPermute):
            turned = tuple(layout[axis] for axis in op.order)
            yield from _parts(graph, op.output, turned, within, readers)
        else:
            yield None


def _part(op: TpuSlice, layout: _Layout, shape: Shape, passed: frozenset[str]) -> _Part | None:
    """The part that a slice takes out of columns; None where it takes something else."""
    cut = [
        axis
        for axis, (first, end, step) in enumerate(zip(op.offsets, op.ends, op.steps, strict=True))
        if (first, end, step) != (0, shape[axis], 1)
    ]
    whole = len(cut) == 1 and op.steps[cut[0]] == 1 and len(layout[cut[0]]) == 1
    return _Part(op, layout, cut[0], passed) if whole else None


def _of_shape(shape: Shape) -> _Layout:
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple((_Axis(size, stride),) if size > 1 else () for size, stride in zip(shape, strides, strict=True))


def _reshaped(layout: _Layout, shape: Shape) -> _Layout | None:
    """The layout of the value in another shape; None where an axis would mix parts."""
    left = [part for axis in layout for part in axis][::-1]
    result: list[tuple[_Axis, ...]] = []
    for size in shape:
        taken: list[_Axis] = []
        while size > 1:
            part = left.pop()
            if size % part.size == 0:
                taken.append(part)
                size //= part.size
            elif part.size % size == 0:
                rest = part.size // size
                taken.append(_Axis(size, part.stride * rest))
                left.append(_Axis(rest, part.stride))
                size = 1
            else:
                return None
        result.append(tuple(taken))
    return tuple(result)


def rows_together(graph: TpuGraph) -> TpuGraph:
    """The graph with products of lone rows, [1, rows, 1, K] by constant weights, on the rows together."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        before, after = (graph.tensors[name].shape for name in (op.inputs[0], op.output))
        if not (
            isinstance(op, TpuMatMul) and op.weight is not None and _is_of_lone_rows(before) and not op.tags
        ) or _ends_a_recurrence(graph, op):
            ops.append(op)
            continue
        rows, product = f"{op.output}_rows", f"{op.output}_product"
        for name, shape in ((rows, before), (product, after)):
            tensors[name] = TpuTensor(name, (1, prod(shape[:-1]), shape[-1]))
        known = range_known_as(graph, op.inputs[0])
        ops += [
            TpuReshape(name=rows, inputs=op.inputs, output=rows, range_of=known),
            replace(op, inputs=(rows,), output=product, range_of=op.range_of or op.output),
            TpuReshape(name=f"{op.name}_shape", inputs=(product,), output=op.output, range_of=op.range_of),
        ]
    return reshaped_once(replace(graph, tensors=tensors, ops=tuple(ops))) if len(ops) > len(graph.ops) else graph


def _ends_a_recurrence(graph: TpuGraph, op: TpuMatMul) -> bool:
    """Whether the product is of a recurrent layer's states, and for a softmax.

    Read by that alone it would run in F16, and make float32 of an LSTM in BF16, which takes three times as long.
    """
    source, readers = graph.producer(graph.reshaped_from(op.inputs[0])), graph.consumers(op.output)
    while len(readers) == 1 and isinstance(readers[0], TpuReshape):
        readers = graph.consumers(readers[0].output)
    return isinstance(source, TpuRecurrent) and any(isinstance(each, TpuSoftmax) for each in readers)


def _is_of_lone_rows(shape: Shape) -> bool:
    return len(shape) > 3 and shape[-2] == 1 and prod(shape[:-1]) > 1


def _of_its_own(product: TpuMatMul, part: _Part, tensors: dict[str, TpuTensor], *, is_first: bool) -> Iterator[TpuOp]:
    """The product with the part's columns, and what brings it into the shape of the slice.

    is_first: of the parts, the one that keeps the product's name.
    """
    before = tensors[product.output].shape
    cut = part.cut
    first, end = part.slice.offsets[part.axis], part.slice.ends[part.axis]
    columns = np.arange(before[-1]) // cut.stride % cut.size
    kept = (columns >= first) & (columns < end)
    output, known = part.slice.output, part.slice.range_of or part.slice.output
    last = f"{output}_product"
    tensors[last] = TpuTensor(last, (*before[:-1], int(kept.sum())))
    weight = None if product.weight is None else np.ascontiguousarray(product.weight[:, kept])
    bias = None if product.bias is None else product.bias[kept]
    yield replace(
        product, name=product.name if is_first else last, output=last, weight=weight, bias=bias, range_of=known
    )
    for number, (shape, order) in enumerate(_moves(part, cut, end - first)):
        if shape == tensors[last].shape and not order:
            continue
        name = f"{output}_move_{number}"
        tensors[name] = TpuTensor(name, shape)
        if order:
            yield TpuPermute(
                name=name, inputs=(last,), output=name, order=order, tags=part.slice.tags, range_of=known
            )
        else:
            yield TpuReshape(name=name, inputs=(last,), output=name, tags=part.slice.tags, range_of=known)
        last = name
    yield TpuReshape(
        name=part.slice.name,
        inputs=(last,),
        output=output,
        tags=part.slice.tags,
        origins=part.slice.origins,
        range_of=part.slice.range_of,
    )


def _moves(part: _Part, cut: _Axis, size: int) -> list[tuple[Shape, tuple[int, ...]]]:
    """Shapes, and orders of transpositions to them, from the part's product to the slice; empty: a reshape does.

    size: of the axis that was cut.
    """
    axes = [[each for each in axis if each is not cut or size > 1] for axis in part.layout]
    place = {each: at for at, each in enumerate(sorted((e for axis in axes for e in axis), key=lambda e: -e.stride))}
    blocks: list[list[_Axis]] = []
    for axis in axes:
        for at, each in enumerate(axis):
            if at and place[each] == place[blocks[-1][-1]] + 1:
                blocks[-1].append(each)
            else:
                blocks.append([each])
    sizes = [prod(size if each is cut else each.size for each in block) for block in blocks]
    source = sorted(range(len(blocks)), key=lambda index: place[blocks[index][0]])
    if source == list(range(len(blocks))):
        return []
    order = tuple(1 + source.index(index) for index in range(len(blocks)))
    return [((1, *(sizes[index] for index in source)), ()), ((1, *sizes), (0, *order))]
