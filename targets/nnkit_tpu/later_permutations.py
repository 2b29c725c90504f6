"""Transpositions of heads, taken behind what works on each row by itself.

Attention that normalises queries and keys, as Swin v2 does, has the normalisation between the transposition and the
product. Behind it the transposition becomes part of the product (`windows_in_front.py`). What lies between has its
axes in another order then, and so gets names of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnkit_tpu.places import readers_of
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReduce,
    TpuTensor,
)

_Readers = Mapping[str, Sequence[TpuOp]]


def later_permutations(graph: TpuGraph) -> TpuGraph:
    """The graph with such transpositions behind the rows' own layers, where a matrix product follows."""
    readers = readers_of(graph.ops)
    tensors = dict(graph.tensors)
    instead: dict[str, list[TpuOp]] = {}
    for op in graph.ops:
        rows = _on_rows(graph, op, readers) if isinstance(op, TpuPermute) else []
        if not isinstance(op, TpuPermute) or not rows:
            continue
        last, back = rows[-1].output, [op.order.index(axis) for axis in range(len(op.order))]
        names = {op.output: op.inputs[0]} | {each.output: f"{each.output}_unturned" for each in rows}
        for each in rows:
            shape = graph.tensors[each.output].shape
            name = names[each.output]
            tensors[name] = TpuTensor(name, tuple(shape[axis] for axis in back))
            inputs = tuple(names[value] for value in each.inputs)
            instead[each.output] = [replace(each, inputs=inputs, output=name, range_of=each.range_of or each.output)]
            if each.output != last:
                del tensors[each.output]
        turned = replace(op, inputs=(names[last],), output=last, range_of=rows[-1].range_of)
        instead[last].append(turned)
        instead[op.output] = []
        del tensors[op.output]
    if not instead:
        return graph
    ops = tuple(each for op in graph.ops for each in instead.get(op.output, [op]))
    return replace(graph, tensors=tensors, ops=ops)


def _on_rows(graph: TpuGraph, permute: TpuPermute, readers: _Readers) -> list[TpuOp]:
    """What works on each row behind the transposition, up to the one result that is read by matrix products alone."""
    rank = len(permute.order)
    if permute.order[-1] != rank - 1 or permute.tags:
        return []
    within, rows = {permute.output}, list[TpuOp]()
    for op in graph.ops:
        if within.intersection(op.inputs) and within.issuperset(op.inputs) and _is_of_rows(op, rank):
            within.add(op.output)
            rows.append(op)
    if not rows or not any(isinstance(op, TpuReduce) for op in rows):
        return []
    last = rows[-1].output
    for name in within:
        beyond = [op for op in readers.get(name, ()) if op not in rows]
        if (name in graph.outputs or bool(beyond)) != (name == last):
            return []
    same = graph.tensors[last].shape == graph.tensors[permute.output].shape
    return rows if same and last not in graph.outputs and _reach_products(graph, last, readers) else []


def _is_of_rows(op: TpuOp, rank: int) -> bool:
    if op.tags:
        return False
    if isinstance(op, TpuReduce):
        return op.axes == (rank - 1,) and op.keep_dims
    if isinstance(op, TpuBinary):
        return op.constant is None or op.constant.size == 1
    return isinstance(op, TpuActivation) and op.function != "prelu"


def _reach_products(graph: TpuGraph, name: str, readers: _Readers) -> bool:
    """Whether products of two computed values alone read it, in this or another order of axes."""
    return all(
        (isinstance(op, TpuMatMul) and op.weight is None)
        or (
            isinstance(op, TpuPermute)
            and op.output not in graph.outputs
            and _reach_products(graph, op.output, readers)
        )
        for op in readers[name]
    )
